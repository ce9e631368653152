# SPDX-License-Identifier: MIT
# headmix::compiled: headmix with the kernels of Cpu<float>, Cpu<double> and Cpu<bfloat16>, and code shared by all
# layers, compiled once, in a static library of the requesting project and with its flags. Kernels are compiled for
# several instruction sets, of which Cpu uses the best that the machine supports. Units that link to it compile faster.
# Read by the build and by find_package(headmix) with the component compiled.

# headmix_add_compiled(<target> <scalar>... [HIGHEST_LEVEL <level>]): such a static library, with the kernels for these
# scalars. Units that link to it need its compile flags. The level is the highest of headmix/backend/cpu_level.hpp with
# kernels: by default amx on x86-64, but baseline, the project's flags, if these contain -march=native.
function(headmix_add_compiled target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" HIGHEST_LEVEL "")
  set(known baseline avx2 avx512 avx512_bf16 amx)
  set(highest "${arg_HIGHEST_LEVEL}")
  if(NOT highest)
    get_property(options DIRECTORY PROPERTY COMPILE_OPTIONS)
    set(highest baseline)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND NOT "${CMAKE_CXX_FLAGS} ${options}" MATCHES "-march=native")
      set(highest amx)
    endif()
  endif()
  list(FIND known "${highest}" last)
  if(last EQUAL -1)
    list(JOIN known ", " levels)
    message(FATAL_ERROR "headmix_add_compiled: HIGHEST_LEVEL: expected one of ${levels}, found ${highest}")
  endif()
  math(EXPR count "${last} + 1")
  list(SUBLIST known 0 ${count} levels)
  list(PREPEND levels modules)
  set(options_baseline "")
  set(options_avx2 -mavx2 -mfma)
  set(options_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma)
  set(options_avx512_bf16 ${options_avx512} -mavx512bf16)
  set(options_amx ${options_avx512_bf16} -mamx-tile -mamx-bf16 -mamx-int8)

  # In a unit of its own, as in headmix_add_cuda_compiled: a program may link to both libraries.
  set(source "${CMAKE_CURRENT_BINARY_DIR}/${target}/program.cpp")
  file(CONFIGURE OUTPUT "${source}" CONTENT
       "#define HEADMIX_IMPLEMENTATION\n#include <headmix/program/module.hpp>\n" @ONLY)
  add_library(${target} STATIC EXCLUDE_FROM_ALL "${source}")
  set(once "HEADMIX_COMPILE_REFERENCE\nHEADMIX_COMPILE_MODULES(headmix::Reference<double>)\n")
  # In ascending order: the linker takes inline functions from the first unit that has them (backend/cpu/kernels.hpp).
  # Kernels are apart from modules, so that those of the baseline have all that the others have.
  foreach(level IN LISTS levels)
    foreach(scalar IN LISTS arg_UNPARSED_ARGUMENTS)
      if(level MATCHES "bf16|amx" AND NOT scalar MATCHES "bfloat16")
        continue() # nothing new at this level
      endif()
      string(REPLACE "headmix::" "" name "${scalar}")
      set(source "${CMAKE_CURRENT_BINARY_DIR}/${target}/${level}_${name}.cpp")
      if(level STREQUAL "modules")
        file(CONFIGURE OUTPUT "${source}" CONTENT
             "#include <headmix/headmix.hpp>\nHEADMIX_COMPILE_MODULES(headmix::Cpu<@scalar@>)\n@once@" @ONLY)
        set(once "")
      else()
        file(CONFIGURE OUTPUT "${source}" CONTENT
             "#include <headmix/backend/cpu/kernels.hpp>\nHEADMIX_COMPILE_CPU(@scalar@)\n" @ONLY)
        set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS "${options_${level}}"
                                                           COMPILE_DEFINITIONS HEADMIX_CPU_LEVEL=${level})
      endif()
      target_sources(${target} PRIVATE "${source}")
    endforeach()
  endforeach()
  target_compile_definitions(${target} PUBLIC HEADMIX_COMPILED)
  if(NOT highest STREQUAL "baseline")
    target_compile_definitions(${target} PUBLIC HEADMIX_HIGHEST_CPU_LEVEL=${highest})
  endif()
  # Unoptimised kernels are useless, and leave more inline functions to the linker.
  target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Release,RelWithDebInfo>>:-O2>)
  target_link_libraries(${target} PUBLIC headmix::headmix)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF)
endfunction()

if(NOT TARGET headmix-compiled)
  headmix_add_compiled(headmix-compiled float double headmix::bfloat16 HIGHEST_LEVEL "${headmix_compiled_level}")
  add_library(headmix::compiled ALIAS headmix-compiled)
endif()
set(headmix_compiled_FOUND TRUE)
