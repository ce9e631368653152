# SPDX-License-Identifier: MIT
# cmake [-DOUT=release] -P cmake/release.cmake, or the target headmix-release: the files of a release.
#   headmix-<version>.hpp      the library as one header
#   headmix-<version>.tar.xz   headers, CMake files, licence and pages: find_package, add_subdirectory, Conan, vcpkg
#   SHA256SUMS                 of both
cmake_minimum_required(VERSION 3.25)
if(NOT OUT)
  set(OUT release)
endif()
cmake_path(ABSOLUTE_PATH OUT BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH root)
file(STRINGS "${root}/include/headmix/core/version.hpp" version REGEX "define HEADMIX_VERSION_(MAJOR|MINOR|PATCH) ")
list(TRANSFORM version REPLACE "^.*HEADMIX_VERSION_[A-Z]+ +([0-9]+).*$" "\\1")
list(JOIN version "." version)

file(REMOVE_RECURSE "${OUT}")
set(name "headmix-${version}")
execute_process(COMMAND "${CMAKE_COMMAND}" "-DOUT=${OUT}/${name}.hpp" -P "${root}/cmake/amalgamate.cmake"
                COMMAND_ERROR_IS_FATAL ANY)
set(parts include cmake CMakeLists.txt LICENSE README.md CHANGELOG.md)
list(TRANSFORM parts PREPEND "${root}/" OUTPUT_VARIABLE paths)
file(COPY ${paths} DESTINATION "${OUT}/${name}" PATTERN "__pycache__" EXCLUDE)
# One date for all files, and a format without the time: the same tree has the same sums.
execute_process(COMMAND "${CMAKE_COMMAND}" -E tar cJf "${name}.tar.xz" --mtime=2000-01-01 "${name}"
                WORKING_DIRECTORY "${OUT}" COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE_RECURSE "${OUT}/${name}")
set(sums "")
foreach(file IN ITEMS ${name}.hpp ${name}.tar.xz)
  file(SHA256 "${OUT}/${file}" sum)
  string(APPEND sums "${sum}  ${file}\n")
endforeach()
file(WRITE "${OUT}/SHA256SUMS" "${sums}")
message(STATUS "${OUT}:\n${sums}")
