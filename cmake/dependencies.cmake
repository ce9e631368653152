# SPDX-License-Identifier: MIT
# Sources of dependencies; the first that works is used:
#   1. an installed package;
#   2. the Debian package, downloaded by name and unpacked into HEADMIX_DEPS_DIR: needs no root, installs nothing;
#   3. the upstream release archive, pinned by SHA-256, unpacked into the same folder.
# 2 and 3 only with HEADMIX_FETCH_DEPS. Nothing outside the build folder is ever changed.

# A project that adds headmix by add_subdirectory must see Eigen3::Eigen, which headmix::headmix names.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)

# Runs a program of apt with settings that keep it inside `folder`; further arguments go to the program.
function(headmix_apt folder program out_ok out_text)
  # A file, since only a file can clear hooks (which write to system folders after an update).
  file(WRITE "${folder}/apt.conf" "
    Dir::Cache \"${folder}/cache\";
    APT::Sandbox::User \"root\"; // root's apt would else read and write as a user who may not enter the build folder
    Acquire::Languages \"none\";
    Acquire::Retries \"1\";
    #clear APT::Update::Pre-Invoke;
    #clear APT::Update::Post-Invoke;
    #clear APT::Update::Post-Invoke-Success;
  ")
  file(MAKE_DIRECTORY "${folder}/cache/archives/partial" "${folder}/lists/partial" "${folder}/download")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -E env LC_ALL=C "${program}" -c "${folder}/apt.conf" ${ARGN}
    WORKING_DIRECTORY "${folder}/download"
    TIMEOUT 300
    RESULT_VARIABLE result
    OUTPUT_VARIABLE output
    ERROR_VARIABLE errors)
  set(${out_ok} FALSE PARENT_SCOPE)
  set(${out_text} "${output}" PARENT_SCOPE)
  if(result STREQUAL "0")
    set(${out_ok} TRUE PARENT_SCOPE)
  elseif(errors MATCHES "E: ([^\n]+)")
    set(${out_text} "${CMAKE_MATCH_1}" PARENT_SCOPE)
  else()
    set(${out_text} "${program}: ${result}" PARENT_SCOPE)
  endif()
endfunction()

# Unpacks the Debian package as `prefix` (in place of /usr); `out_error` is empty on success.
function(headmix_fetch_debian package prefix out_error)
  find_program(HEADMIX_APT_GET apt-get)
  mark_as_advanced(HEADMIX_APT_GET)
  if(NOT HEADMIX_APT_GET)
    set(${out_error} "\n    there is none on this machine" PARENT_SCOPE)
    return()
  endif()
  set(folder "${HEADMIX_DEPS_DIR}/apt")
  set(lists "")
  set(error "")
  foreach(attempt IN ITEMS system private)
    file(REMOVE_RECURSE "${folder}/download" "${folder}/root")
    if(attempt STREQUAL "private") # the system's package lists are missing or old, and only root may update them
      set(lists -o "Dir::State::lists=${folder}/lists")
      headmix_apt("${folder}" "${HEADMIX_APT_GET}" ok text ${lists} update)
    endif()
    # A -dev package needs the shared library of its own source package, whose name changes between releases.
    headmix_apt("${folder}" apt-cache ok text ${lists} depends ${package})
    string(REGEX REPLACE "-dev$" "" stem ${package})
    string(REGEX MATCHALL "Depends: ${stem}[0-9][^ \n]*" libraries "${text}")
    list(TRANSFORM libraries REPLACE "Depends: " "")
    headmix_apt("${folder}" "${HEADMIX_APT_GET}" ok text ${lists} download ${package} ${libraries})
    if(ok)
      break()
    endif()
    string(APPEND error "\n    with the ${attempt} package lists: ${text}")
  endforeach()
  if(NOT ok)
    set(${out_error} "${error}" PARENT_SCOPE)
    return()
  endif()
  file(GLOB debs "${folder}/download/*.deb")
  foreach(deb IN LISTS debs)
    file(ARCHIVE_EXTRACT INPUT "${deb}" DESTINATION "${folder}/download/deb")
    file(GLOB data "${folder}/download/deb/data.tar.*")
    file(ARCHIVE_EXTRACT INPUT "${data}" DESTINATION "${folder}/root")
    file(REMOVE_RECURSE "${folder}/download/deb")
  endforeach()
  # Some packages (doctest's) contain their build prefix.
  file(GLOB_RECURSE exports "${folder}/root/usr/*Targets.cmake")
  foreach(export IN LISTS exports)
    file(READ "${export}" text)
    string(REPLACE "set(_IMPORT_PREFIX \"/usr\")" "set(_IMPORT_PREFIX \"${prefix}\")" text "${text}")
    file(WRITE "${export}" "${text}")
  endforeach()
  # Last and atomically, so that an interrupted run leaves nothing that looks complete.
  file(RENAME "${folder}/root/usr" "${prefix}")
  file(REMOVE_RECURSE "${folder}")
  set(${out_error} "" PARENT_SCOPE)
