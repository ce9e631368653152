# SPDX-License-Identifier: MIT
# headmix::compiled: headmix with the kernels of Cpu<float>, Cpu<double> and Cpu<bfloat16>, and what programs of all
# layers share, compiled once, in a static library of the project that asks for it and with that project's flags, so
# that -march agrees. Units that link to it compile in less time. Read by the build and by find_package(headmix) with
# the component compiled.

# The static library `target` of that kind, with the kernels for these scalars. Units that link to it need the flags that
# it is compiled with.
function(headmix_add_compiled target)
  add_library(${target} STATIC EXCLUDE_FROM_ALL)
  set(programs "HEADMIX_COMPILE_PROGRAMS\n") # once
  foreach(scalar IN LISTS ARGN)
    string(REPLACE "headmix::" "" name "${scalar}")
    set(source "${CMAKE_CURRENT_BINARY_DIR}/${target}/${name}.cpp")
    file(CONFIGURE OUTPUT "${source}" CONTENT "#include <headmix/headmix.hpp>\nHEADMIX_COMPILE_CPU(@scalar@)\n\
HEADMIX_COMPILE_MODULES(headmix::Cpu<@scalar@>)\n@programs@" @ONLY)
    set(programs "")
    target_sources(${target} PRIVATE "${source}")
  endforeach()
  target_compile_definitions(${target} PUBLIC HEADMIX_COMPILED)
  target_link_libraries(${target} PUBLIC headmix::headmix)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()

if(NOT TARGET headmix-compiled)
  headmix_add_compiled(headmix-compiled float double headmix::bfloat16)
  add_library(headmix::compiled ALIAS headmix-compiled)
endif()
set(headmix_compiled_FOUND TRUE)
