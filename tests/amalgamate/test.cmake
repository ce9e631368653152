# SPDX-License-Identifier: MIT
# cmake -DROOT=<repository> -DOUT=<folder> -DEIGEN=<folder> -DCOMPILER=<c++> -P test.cmake: the single header
# preprocesses to the text and macros of all headers, and a program with it alone compiles and runs.
cmake_minimum_required(VERSION 3.25)
set(headers headmix/headmix.hpp headmix/io/safetensors.hpp)
list(JOIN headers "," joined)
file(REMOVE_RECURSE "${OUT}")
file(MAKE_DIRECTORY "${OUT}")

function(run)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY "${OUT}" RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}: ${status}")
  endif()
endfunction()

run("${CMAKE_COMMAND}" -DOUT=more.hpp "-DHEADERS=${joined}" -P "${ROOT}/cmake/amalgamate.cmake")
file(WRITE "${OUT}/one.cpp" "#include \"more.hpp\"\n")
list(TRANSFORM headers REPLACE "(.+)" "#include \"\\1\"\n" OUTPUT_VARIABLE includes)
list(JOIN includes "" includes)
file(WRITE "${OUT}/many.cpp" "${includes}")
foreach(unit IN ITEMS one many)
  run("${COMPILER}" -std=c++20 -I "${ROOT}/include" -isystem "${EIGEN}" -E -P -dD ${unit}.cpp -o ${unit}.ii)
  file(READ "${OUT}/${unit}.ii" ${unit})
  string(REGEX REPLACE "[ \n]*\n" "\n" ${unit} "${${unit}}") # g++ keeps some empty lines of macros
endforeach()
if(NOT one STREQUAL many)
  message(FATAL_ERROR "${OUT}: the compiler sees other text in one.ii than in many.ii")
endif()
file(REMOVE "${OUT}/one.ii" "${OUT}/many.ii")

run("${CMAKE_COMMAND}" -DOUT=headmix.hpp -P "${ROOT}/cmake/amalgamate.cmake")
run("${COMPILER}" -std=c++20 -O0 -Wall -Wextra -Wconversion -Wshadow -Werror -I "${OUT}" -isystem "${EIGEN}" -pthread
    "${ROOT}/tests/amalgamate/main.cpp" -o program)
run("${OUT}/program")
