# SPDX-License-Identifier: MIT
# cmake -DLAUNCH=<mpirun;-n;4> -DRANKS=4 -DPROGRAM=<headmix-test-mpi> -DFAULT=<argument> -DREASON=<regex> -P
# fault.cmake: the program ends with a status other than 0, leaves no process behind, and prints one line, the reason;
# none if the reason is empty, since then only mpirun can report it.
cmake_minimum_required(VERSION 3.25)
string(TIMESTAMP begin "%s")
execute_process(COMMAND ${LAUNCH} ${PROGRAM} "${FAULT}" TIMEOUT 60 RESULT_VARIABLE status OUTPUT_VARIABLE output
                ERROR_VARIABLE errors)
string(TIMESTAMP end "%s")
math(EXPR seconds "${end} - ${begin}")
set(said "after ${seconds} s, status ${status}, stdout:\n${output}\nstderr:\n${errors}")
if(status STREQUAL "0")
  message(FATAL_ERROR "expected a failure; ${said}")
elseif(status MATCHES "timeout")
  message(FATAL_ERROR "expected an end; ${said}")
endif()

string(REPLACE ";" "," lines "${errors}")
string(REGEX REPLACE "[][]" "|" lines "${lines}") # brackets would join lines
string(REGEX REPLACE "\r?\n" ";" lines "${lines}")
set(own ${lines})
list(FILTER own INCLUDE REGEX "^(rank [0-9]+|ours): ")
list(LENGTH own count)
if(REASON STREQUAL "")
  if(NOT count EQUAL 0)
    message(FATAL_ERROR "expected no line of a rank; ${said}")
  elseif(NOT "${output}${errors}" MATCHES "[Ss]ignal 9|KILLED|Killed")
    message(FATAL_ERROR "expected that mpirun names the signal; ${said}")
  endif()
elseif(NOT count EQUAL 1 OR NOT own MATCHES "^${REASON}$")
  message(FATAL_ERROR "expected the line '${REASON}', and no other one of a rank; ${said}")
endif()

# Processes end after mpirun at the latest.
string(REGEX MATCHALL "process [0-9]+" processes "${output}")
list(LENGTH processes count)
if(NOT count EQUAL RANKS)
  message(FATAL_ERROR "expected ${RANKS} processes; ${said}")
endif()
if(EXISTS "/proc/self/stat")
  execute_process(COMMAND "${CMAKE_COMMAND}" -E sleep 0.2)
  foreach(process IN LISTS processes)
    string(REGEX REPLACE "process " "" process "${process}")
    if(EXISTS "/proc/${process}/exe")
      message(FATAL_ERROR "process ${process} is left behind; ${said}")
    endif()
  endforeach()
endif()
