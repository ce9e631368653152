# SPDX-License-Identifier: MIT
# As tests/slow.cmake.
foreach(test IN LISTS headmix_tests)
  if(test MATCHES "\\[slow\\]")
    set_tests_properties("${test}" PROPERTIES LABELS "emulated;slow" TIMEOUT 300)
  endif()
endforeach()
