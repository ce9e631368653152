# SPDX-License-Identifier: MIT
# headmix::compiled: headmix with the kernels of Cpu<float>, Cpu<double> and Cpu<bfloat16>, and what programs of all layers share,
# compiled once, in a static library of the project that asks for it and with that project's flags, so that -march
# agrees. Units that link to it compile in less time. Read by the build and by find_package(headmix) with the component
# compiled.
if(NOT TARGET headmix-compiled)
  add_library(headmix-compiled STATIC EXCLUDE_FROM_ALL)
  add_library(headmix::compiled ALIAS headmix-compiled)
  set(headmix_programs "HEADMIX_COMPILE_PROGRAMS\n") # once
  foreach(scalar IN ITEMS float double headmix::bfloat16)
    string(REPLACE "headmix::" "" headmix_source "${scalar}")
    set(headmix_source "${CMAKE_CURRENT_BINARY_DIR}/headmix-compiled/${headmix_source}.cpp")
    file(CONFIGURE OUTPUT "${headmix_source}"
         CONTENT "#include <headmix/headmix.hpp>\nHEADMIX_COMPILE_CPU(@scalar@)\n\
HEADMIX_COMPILE_MODULES(headmix::Cpu<@scalar@>)\n@headmix_programs@" @ONLY)
    set(headmix_programs "")
    target_sources(headmix-compiled PRIVATE "${headmix_source}")
  endforeach()
  target_compile_definitions(headmix-compiled PUBLIC HEADMIX_COMPILED)
  target_link_libraries(headmix-compiled PUBLIC headmix::headmix)
  set_target_properties(headmix-compiled PROPERTIES POSITION_INDEPENDENT_CODE ON)
endif()
set(headmix_compiled_FOUND TRUE)
