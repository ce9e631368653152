# SPDX-License-Identifier: MIT
# cmake -DDOXYGEN=... -DROOT=<repository> -DOUT=<folder> -P doxygen.cmake: the site is built without a warning, and it has
# the pages and the reference.
cmake_minimum_required(VERSION 3.25)
file(READ "${ROOT}/Doxyfile" doxyfile)
file(REMOVE_RECURSE "${OUT}")
file(MAKE_DIRECTORY "${OUT}")
file(WRITE "${OUT}/Doxyfile" "${doxyfile}\nOUTPUT_DIRECTORY = \"${OUT}\"\nWARN_AS_ERROR = FAIL_ON_WARNINGS\n")
execute_process(COMMAND "${DOXYGEN}" "${OUT}/Doxyfile" WORKING_DIRECTORY "${ROOT}" RESULT_VARIABLE status
                ERROR_VARIABLE warnings)
string(REPLACE ";" "," warnings "${warnings}")
if(NOT status EQUAL 0 OR NOT warnings STREQUAL "")
  message(FATAL_ERROR "doxygen says:\n${warnings}")
endif()
file(READ "${OUT}/docs/index.html" index)
if(NOT index MATCHES "The equations are the code")
  message(FATAL_ERROR "README.md is not the first page of ${OUT}/docs/index.html")
endif()
foreach(text IN ITEMS "Add an option to a layer" "Without a GPU" "How it measures" "load_balance")
  execute_process(COMMAND grep -rql "${text}" "${OUT}/docs" RESULT_VARIABLE missing)
  if(missing)
    message(FATAL_ERROR "the site has no page with '${text}'")
  endif()
endforeach()
