# SPDX-License-Identifier: MIT
# cmake -DROOT=<repository> -DFOLDER=<folder> -DVERSION=... -P release.cmake: the files of a release have the sums that it
# lists, the same ones a second time, and the archive has the library, which configures.
foreach(run IN ITEMS 1 2)
  execute_process(COMMAND "${CMAKE_COMMAND}" "-DOUT=${FOLDER}/files" -P "${ROOT}/cmake/release.cmake"
                  COMMAND_ERROR_IS_FATAL ANY)
  file(READ "${FOLDER}/files/SHA256SUMS" sums_${run})
  execute_process(COMMAND "${CMAKE_COMMAND}" -E sleep 1.1) # archives may hold the time
endforeach()
if(NOT sums_1 STREQUAL sums_2)
  message(FATAL_ERROR "the same tree has two sums:\n${sums_1}\n${sums_2}")
endif()
set(name "headmix-${VERSION}")
foreach(file IN ITEMS ${name}.hpp ${name}.tar.xz)
  file(SHA256 "${FOLDER}/files/${file}" sum)
  if(NOT sums_1 MATCHES "${sum}  ${file}\n")
    message(FATAL_ERROR "${file} has the sum ${sum}, listed are\n${sums_1}")
  endif()
endforeach()
file(ARCHIVE_EXTRACT INPUT "${FOLDER}/files/${name}.tar.xz" DESTINATION "${FOLDER}")
file(GLOB found RELATIVE "${FOLDER}/${name}" "${FOLDER}/${name}/*")
set(expected CHANGELOG.md CMakeLists.txt LICENSE README.md cmake include)
if(NOT found STREQUAL expected)
  message(FATAL_ERROR "the archive has ${found}, expected ${expected}")
endif()
