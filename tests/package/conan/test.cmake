# SPDX-License-Identifier: MIT
# cmake -DCONAN=... -DROOT=<repository> -DFOLDER=<folder> -DEIGEN=<headers> -P test.cmake: the line of cmake/README.md
# makes the package and a user's project builds with it, in a home of its own and without a registry.
file(REMOVE_RECURSE "${FOLDER}")
file(COPY "${CMAKE_CURRENT_LIST_DIR}/conanfile.py" DESTINATION "${FOLDER}/consumer") # Conan writes beside it
set(ENV{CONAN_HOME} "${FOLDER}/home")
set(ENV{EIGEN} "${EIGEN}")
set(ENV{CONSUMER} "${ROOT}/tests/package/consumer")
function(conan)
  execute_process(COMMAND "${CONAN}" ${ARGN} WORKING_DIRECTORY "${ROOT}" COMMAND_ERROR_IS_FATAL ANY)
endfunction()
conan(profile detect)
conan(create "${CMAKE_CURRENT_LIST_DIR}/eigen" --no-remote)
conan(create cmake/conan --no-remote -s compiler.cppstd=20 --test-folder "${FOLDER}/consumer")
