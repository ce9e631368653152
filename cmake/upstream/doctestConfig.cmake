# SPDX-License-Identifier: MIT
# Copied into the unpacked release archive of doctest, so that find_package finds it.
set(doctest_VERSION 2.4.9)
list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}/scripts/cmake")
if(NOT TARGET doctest::doctest)
  add_library(doctest::doctest INTERFACE IMPORTED)
  target_include_directories(doctest::doctest INTERFACE "${CMAKE_CURRENT_LIST_DIR}")
endif()
