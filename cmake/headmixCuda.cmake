# SPDX-License-Identifier: MIT
# headmix::cuda: headmix and the libraries of its CUDA backend. Read by the build and by find_package(headmix) with the
# component cuda; sets headmix_cuda_FOUND or headmix_cuda_NOT_FOUND_MESSAGE. Not by find_dependency, whose error would
# end the configuration also if the component is optional.
set(headmix_cuda_FOUND FALSE)
set(headmix_cuda_NOT_FOUND_MESSAGE "")
find_package(CUDAToolkit QUIET)
if(NOT CUDAToolkit_FOUND)
  set(headmix_cuda_NOT_FOUND_MESSAGE "no CUDA toolkit was found; set CUDAToolkit_ROOT or put nvcc on PATH")
elseif(CUDAToolkit_VERSION VERSION_LESS 12)
  set(headmix_cuda_NOT_FOUND_MESSAGE
      "C++20 needs CUDA 12 or newer, found ${CUDAToolkit_VERSION} in ${CUDAToolkit_BIN_DIR}")
elseif(NOT TARGET CUDA::cublas OR NOT TARGET CUDA::cudart_static)
  set(headmix_cuda_NOT_FOUND_MESSAGE "the CUDA toolkit in ${CUDAToolkit_BIN_DIR} has no cuBLAS or no static runtime")
else()
  set(headmix_cuda_FOUND TRUE)
  if(NOT TARGET headmix::cuda)
    add_library(headmix::cuda INTERFACE IMPORTED)
    target_link_libraries(headmix::cuda INTERFACE headmix::headmix CUDA::cudart_static CUDA::cublas)
    # cxx_std_20 does not apply to files of the language CUDA, for which CMake knows C++20 since 3.26.
    if("cuda_std_20" IN_LIST CMAKE_CUDA_COMPILE_FEATURES)
      target_compile_features(headmix::cuda INTERFACE cuda_std_20)
    else()
      target_compile_options(headmix::cuda INTERFACE $<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-std=c++20>)
    endif()
  endif()
endif()

# headmix_add_cuda_compiled(<target> <device> <scalar>...): a static library of the kernels of Cuda<scalar, device> that
# no layer has a part in (headmix/backend/cuda/compiled.cuh), with the flags and CUDA_ARCHITECTURES of the project. The
# device is Sm80 or Sm90a. Units of the language CUDA that link to it compile in half of the time.
function(headmix_add_cuda_compiled target device)
  if(NOT device MATCHES "^(Sm80|Sm90a)$")
    message(FATAL_ERROR "headmix_add_cuda_compiled: expected the device Sm80 or Sm90a, found ${device}")
  endif()
  set(units "program.cpp" "#define HEADMIX_IMPLEMENTATION\n#include <headmix/program/module.hpp>\n"
            "${device}.cu" "#include <headmix/headmix.cuh>\nHEADMIX_COMPILE_CUDA(headmix::${device})\n")
  foreach(scalar IN LISTS ARGN)
    string(REPLACE "headmix::" "" name "${scalar}")
    list(APPEND units "${device}_${name}.cu"
         "#include <headmix/headmix.cuh>\nHEADMIX_COMPILE_CUDA_SCALAR(headmix::${device}, ${scalar})\n")
  endforeach()
  add_library(${target} STATIC EXCLUDE_FROM_ALL)
  while(units)
    list(POP_FRONT units name content)
    set(source "${CMAKE_CURRENT_BINARY_DIR}/${target}/${name}")
    file(CONFIGURE OUTPUT "${source}" CONTENT "${content}" @ONLY)
    target_sources(${target} PRIVATE "${source}")
  endwhile()
  target_compile_definitions(${target} PUBLIC HEADMIX_COMPILED HEADMIX_CUDA_COMPILED)
  target_link_libraries(${target} PUBLIC headmix::cuda)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF)
endfunction()
