# SPDX-License-Identifier: MIT
# cmake -DINCLUDE=... -P static_asserts.cmake
# Every static assertion of the headers has a text.
file(GLOB_RECURSE headers RELATIVE "${INCLUDE}" "${INCLUDE}/*.hpp" "${INCLUDE}/*.cuh" "${INCLUDE}/*.h")
set(found 0)
foreach(header IN LISTS headers)
  file(READ "${INCLUDE}/${header}" text)
  string(REGEX REPLACE "//[^\n]*" "" text "${text}")
  string(REGEX REPLACE "[][]" " " text "${text}") # brackets and semicolons mean something in lists
  string(REPLACE ";" "@" text "${text}")
  string(REGEX MATCHALL "static_assert\\([^@]*@" assertions "${text}")
  foreach(assertion IN LISTS assertions)
    if(NOT assertion MATCHES "\"")
      message(SEND_ERROR "${header}: a static assertion without a text: ${assertion}")
    endif()
    math(EXPR found "${found} + 1")
  endforeach()
endforeach()
if(found LESS 100)
  message(FATAL_ERROR "expected more than 100 static assertions in ${INCLUDE}, found ${found}")
endif()
