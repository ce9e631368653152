# SPDX-License-Identifier: MIT
# cmake -DCOMPILER=... -DFLAGS=... -DINCLUDES=... -DSOURCE=... -P compile_fail.cmake
# SOURCE must compile as it is, and with -DMUST_FAIL be refused with a message that matches its first line,
# "// expect: <regex>". Compiling it both ways tells the wanted error from a typo.
file(STRINGS "${SOURCE}" first_line LIMIT_COUNT 1)
if(NOT first_line MATCHES "^// expect: (.+)$")
  message(FATAL_ERROR "${SOURCE}: the first line is not '// expect: <regex>'")
endif()
set(expected "${CMAKE_MATCH_1}")

list(TRANSFORM INCLUDES PREPEND "-I")
set(command "${COMPILER}" ${FLAGS} ${INCLUDES} -fsyntax-only "${SOURCE}")
execute_process(COMMAND ${command} RESULT_VARIABLE result ERROR_VARIABLE errors)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "must compile without MUST_FAIL:\n${errors}")
endif()
execute_process(COMMAND ${command} -DMUST_FAIL RESULT_VARIABLE result ERROR_VARIABLE errors)
if(result EQUAL 0)
  message(FATAL_ERROR "compiles with MUST_FAIL; expected an error that matches '${expected}'")
endif()
if(NOT errors MATCHES "${expected}")
  message(FATAL_ERROR "no error matches '${expected}':\n${errors}")
endif()
