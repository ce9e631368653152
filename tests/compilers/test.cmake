# SPDX-License-Identifier: MIT
# cmake -DCOMMAND=<compiler and flags> -DEIGEN=<include> -DROOT=<repository> -DPROGRAM=<path>
#       -DRUNNER=<emulator, nobody or nothing> -P test.cmake
# main.cpp compiles without a warning, and the program exits with 0.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${COMMAND} -I "${ROOT}/include" -isystem "${EIGEN}" "${ROOT}/tests/compilers/main.cpp" -o "${PROGRAM}"
                COMMAND_ERROR_IS_FATAL ANY)
if(NOT RUNNER STREQUAL "nobody")
  execute_process(COMMAND ${RUNNER} "${PROGRAM}" COMMAND_ERROR_IS_FATAL ANY)
endif()
