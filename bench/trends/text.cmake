# SPDX-License-Identifier: MIT
# cmake -DHEADMIX_DEPS_DIR=FOLDER -DOUT=FOLDER -P text.cmake
#
# The texts of the trends, from Debian source packages: Go (BSD licence) in OUT, SymPy (BSD licence) in OUT/python, for
# models that continue with another text. Each has two folders, train and validation, of distinct whole files. Tests,
# files of other projects and generated files are left out, since they repeat each other. The hash of a file's path
# decides its folder.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/../../cmake/dependencies.cmake")
cmake_path(ABSOLUTE_PATH OUT BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")

# Files of the package that match `pattern` in the folder `source` become `out`. `expected` is the hash of one line per
# file: folder, path and hash, in the order of paths.
function(make_text out package version expected source pattern left_out)
  if(EXISTS "${out}/train")
    return()
  endif()
  set(prefix "${HEADMIX_DEPS_DIR}/${package}")
  if(NOT EXISTS "${prefix}")
    file(MAKE_DIRECTORY "${HEADMIX_DEPS_DIR}")
    file(LOCK "${HEADMIX_DEPS_DIR}" DIRECTORY)
    message(STATUS "downloading ${package} into ${HEADMIX_DEPS_DIR}")
    headmix_fetch_debian(${package} "${prefix}" error)
    if(error)
      message(FATAL_ERROR "The trends need ${package} ${version} of Debian 12. Tried apt-get download ${package}:${error}")
    endif()
    file(LOCK "${HEADMIX_DEPS_DIR}" DIRECTORY RELEASE)
  endif()

  set(source "${prefix}/${source}")
  file(GLOB_RECURSE files RELATIVE "${source}" "${source}/${pattern}")
  list(FILTER files EXCLUDE REGEX "(^|/)(${left_out})/")
  list(SORT files COMPARE STRING CASE SENSITIVE)
  set(part "${out}.part")
  file(REMOVE_RECURSE "${part}")
  set(lines "")
  foreach(file IN LISTS files)
    file(STRINGS "${source}/${file}" generated REGEX "^// Code generated .*DO NOT EDIT" LIMIT_COUNT 1)
    if(generated)
      continue()
    endif()
    string(SHA256 place "${file}")
    set(folder train)
    if(place MATCHES "^0[0-2]") # 3 of 256
      set(folder validation)
    endif()
    cmake_path(GET file PARENT_PATH parent)
    file(COPY "${source}/${file}" DESTINATION "${part}/${folder}/${parent}")
    file(SHA256 "${source}/${file}" hash)
    string(APPEND lines "${folder} ${file} ${hash}\n")
  endforeach()
  string(SHA256 found "${lines}")
  if(NOT found STREQUAL expected)
    message(FATAL_ERROR "${prefix}: expected the files of ${package} ${version} (${expected}), found others (${found}): "
                        "losses would not compare with those of bench/results")
  endif()
  file(RENAME "${part}" "${out}")
endfunction()

make_text("${OUT}" golang-1.19-src 1.19.8-2 8fbe2735f79e62b4be276c27c8f5b35c971aceeef55db005c12eb638aefa57d1
          share/go-1.19/src *.go "testdata|vendor")
make_text("${OUT}/python" python3-sympy 1.11.1-1 9deca9eb6bfd0ec30a87c226c125deb283fb176ca724ae4a68379b18cce47382
          lib/python3/dist-packages/sympy *.py "tests|benchmarks|rubi|_antlr")
