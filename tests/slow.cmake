# SPDX-License-Identifier: MIT
# Read by ctest after each list of discovered tests: doctest_discover_tests sets equal properties for all of them.
foreach(test IN LISTS headmix_tests)
  if(test MATCHES "\\[slow\\]")
    set_tests_properties("${test}" PROPERTIES LABELS "cpu;slow" TIMEOUT 120)
  endif()
endforeach()
