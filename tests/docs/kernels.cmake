# SPDX-License-Identifier: MIT
# cmake -DROOT=<repository> -P kernels.cmake: archetype::backend and the concept BackendPolicy have the same functions;
# the page of kernels has one row for each kernel of the contract and of Cpu's list (cpu/kernels.hpp), and no other
# rows.
cmake_minimum_required(VERSION 3.25)
set(failures "")

# The last name of each match in a file; there must be at least `least`.
function(names_in out file pattern least)
  file(READ "${ROOT}/include/headmix/${file}" text)
  string(REPLACE ";" "," text "${text}")
  string(REGEX MATCHALL "${pattern}" found "${text}")
  list(TRANSFORM found REPLACE "^.*[^a-z_0-9]([a-z_0-9]+)[^a-z_0-9]*$" "\\1")
  list(REMOVE_DUPLICATES found)
  list(LENGTH found n)
  if(n LESS least)
    message(FATAL_ERROR "${file}: expected at least ${least} names, found ${n}: ${found}")
  endif()
  set(${out} "${found}" PARENT_SCOPE)
endfunction()
macro(expect_all names others what)
  foreach(name IN LISTS ${names})
    if(NOT name IN_LIST ${others})
      string(APPEND failures "${name}: ${what}\n")
    endif()
  endforeach()
endmacro()

names_in(declared contract/backend_policy.hpp "\n  (void|std::size_t) [a-z_0-9]+\\(" 30)
names_in(required contract/backend_policy.hpp "[ {]b\\.(template )?[a-z_0-9]+[<(]" 30)
names_in(optional contract/optional_kernels.hpp "[ {]b\\.(template )?[a-z_0-9]+[<(]" 10)
names_in(of_cpu backend/cpu/kernels.hpp "\n  KERNEL\\(([a-z_0-9]+)" 20)
names_in(rows backend/kernels.md "\n\\| `([a-z_0-9]+)` \\|" 30)

expect_all(declared required "is in archetype::backend and not in BackendPolicy")
expect_all(required declared "is in BackendPolicy and not in archetype::backend")
# Scratch functions belong to their kernels; two more functions are no kernels.
set(kernels ${declared} ${optional})
list(REMOVE_ITEM kernels begin_pass for_each)
list(FILTER kernels EXCLUDE REGEX "_scratch$")
list(REMOVE_DUPLICATES kernels)
expect_all(kernels rows "expected a row in include/headmix/backend/kernels.md")
expect_all(rows kernels "has a row in include/headmix/backend/kernels.md and is in no contract")
# pack_b is the kernel of prepared_weights.
list(FILTER of_cpu EXCLUDE REGEX "_scratch_bytes$|^packed_b_size$|^pack_b$")
expect_all(of_cpu kernels "is a kernel of Cpu (backend/cpu/kernels.hpp) and in no contract")
if(failures)
  message(FATAL_ERROR "\n${failures}")
endif()
