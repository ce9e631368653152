# SPDX-License-Identifier: MIT
include(CMakeFindDependencyMacro)
find_dependency(Eigen3 NO_MODULE)
find_dependency(Threads)

if(Eigen3_VERSION VERSION_LESS 3.4)
  set(headmix_FOUND FALSE)
  set(headmix_NOT_FOUND_MESSAGE "Eigen 3.4 or newer is needed, found ${Eigen3_VERSION} in ${Eigen3_DIR}")
  return()
endif()

include("${CMAKE_CURRENT_LIST_DIR}/headmixTargets.cmake")

# Asking for a component that does not exist must not look like success.
foreach(component IN LISTS headmix_FIND_COMPONENTS)
  if(component STREQUAL "cuda")
    include("${CMAKE_CURRENT_LIST_DIR}/headmixCuda.cmake")
  elseif(component STREQUAL "compiled")
    include("${CMAKE_CURRENT_LIST_DIR}/headmixCompiled.cmake")
  elseif(component STREQUAL "dispatched")
    include("${CMAKE_CURRENT_LIST_DIR}/headmixDispatched.cmake")
  else()
    set(headmix_${component}_NOT_FOUND_MESSAGE "this headmix has no component '${component}'")
  endif()
  if(headmix_FIND_REQUIRED_${component} AND NOT headmix_${component}_FOUND)
    set(headmix_FOUND FALSE)
    set(headmix_NOT_FOUND_MESSAGE "${headmix_${component}_NOT_FOUND_MESSAGE}")
  endif()
endforeach()
