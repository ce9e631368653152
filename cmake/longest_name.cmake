# SPDX-License-Identifier: MIT
# cmake -DNM=... -DOBJECTS=... -DMOST=<characters> -P longest_name.cmake
#
# No symbol of the objects has a longer name: symbols do not spell out expressions, and neither does debug information,
# which describes every type in a symbol's name.
execute_process(COMMAND "${NM}" ${OBJECTS} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^ \n]+\n" names "${symbols}")
foreach(name IN LISTS names)
  string(LENGTH "${name}" length)
  if(length GREATER MOST)
    message(FATAL_ERROR "a symbol has ${length} characters, expected at most ${MOST}: ${name}")
  endif()
endforeach()
list(LENGTH names count)
if(count LESS 100)
  message(FATAL_ERROR "expected the symbols of a network, found ${count}")
endif()
