# SPDX-License-Identifier: MIT
# headmix::nccl: headmix::cuda and NCCL, for distributed/nccl.cuh. Read by the build and by find_package(headmix) with
# the component nccl; sets headmix_nccl_FOUND or headmix_nccl_NOT_FOUND_MESSAGE. NCCL is searched in NCCL_ROOT (a
# variable of CMake or of the environment), in the CUDA toolkit and in the system's library folders.
include("${CMAKE_CURRENT_LIST_DIR}/headmixCuda.cmake")
set(headmix_nccl_FOUND FALSE)
set(headmix_nccl_NOT_FOUND_MESSAGE "${headmix_cuda_NOT_FOUND_MESSAGE}")
if(headmix_cuda_FOUND)
  find_path(HEADMIX_NCCL_INCLUDE_DIR nccl.h HINTS ${NCCL_ROOT} ENV NCCL_ROOT ${CUDAToolkit_INCLUDE_DIRS}
            PATH_SUFFIXES include)
  find_library(HEADMIX_NCCL_LIBRARY nccl HINTS ${NCCL_ROOT} ENV NCCL_ROOT ${CUDAToolkit_LIBRARY_DIR}
               PATH_SUFFIXES lib64 lib)
  mark_as_advanced(HEADMIX_NCCL_INCLUDE_DIR HEADMIX_NCCL_LIBRARY)
  set(headmix_nccl_version "")
  if(HEADMIX_NCCL_INCLUDE_DIR)
    file(STRINGS "${HEADMIX_NCCL_INCLUDE_DIR}/nccl.h" headmix_nccl_version REGEX "define NCCL_(MAJOR|MINOR) +[0-9]+")
    list(TRANSFORM headmix_nccl_version REPLACE "^.*NCCL_[A-Z]+ +([0-9]+).*$" "\\1")
    list(JOIN headmix_nccl_version "." headmix_nccl_version)
  endif()
  if(NOT HEADMIX_NCCL_INCLUDE_DIR OR NOT HEADMIX_NCCL_LIBRARY)
    set(headmix_nccl_NOT_FOUND_MESSAGE "no NCCL was found; set NCCL_ROOT")
  elseif(headmix_nccl_version VERSION_LESS 2.13)
    set(headmix_nccl_NOT_FOUND_MESSAGE
        "NCCL 2.13 or newer is needed, found ${headmix_nccl_version} in ${HEADMIX_NCCL_INCLUDE_DIR}")
  else()
    set(headmix_nccl_FOUND TRUE)
    if(NOT TARGET headmix::nccl)
      add_library(headmix::nccl INTERFACE IMPORTED)
      target_include_directories(headmix::nccl INTERFACE "${HEADMIX_NCCL_INCLUDE_DIR}")
      target_link_libraries(headmix::nccl INTERFACE headmix::cuda "${HEADMIX_NCCL_LIBRARY}")
    endif()
  endif()
endif()
