# SPDX-License-Identifier: MIT
# cmake -DPROGRAM=... -DCORPUS=... -DFOLDER=... -P from.cmake
#
# Trains and saves; translates lines with what was saved; refuses other files in its place.
file(REMOVE_RECURSE "${FOLDER}")
set(sizes --width 32 --hidden 64 --layers 1 --vocabulary 320)
execute_process(COMMAND "${PROGRAM}" --corpus "${CORPUS}" ${sizes} --experts 4 --top-k 2 --longest 32 --batch 200
                        --steps 300 --warmup 30 --lr 1e-2 --test 2 --save "${FOLDER}"
                RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE err)
if(NOT status EQUAL 0 OR NOT out MATCHES "> ([^\n]+)\n= [^\n]+\n< ([^\n]+)\n")
  message(FATAL_ERROR "expected a training with a translation, found status ${status}\n${out}${err}")
endif()
set(source "${CMAKE_MATCH_1}")
set(translation "${CMAKE_MATCH_2}")
file(WRITE "${FOLDER}/lines.txt" "${source}\n\n${source}\n")

function(translate status expected)
  execute_process(COMMAND "${PROGRAM}" --from "${FOLDER}" INPUT_FILE "${FOLDER}/lines.txt" RESULT_VARIABLE found
                  OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT found EQUAL status OR NOT "${out}${err}" MATCHES "${expected}")
    message(FATAL_ERROR "expected status ${status} and '${expected}', found ${found}\n${out}${err}")
  endif()
endfunction()
string(REGEX REPLACE "([][+.*()^?|\\$])" "\\\\\\1" literal "${translation}")
translate(0 "^${literal}\n[^\n]*\n${literal}\n$")

file(READ "${FOLDER}/subwords.txt" subwords)
file(APPEND "${FOLDER}/subwords.txt" "1 2\n")
translate(2 "^headmix-translate: .*checkpoint.safetensors: .*expected .*found")
file(WRITE "${FOLDER}/subwords.txt" "no subwords\n")
translate(2 "^headmix-translate: .*subwords.txt: line 1: expected 'headmix subwords 1', found 'no subwords'\n$")
file(WRITE "${FOLDER}/subwords.txt" "${subwords}")
file(WRITE "${FOLDER}/checkpoint.safetensors" "no tensors")
translate(2 "^headmix-translate: .*checkpoint.safetensors")
