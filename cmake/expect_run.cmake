# SPDX-License-Identifier: MIT
# cmake -DPROGRAM=... -DARGUMENTS=a|b -DSTATUS=n -DSTDERR=regex -DSTDOUT=regex -P expect_run.cmake
#
# Runs a program and checks its exit status and its output. With a status other than 0 it must print one line on stderr
# and nothing on stdout.
string(REPLACE "|" ";" arguments "${ARGUMENTS}")
execute_process(COMMAND "${PROGRAM}" ${arguments} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE err)
set(told "\nexit status ${status}\nstdout:\n${out}\nstderr:\n${err}")
if(NOT status STREQUAL STATUS)
  message(FATAL_ERROR "Expected exit status ${STATUS}${told}")
endif()
if(NOT err MATCHES "${STDERR}" OR NOT out MATCHES "${STDOUT}")
  message(FATAL_ERROR "Expected '${STDERR}' on stderr and '${STDOUT}' on stdout${told}")
endif()
if(NOT status EQUAL 0 AND (NOT err MATCHES "^[^\n]+\n$" OR NOT out STREQUAL ""))
  message(FATAL_ERROR "Expected one line on stderr and nothing on stdout${told}")
endif()