endfunction()

# Unpacks the archive at `url` as `prefix`; `out_error` is empty on success.
function(headmix_fetch_archive name url sha256 prefix out_error)
  set(archive "${HEADMIX_DEPS_DIR}/${name}.archive")
  set(unpacked "${HEADMIX_DEPS_DIR}/${name}.unpacked")
  file(DOWNLOAD "${url}" "${archive}" STATUS status TIMEOUT 300 INACTIVITY_TIMEOUT 20)
  list(POP_FRONT status code)
  set(error "${status}")
  if(code EQUAL 0)
    # Compared here, since EXPECTED_HASH would end the run before the message that lists all attempts.
    file(SHA256 "${archive}" actual)
    if(actual STREQUAL sha256)
      set(error "")
      file(ARCHIVE_EXTRACT INPUT "${archive}" DESTINATION "${unpacked}")
      file(GLOB top "${unpacked}/*")
      # The projects' own CMake files would add their targets, options and registry entries.
      file(COPY "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/upstream/${name}Config.cmake" DESTINATION "${top}")
      file(RENAME "${top}" "${prefix}")
    else()
      set(error "SHA-256 is ${actual}, expected ${sha256}")
    endif()
  endif()
  file(REMOVE_RECURSE "${archive}" "${unpacked}")
  set(${out_error} "${error}" PARENT_SCOPE)
endfunction()

function(headmix_fetch name debian url sha256)
  set(tried "find_package(${name}): nothing installed (or set ${name}_DIR)")
  if(HEADMIX_FETCH_DEPS)
    # The presets share one folder; two of them may be configured at the same time.
    file(LOCK "${HEADMIX_DEPS_DIR}" DIRECTORY GUARD FUNCTION)
    set(prefix "${HEADMIX_DEPS_DIR}/${name}")
    if(EXISTS "${prefix}")
      return()
    endif()
    message(STATUS "${name}: not installed, downloading ${debian} into ${HEADMIX_DEPS_DIR}")
    headmix_fetch_debian(${debian} "${prefix}" error)
    if(error)
      string(APPEND tried "\n  apt-get download ${debian}:${error}")
      headmix_fetch_archive(${name} "${url}" ${sha256} "${prefix}" error)
    endif()
    if(NOT error)
      return()
    endif()
    string(APPEND tried "\n  ${url}: ${error}")
  else()
    string(APPEND tried "\n  no download: HEADMIX_FETCH_DEPS is OFF")
  endif()
  message(FATAL_ERROR "headmix needs ${name}. Tried:\n  ${tried}\nTo install it: apt-get install ${debian}")
endfunction()

# A macro, since variables set by a package must reach the caller.
macro(headmix_need name debian url sha256)
  find_package(${name} NO_MODULE QUIET PATHS "${HEADMIX_DEPS_DIR}/${name}")
  if(NOT ${name}_FOUND)
    headmix_fetch(${name} ${debian} "${url}" ${sha256})
    find_package(${name} NO_MODULE REQUIRED PATHS "${HEADMIX_DEPS_DIR}/${name}")
  endif()
  message(STATUS "${name} ${${name}_VERSION}: ${${name}_DIR}")
endmacro()

macro(headmix_need_eigen)
  if(NOT TARGET Eigen3::Eigen) # the enclosing project may have one
    headmix_need(
      Eigen3 libeigen3-dev https://gitlab.com/libeigen/eigen/-/archive/3.4.0/eigen-3.4.0.tar.bz2
      b4c198460eba6f28d34894e3a5710998818515104d6e74e5cc331ce31e46e626)
    # Not by find_package: the version file of Eigen 5 refuses 3.4.
    if(Eigen3_VERSION VERSION_LESS 3.4)
      message(FATAL_ERROR "headmix needs Eigen 3.4 or newer, found ${Eigen3_VERSION} in ${Eigen3_DIR}. "
                          "Set Eigen3_DIR or CMAKE_PREFIX_PATH to a newer one.")
    endif()
  endif()
endmacro()

macro(headmix_need_doctest)
  headmix_need(
    doctest doctest-dev https://github.com/doctest/doctest/archive/refs/tags/v2.4.9.tar.gz
    19b2df757f2f3703a5e63cee553d85596875f06d91a3333acd80a969ef210856)
  include(doctest) # doctest_discover_tests
endmacro()

macro(headmix_need_benchmark)
  headmix_need(
    benchmark libbenchmark-dev https://github.com/google/benchmark/archive/refs/tags/v1.7.1.tar.gz
    6430e4092653380d9dc4ccb45a1e2dc9259d581f4866dc0759713126056bc1d7)
endmacro()
