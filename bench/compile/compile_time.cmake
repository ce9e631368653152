# SPDX-License-Identifier: MIT
# cmake -DCOMPILER=... -DFLAGS=... -DINCLUDES=... -P compile_time.cmake
# What one translation unit pays for including headmix: the best of three runs of the compiler's front end, in seconds.
# `core` is all of core/; std shows what the language's own headers cost, as a yardstick for the machine.
list(TRANSFORM INCLUDES PREPEND "-I")
cmake_path(SET own_include NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../../include")
file(GLOB core RELATIVE "${own_include}" "${own_include}/headmix/core/*.hpp")

function(print_time name)
  set(text "")
  foreach(header IN LISTS ARGN)
    string(APPEND text "#include <${header}>\n")
  endforeach()
  set(source "${CMAKE_CURRENT_BINARY_DIR}/compile_time.cpp")
  file(WRITE "${source}" "${text}")
  set(best 1000000000)
  foreach(run RANGE 1 3)
    string(TIMESTAMP start "%s%f")
    execute_process(COMMAND "${COMPILER}" ${FLAGS} ${INCLUDES} -fsyntax-only "${source}" COMMAND_ERROR_IS_FATAL ANY)
    string(TIMESTAMP end "%s%f")
    math(EXPR time "(${end} - ${start}) / 10000") # hundredths
    if(time LESS best)
      set(best ${time})
    endif()
  endforeach()
  file(REMOVE "${source}")
  math(EXPR whole "${best} / 100")
  math(EXPR cents "${best} % 100 + 100")
  string(SUBSTRING ${cents} 1 2 cents)
  execute_process(COMMAND "${CMAKE_COMMAND}" -E echo "  ${whole}.${cents}  ${name}")
endfunction()

execute_process(COMMAND "${CMAKE_COMMAND}" -E echo "Seconds to compile the includes alone (${COMPILER}):")
print_time("std (vector, span, cmath)" vector span cmath)
print_time("Eigen/Core" Eigen/Core)
print_time("headmix/core/*" ${core})
foreach(header IN ITEMS headmix/layer/moa.hpp headmix/headmix.hpp)
  print_time(${header} ${header})
endforeach()
