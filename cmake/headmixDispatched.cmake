# SPDX-License-Identifier: MIT
# headmix::dispatched: headmix with the kernels of DispatchedCpu for float, double and bfloat16, compiled for each of
# its instruction sets, in a static library of the project that asks for it. Read by the build and by
# find_package(headmix) with the component dispatched.

# A library of that kind for some scalars.
function(headmix_dispatched_library target)
  add_library(${target} STATIC EXCLUDE_FROM_ALL)
  target_link_libraries(${target} PUBLIC headmix::headmix)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  # Kernels that are not optimised are of no use, and leave more inline functions to the linker.
  target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Release,RelWithDebInfo>>:-O2>)
  set(levels baseline)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND levels avx2 avx512 avx512_bf16 amx)
  endif()
  set(options_baseline "")
  set(options_avx2 -mavx2 -mfma)
  set(options_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma)
  set(options_avx512_bf16 ${options_avx512} -mavx512bf16)
  set(options_amx ${options_avx512_bf16} -mamx-tile -mamx-bf16 -mamx-int8)
  # In ascending order: the linker takes inline functions from the first unit that has them (cpu/compile_level.hpp).
  foreach(level IN LISTS levels)
    foreach(scalar IN LISTS ARGN)
      if(level MATCHES "bf16|amx" AND NOT scalar MATCHES "bfloat16")
        continue() # nothing that the level before has not
      endif()
      string(REPLACE "headmix::" "" name "${scalar}")
      set(source "${CMAKE_CURRENT_BINARY_DIR}/${target}/${level}_${name}.cpp")
      file(CONFIGURE OUTPUT "${source}" CONTENT
           "#include <headmix/backend/cpu/compile_level.hpp>\nHEADMIX_COMPILE_CPU_LEVEL(@scalar@)\n" @ONLY)
      set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS "${options_${level}}"
                                                         COMPILE_DEFINITIONS HEADMIX_CPU_LEVEL=${level})
      target_sources(${target} PRIVATE "${source}")
    endforeach()
  endforeach()
endfunction()

if(NOT TARGET headmix-dispatched)
  headmix_dispatched_library(headmix-dispatched float double headmix::bfloat16)
  add_library(headmix::dispatched ALIAS headmix-dispatched)
endif()
set(headmix_dispatched_FOUND TRUE)
