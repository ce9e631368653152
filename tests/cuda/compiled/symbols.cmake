# SPDX-License-Identifier: MIT
# cmake -DNM=nm -DOBJECTS=<objects> -P symbols.cmake: the unit of the layer launches row functions and trees, and no
# kernel of the library.
cmake_minimum_required(VERSION 3.25)
list(FILTER OBJECTS INCLUDE REGEX "compiled_test")
execute_process(COMMAND "${NM}" -C "${OBJECTS}" OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "check_operands<headmix::cuda_kernels::[a-z_]+" kernels "${text}")
list(TRANSFORM kernels REPLACE "^.*::" "")
list(REMOVE_DUPLICATES kernels)
list(LENGTH kernels count)
if(count LESS 3)
  message(FATAL_ERROR "expected the layer's own kernels in ${OBJECTS}, found: ${kernels}")
endif()
list(FILTER kernels EXCLUDE REGEX "^(each_row|map|row_sum|col_sum|gemm)_")
if(kernels)
  message(FATAL_ERROR "expected these kernels in the library alone, found them in ${OBJECTS}: ${kernels}")
endif()
