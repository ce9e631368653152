# SPDX-License-Identifier: MIT
# Copied into the unpacked release archive of Google Benchmark, so that find_package finds it. Built with this project.
set(benchmark_VERSION 1.7.1)

function(headmix_add_benchmark source)
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW) # its options take the values below
  foreach(part IN ITEMS TESTING GTEST_TESTS INSTALL WERROR)
    set(BENCHMARK_ENABLE_${part} OFF)
  endforeach()
  set(BENCHMARK_INSTALL_DOCS OFF)
  add_subdirectory("${source}" _deps/benchmark EXCLUDE_FROM_ALL SYSTEM)
endfunction()

if(NOT TARGET benchmark::benchmark)
  headmix_add_benchmark("${CMAKE_CURRENT_LIST_DIR}")
endif()
