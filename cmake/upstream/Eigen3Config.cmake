# SPDX-License-Identifier: MIT
# Copied into the unpacked release archive of Eigen, so that find_package finds it.
set(Eigen3_VERSION 3.4.0)
if(NOT TARGET Eigen3::Eigen)
  add_library(Eigen3::Eigen INTERFACE IMPORTED)
  target_include_directories(Eigen3::Eigen INTERFACE "${CMAKE_CURRENT_LIST_DIR}")
endif()
