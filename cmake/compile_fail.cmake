# SPDX-License-Identifier: MIT
# cmake -DCOMPILER=... -DFLAGS=... -DINCLUDES=... -DSOURCE=... -P compile_fail.cmake
# With -DMUST_FAIL, SOURCE must be refused with a message that matches its first line, "// expect: <regex>".
file(STRINGS "${SOURCE}" first_line LIMIT_COUNT 1)
if(NOT first_line MATCHES "^// expect: (.+)$")
  message(FATAL_ERROR "${SOURCE}: the first line is not '// expect: <regex>'")
endif()
set(expected "${CMAKE_MATCH_1}")

list(TRANSFORM INCLUDES PREPEND "-I")
execute_process(COMMAND "${COMPILER}" ${FLAGS} ${INCLUDES} -fsyntax-only -DMUST_FAIL "${SOURCE}"
                RESULT_VARIABLE result ERROR_VARIABLE errors)
if(result EQUAL 0)
  message(FATAL_ERROR "compiles with MUST_FAIL; expected an error that matches '${expected}'")
endif()
if(NOT errors MATCHES "${expected}")
  message(FATAL_ERROR "no error matches '${expected}':\n${errors}")
endif()
