# SPDX-License-Identifier: MIT
# cmake -DPROGRAM=... -DARGUMENTS=a|b -DSTOP=n -DKILLS=n -DWITHIN=ms -DFOLDER=... -P resume.cmake
#
# Trains without interruption; up to --stop-after n and resumed; and killed (SIGKILL) KILLS times, at random times below
# WITHIN (at most 1000), while it saves after every step. All results and reports except times must be equal to the last
# digit.
string(REPLACE "|" ";" arguments "${ARGUMENTS}")
file(REMOVE_RECURSE "${FOLDER}")
file(MAKE_DIRECTORY "${FOLDER}")

# Runs to the end; sets the variable to the results.
function(run results name)
  execute_process(COMMAND "${PROGRAM}" ${arguments} --report "${FOLDER}/${name}-report" ${ARGN} RESULT_VARIABLE status
                  OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT status STREQUAL 0)
    message(FATAL_ERROR "${name}: expected exit status 0, found ${status}\n${out}\n${err}")
  endif()
  file(READ "${FOLDER}/${name}-report/report.json" report)
  string(REGEX REPLACE "\"tokens_per_s\": [^,]*, " "" out "${out}${report}")
  set(${results} "${out}" PARENT_SCOPE)
endfunction()
function(expect_same name found)
  if(NOT found STREQUAL whole)
    message(FATAL_ERROR "${name}: expected what the whole training gives:\n${whole}\nfound:\n${found}")
  endif()
endfunction()

run(whole whole)
run(stopped stopped --checkpoint "${FOLDER}/stopped" --stop-after ${STOP})
if(NOT stopped MATCHES "\"val_loss\": null, .*\"steps\": ${STOP}, \"ended_by\": \"stop_after\"")
  message(FATAL_ERROR "Expected the results of ${STOP} steps, found:\n${stopped}")
endif()
run(resumed resumed --checkpoint "${FOLDER}/stopped" --resume)
expect_same("stopped and resumed" "${resumed}")
run(again again --checkpoint "${FOLDER}/stopped" --resume)
expect_same("resumed after the last step" "${again}")

if(KILLS GREATER 0)
  set(found 0)
  file(MAKE_DIRECTORY "${FOLDER}/killed")
  foreach(i RANGE 1 ${KILLS})
    string(RANDOM LENGTH 5 ALPHABET 0123456789 random)
    math(EXPR thousandths "1000 + 1${random} % ${WITHIN}")
    string(REGEX REPLACE "^1" "0." seconds "${thousandths}1")
    execute_process(COMMAND "${PROGRAM}" ${arguments} --checkpoint "${FOLDER}/killed" --resume --every 1
                    RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE err TIMEOUT ${seconds})
    # Complete or absent: any other result is an error of the program, whose status is a number.
    if(NOT status EQUAL 0 AND NOT status MATCHES "timeout|[Kk]ill")
      message(FATAL_ERROR "Run ${i}, after a kill: ${status}\n${err}")
    endif()
    if(EXISTS "${FOLDER}/killed/checkpoint.safetensors")
      math(EXPR found "${found} + 1")
    endif()
  endforeach()
  message(STATUS "killed ${KILLS} times, ${found} times with a checkpoint")
  run(killed killed --checkpoint "${FOLDER}/killed" --resume --every 1)
  expect_same("killed ${KILLS} times" "${killed}")
  file(GLOB left "${FOLDER}/killed/*")
  if(NOT left STREQUAL "${FOLDER}/killed/checkpoint.safetensors")
    message(FATAL_ERROR "Expected nothing but the checkpoint, found ${left}")
  endif()
endif()
