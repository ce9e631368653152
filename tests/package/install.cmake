# SPDX-License-Identifier: MIT
# cmake -DROOT=<repository> -DFOLDER=<folder> -DPREFIX=<folder> -DGENERATOR=... -DCOMPILER=... -DEIGEN3_DIR=... -P
# install.cmake: the two commands of README.md, from a fresh folder and with no option, install the library, and the
# project has no program or test to build.
file(REMOVE_RECURSE "${FOLDER}")
execute_process(COMMAND "${CMAKE_COMMAND}" -S "${ROOT}" -B "${FOLDER}" -G "${GENERATOR}" "-DEigen3_DIR=${EIGEN3_DIR}"
                        "-DCMAKE_CXX_COMPILER=${COMPILER}"
                COMMAND_ERROR_IS_FATAL ANY)
foreach(name IN ITEMS tests bench examples)
  if(EXISTS "${FOLDER}/${name}")
    message(FATAL_ERROR "expected the library alone without options, found ${FOLDER}/${name}")
  endif()
endforeach()
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${FOLDER}" --prefix "${PREFIX}" COMMAND_ERROR_IS_FATAL ANY)
