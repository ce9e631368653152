# SPDX-License-Identifier: MIT
# cmake "-DNVCC=nvcc;options" -DNM=nm -DINCLUDE=... -DSOURCE=unit.cu -DOUT=folder -P names.cmake
# Units for different architectures share no function that has to do with a kernel, or the linker would give one of them
# the code of the other. Two units for the same one do.
cmake_minimum_required(VERSION 3.25)
foreach(unit IN ITEMS "80;800" "90;900" "80_again;800")
  list(GET unit 0 name)
  string(REGEX REPLACE "_.*" "" architecture "${name}")
  set(object "${OUT}/unit_${name}.o")
  execute_process(COMMAND ${NVCC} -std=c++20 -O0 -gencode arch=compute_${architecture},code=sm_${architecture}
                          -DUNIT=unit_${name} -I "${INCLUDE}" -c "${SOURCE}" -o "${object}"
                  RESULT_VARIABLE result OUTPUT_VARIABLE log ERROR_VARIABLE log)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${SOURCE} does not compile:\n${log}")
  endif()
  execute_process(COMMAND "${NM}" --defined-only "${object}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  # Weak ones, of which the linker keeps one.
  string(REGEX MATCHALL " [VWuv] [^\n]*" weak_${name} "${symbols}")
  list(FILTER weak_${name} INCLUDE REGEX "softmax|stream_queue")
  list(FILTER weak_${name} EXCLUDE REGEX "name_source|signature|type_name") # texts, the same everywhere
  list(LENGTH weak_${name} count)
  if(count LESS 2)
    message(FATAL_ERROR "found ${count} functions of kernels in:\n${symbols}")
  endif()
endforeach()
if(NOT weak_80 STREQUAL weak_80_again)
  message(FATAL_ERROR "units for one architecture differ:\n${weak_80}\n${weak_80_again}")
endif()
foreach(symbol IN LISTS weak_80)
  if(symbol IN_LIST weak_90)
    message(FATAL_ERROR "units for sm_80 and sm_90 both define ${symbol}")
  endif()
endforeach()
