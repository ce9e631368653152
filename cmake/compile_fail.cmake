# SPDX-License-Identifier: MIT
# cmake -DCOMPILER=... -DFLAGS=... -DINCLUDES=... -DSOURCE=... -P compile_fail.cmake
#
# With -DMUST_FAIL, SOURCE must be refused with a message that matches its first line, "// expect: <regex>". With "//
# expect first of <n> lines: <regex>", the first error must match, and the compiler may print at most this number of
# lines, and 20,000 bytes.
file(STRINGS "${SOURCE}" first_line LIMIT_COUNT 1)
if(first_line MATCHES "^// expect first of ([0-9]+) lines: (.+)$")
  set(most "${CMAKE_MATCH_1}")
  set(expected "${CMAKE_MATCH_2}")
elseif(first_line MATCHES "^// expect: (.+)$")
  set(most 0)
  set(expected "${CMAKE_MATCH_1}")
else()
  message(FATAL_ERROR "${SOURCE}: the first line is neither '// expect: <regex>' nor '// expect first of <n> lines: <regex>'")
endif()

list(TRANSFORM INCLUDES PREPEND "-I")
execute_process(COMMAND "${COMPILER}" ${FLAGS} ${INCLUDES} -fsyntax-only -DMUST_FAIL "${SOURCE}"
                RESULT_VARIABLE result ERROR_VARIABLE errors)
if(result EQUAL 0)
  message(FATAL_ERROR "compiles with MUST_FAIL; expected an error that matches '${expected}'")
endif()
set(found "${errors}")
if(most)
  string(REGEX MATCH "[^\n]*error: [^\n]*" found "${errors}")
  string(REGEX MATCHALL "\n" ends "${errors}")
  list(LENGTH ends lines)
  if(lines GREATER most)
    message(FATAL_ERROR "the compiler prints ${lines} lines, expected at most ${most}:\n${errors}")
  endif()
  string(LENGTH "${errors}" bytes)
  if(bytes GREATER 20000)
    message(FATAL_ERROR "the compiler prints ${bytes} bytes, expected at most 20000:\n${errors}")
  endif()
endif()
if(NOT found MATCHES "${expected}")
  message(FATAL_ERROR "no error matches '${expected}', found '${found}' in:\n${errors}")
endif()
