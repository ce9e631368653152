# SPDX-License-Identifier: MIT
# cmake "-DNVCC=nvcc;options" -DARCHITECTURE=80 -DINCLUDE=... -DSOURCE=x.cu -DGATE=headmix-gate -DOUT=folder
#       [-DFAULT=regex] -P gate.cmake
# Compiles SOURCE for one architecture and hands nvcc's messages and the cubin to GATE. With FAULT the gate must fail
# with a message that matches.
get_filename_component(name "${SOURCE}" NAME_WE)
set(stem "${OUT}/${name}.sm_${ARCHITECTURE}")
if(ARCHITECTURE STREQUAL "90a")
  set(device "Sm90a")
else()
  set(device "Sm${ARCHITECTURE}")
endif()
execute_process(
  COMMAND ${NVCC} -std=c++20 -O3 -gencode arch=compute_${ARCHITECTURE},code=sm_${ARCHITECTURE} -cubin
          -I "${INCLUDE}" -I "${INCLUDE}/../tests" -DHEADMIX_GATE_DEVICE=${device}
          -Xptxas -v,-warn-spills,-warn-lmem-usage "${SOURCE}" -o "${stem}.cubin"
  RESULT_VARIABLE result OUTPUT_VARIABLE log ERROR_VARIABLE log)
file(WRITE "${stem}.log" "${log}")
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${SOURCE} does not compile:\n${log}")
endif()
execute_process(COMMAND "${GATE}" "${SOURCE}" "${stem}.log" "${stem}.cubin"
                RESULT_VARIABLE result OUTPUT_VARIABLE report ERROR_VARIABLE report)
message("sm_${ARCHITECTURE}, bytes of shared memory and of the stack:\n${report}")
if(NOT FAULT)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "the gate is shut")
  endif()
elseif(result EQUAL 0)
  message(FATAL_ERROR "the gate is open; expected a fault that matches '${FAULT}'")
elseif(NOT report MATCHES "FAULT: [^\n]*${FAULT}")
  message(FATAL_ERROR "no fault matches '${FAULT}'")
endif()
