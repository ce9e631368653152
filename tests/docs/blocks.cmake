# SPDX-License-Identifier: MIT
# cmake -DROOT=<repository> -DPAGES=<pages> -DBUILD=<build folder> -DCTEST=<ctest> -P blocks.cmake: every block of a
# page says by a comment in the line before it how it is tested. A block of C++ has the words of code_blocks.cmake. Any
# other block names the tests that run it, by names of ctest or paths of the repository, or says why none does:
#   <!-- run: examples.quickstart, tests/package -->
#   <!-- not run: it takes hours -->
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND "${CTEST}" -N WORKING_DIRECTORY "${BUILD}" OUTPUT_VARIABLE tests)
string(APPEND tests "\n")
set(wrong "")
set(count 0)
foreach(page IN LISTS PAGES)
  cmake_path(RELATIVE_PATH page BASE_DIRECTORY "${ROOT}" OUTPUT_VARIABLE where)
  if(where MATCHES "^(CHANGELOG.md|bench/results/)") # pages about earlier states
    continue()
  endif()
  file(READ "${page}" text)
  string(REPLACE ";" "," text "${text}") # these would form lists of lines
  string(REPLACE "[" "(" text "${text}")
  string(REPLACE "]" ")" text "${text}")
  string(REPLACE "\n" ";" lines "${text}")
  set(number 0)
  set(inside FALSE)
  set(before "")
  foreach(line IN LISTS lines)
    math(EXPR number "${number} + 1")
    if(inside)
      if(line MATCHES "^ *```$")
        set(inside FALSE)
      endif()
    elseif(line MATCHES "^ *```(.*)$")
      set(inside TRUE)
      set(language "${CMAKE_MATCH_1}")
      math(EXPR count "${count} + 1")
      if(language STREQUAL "cpp")
        set(word "(run|declarations|example|cuda|statements .*[(]not run: .+[)])")
        if(NOT before MATCHES "^ *<!-- code: (.* )?${word}( .*)? -->$")
          string(APPEND wrong "${where}:${number}: a block of C++: expected a comment before it with one of the words "
                              "run, declarations, example, cuda, or statements (not run: reason), found '${before}'\n")
        endif()
      elseif(before MATCHES "^ *<!-- run: (.+) -->$")
        string(REPLACE ", " ";" names "${CMAKE_MATCH_1}")
        foreach(name IN LISTS names)
          if(NOT EXISTS "${ROOT}/${name}" AND NOT tests MATCHES ": ${name}\n"
             AND NOT (name MATCHES "^examples" AND NOT tests MATCHES ": examples")) # a build without the examples
            string(APPEND wrong "${where}:${number}: expected a test or a path of the repository, found '${name}'\n")
          endif()
        endforeach()
      elseif(NOT before MATCHES "^ *<!-- not run: .+ -->$")
        string(APPEND wrong "${where}:${number}: a block of ${language}: expected a comment before it with the tests "
                            "that run it, or why none does, found '${before}'\n")
      endif()
    endif()
    set(before "${line}")
  endforeach()
endforeach()
if(count LESS 40)
  string(APPEND wrong "expected at least 40 blocks on the pages, found ${count}\n")
endif()
if(wrong)
  message(FATAL_ERROR "\n${wrong}")
endif()
message(STATUS "${count} blocks")
