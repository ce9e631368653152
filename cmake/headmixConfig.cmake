# SPDX-License-Identifier: MIT
include(CMakeFindDependencyMacro)
find_dependency(Eigen3 NO_MODULE)
find_dependency(Threads)

if(Eigen3_VERSION VERSION_LESS 3.4)
  set(headmix_FOUND FALSE)
  set(headmix_NOT_FOUND_MESSAGE "Eigen 3.4 or newer is needed, found ${Eigen3_VERSION} in ${Eigen3_DIR}")
  return()
endif()
# There are no components; asking for one must not look like success.
foreach(component IN LISTS headmix_FIND_COMPONENTS)
  if(headmix_FIND_REQUIRED_${component})
    set(headmix_FOUND FALSE)
    set(headmix_NOT_FOUND_MESSAGE "this headmix has no component '${component}'")
    return()
  endif()
endforeach()

include("${CMAKE_CURRENT_LIST_DIR}/headmixTargets.cmake")
