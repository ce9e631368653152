# SPDX-License-Identifier: MIT
# cmake -DCOMMAND=<compiler and flags> -DINCLUDES=<folders> -DSYSTEM_INCLUDES=<folders> -DSOURCES=<files> -DPROGRAM=<path>
#       -DRUNNER=<emulator, nobody or nothing> [-DCASES=<filter>] -P test.cmake
# The sources compile without a warning, and the program exits with 0.
cmake_minimum_required(VERSION 3.25)
list(TRANSFORM INCLUDES PREPEND "-I")
list(TRANSFORM SYSTEM_INCLUDES PREPEND "-isystem")
execute_process(COMMAND ${COMMAND} ${INCLUDES} ${SYSTEM_INCLUDES} ${SOURCES} -o "${PROGRAM}" COMMAND_ERROR_IS_FATAL ANY)
if(NOT RUNNER STREQUAL "nobody")
  set(arguments "")
  if(CASES)
    set(arguments "--test-case=${CASES}")
  endif()
  execute_process(COMMAND ${RUNNER} "${PROGRAM}" ${arguments} OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  message("${output}")
  if(CASES AND output MATCHES " 0 passed")
    message(FATAL_ERROR "the filter ${CASES} matches no test")
  endif()
endif()
