# SPDX-License-Identifier: MIT
# Flags for targets of this repository. headmix::headmix itself carries none: a user's warnings, optimisation and
# instruction set are the user's.

# Warnings, strict C++20 and sanitizers.
function(headmix_own_target target)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion -Wshadow $<$<BOOL:${HEADMIX_WERROR}>:-Werror>)
  # GCC collects garbage from 128 MB on, which takes a tenth to a fifth of the compile time of our units, and saves
  # little.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1048576>)
  if(HEADMIX_SANITIZE)
    target_compile_options(
      ${target} PRIVATE -fsanitize=${HEADMIX_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${HEADMIX_SANITIZE})
  endif()
endfunction()

# headmix_own_target for a program that nvcc compiles, in part or in whole, with headmix::cuda or another library. Never
# with -rdc.
function(headmix_own_cuda_target target)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF CUDA_EXTENSIONS OFF CUDA_SEPARABLE_COMPILATION OFF)
  target_link_libraries(${target} PRIVATE $<IF:$<BOOL:${ARGN}>,${ARGN},headmix::cuda>)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-std=c++20>)
  set(cxx "-Wall;-Wextra;-Wconversion;-Wshadow")
  set(cuda "-Xcompiler=-Wall,-Wextra") # it fails with -Wpedantic
  if(HEADMIX_WERROR)
    list(APPEND cxx -Werror)
    list(APPEND cuda -Werror=all-warnings -Xcompiler=-Werror)
  endif()
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${cxx}>" "$<$<COMPILE_LANGUAGE:CUDA>:${cuda}>")
endfunction()

# In the presets for tests all targets have equal flags, and the tests' precompiled header also serves programs that
# link to headmix::compiled.
function(headmix_read_precompiled target)
  if(HEADMIX_BUILD_TESTS AND CMAKE_BUILD_TYPE STREQUAL "Debug" AND NOT HEADMIX_NATIVE AND NOT HEADMIX_ARCH)
    target_precompile_headers(${target} REUSE_FROM headmix-precompiled)
  endif()
endfunction()

# For programs that are timed. Not for tests, which must pass with the compiler's default instruction set.
function(headmix_native_target target)
  # Without the flag std::sqrt may set errno, which prevents vectorisation of the optimiser's update.
  target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-fno-math-errno>)
  if(HEADMIX_ARCH)
    target_compile_options(${target} PRIVATE -march=${HEADMIX_ARCH} $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  elseif(HEADMIX_NATIVE)
    include(CheckCXXCompilerFlag)
    check_cxx_compiler_flag(-march=native HEADMIX_HAS_MARCH_NATIVE)
    target_compile_options(${target} PRIVATE $<$<BOOL:${HEADMIX_HAS_MARCH_NATIVE}>:-march=native>)
    # GCC 12 warns of the undefined operand of its own AVX-512 intrinsics, which Eigen calls.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  endif()
endfunction()

# Sets the reason why tests cannot start several MPI processes, or nothing; and the environment of mpirun.
function(headmix_mpi_launch out_reason out_environment)
  set(reason "")
  if(NOT headmix_mpi_FOUND)
    set(reason "${headmix_mpi_NOT_FOUND_MESSAGE}")
  elseif(NOT MPIEXEC_EXECUTABLE)
    set(reason "MPI has no mpirun here; apt-get install openmpi-bin")
  endif()
  # Open MPI starts no more processes than cores, and none for root, without these variables; others need none.
  set(environment OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe)
  execute_process(COMMAND id -u OUTPUT_VARIABLE user OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(user STREQUAL "0")
    list(APPEND environment OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1
         PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1)
  endif()
  set(${out_reason} "${reason}" PARENT_SCOPE)
  set(${out_environment} "${environment}" PARENT_SCOPE)
endfunction()
