# SPDX-License-Identifier: MIT
# cmake -DPROGRAM=... -DREPORT=... -P run_demo.cmake
#
# A script, since a workflow preset takes no arguments: HEADMIX_DEMO_STEPS is read when the demo runs, not at
# configuration.
set(arguments --report "${REPORT}")
if(NOT "$ENV{HEADMIX_DEMO_STEPS}" STREQUAL "")
  list(APPEND arguments --steps "$ENV{HEADMIX_DEMO_STEPS}")
endif()
execute_process(COMMAND "${PROGRAM}" ${arguments} COMMAND_ERROR_IS_FATAL ANY)
