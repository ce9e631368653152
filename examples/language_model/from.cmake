# SPDX-License-Identifier: MIT
# cmake -DPROGRAM=... -DTEXT=... -DFOLDER=... -P from.cmake
#
# MoH with the parameters of trained dense attention computes an equal function if all heads are chosen with weight 1. A
# checkpoint with parameters that the model lacks is refused.
file(REMOVE_RECURSE "${FOLDER}")
set(small --text "${TEXT}" --width 16 --context 16 --batch 2 --layers 2 --sample 0)
# The validation loss with four digits.
function(train loss)
  execute_process(COMMAND "${PROGRAM}" ${small} ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT status EQUAL 0 OR NOT out MATCHES "validation loss ([0-9.]+)")
    message(FATAL_ERROR "${ARGN}: expected a validation loss, found status ${status}\n${out}${err}")
  endif()
  set(${loss} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()

train(dense --attention dense --heads 4 --steps 60 --warmup 5 --lr 1e-2 --checkpoint "${FOLDER}/dense")
set(moh --attention moh --heads 4 --shared-heads 2 --router query_norm --steps 1 --lr 1e-12)
train(from ${moh} --top-k 2 --from "${FOLDER}/dense")
if(NOT from STREQUAL dense)
  message(FATAL_ERROR "expected the loss of dense attention, ${dense}, found ${from}")
endif()
train(fewer ${moh} --top-k 1 --from "${FOLDER}/dense")
train(without ${moh} --top-k 2)
if(fewer STREQUAL dense OR without STREQUAL dense)
  message(FATAL_ERROR "expected other losses with fewer heads and without --from than ${dense}, found ${fewer} and ${without}")
endif()

train(moa --attention moa --experts 3 --top-k 2 --head-dim 4 --steps 1 --checkpoint "${FOLDER}/moa")
execute_process(COMMAND "${PROGRAM}" ${small} --attention dense --heads 4 --from "${FOLDER}/moa"
                RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE err)
if(NOT status EQUAL 2 OR NOT err MATCHES "--from: ")
  message(FATAL_ERROR "expected a refusal of another model's parameters, found status ${status}: ${err}")
endif()
