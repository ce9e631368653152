# SPDX-License-Identifier: MIT
# cmake -DTRENDS=<python;trends.py> -DLM=... -DMACS=... -DSOURCE=... -DFOLDER=... -P test.cmake
#
# The repository's page matches its records. A short list, trained in one run and with interruptions, gives equal
# numbers. Finished trainings are not repeated, the command of a row gives its number, and mistakes in a list are named.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE "${FOLDER}")
set(text "${FOLDER}/text")
# trends(<list> <name of folder and records> <out> [TIMEOUT <seconds>] [option...]): sets out to "status;output".
function(trends list name out)
  cmake_parse_arguments(PARSE_ARGV 3 more "" "TIMEOUT" "")
  set(timeout "")
  if(more_TIMEOUT)
    set(timeout TIMEOUT ${more_TIMEOUT})
  endif()
  execute_process(
    COMMAND ${TRENDS} "${list}" --program "${LM}" --macs "${MACS}" --text "${text}" --work "${FOLDER}/${name}" --records
            "${FOLDER}/${name}.jsonl" --jobs 2 ${more_UNPARSED_ARGUMENTS}
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors ${timeout})
  set(${out} "${status};${output}${errors}" PARENT_SCOPE)
endfunction()
function(expect found regex)
  if(NOT "${found}" MATCHES "${regex}")
    message(FATAL_ERROR "expected ${regex}, found ${found}")
  endif()
endfunction()

# The page and its pictures, from the repository's records.
set(results "${SOURCE}/bench/results")
file(COPY "${results}/2026-11-26-trends.md" "${results}/trends" DESTINATION "${FOLDER}/page")
file(COPY_FILE "${results}/trends/claims.jsonl" "${FOLDER}/claims.jsonl")
file(GLOB pictures RELATIVE "${results}" "${results}/trends/*.svg")
trends("${SOURCE}/bench/trends/claims.txt" claims said --jobs 0 --page "${FOLDER}/page/2026-11-26-trends.md")
expect("${said}" "^0;0 trainings are left")
foreach(file IN ITEMS 2026-11-26-trends.md ${pictures})
  file(READ "${results}/${file}" expected)
  file(READ "${FOLDER}/page/${file}" found)
  if(NOT found STREQUAL expected)
    message(FATAL_ERROR "${FOLDER}/page/${file} is not that of ${results}")
  endif()
endforeach()
file(WRITE "${FOLDER}/bad.md" "<!-- trends experts mae -->\n<!-- end -->\n")
trends("${SOURCE}/bench/trends/claims.txt" claims said --jobs 0 --page "${FOLDER}/bad.md")
expect("${said}" "^2;.*bad.md: expected the name of a run, found 'mae'")

file(COPY "${SOURCE}/include/headmix/router/" DESTINATION "${text}/train")
file(COPY "${SOURCE}/LICENSE" DESTINATION "${text}/validation")
file(COPY "${SOURCE}/include/headmix/layer/" DESTINATION "${text}/layers/train")
file(COPY "${SOURCE}/CMakeLists.txt" DESTINATION "${text}/layers/validation")
set(list "${FOLDER}/list.txt")
file(WRITE "${list}" "
all --width 8 --context 8 --batch 2 --layers 1 --steps 80 --warmup 10 --validate-every 30 # short
seeds 1 2
select 3 --steps 60
family dense 1e-3 3e-3 1e-2
run dense --attention dense --heads 2
run wide --attention dense --heads 1 --lr 5e-3
run continued --attention dense --heads 2 --lr 1e-3 --steps 24 --from @dense
run elsewhere --attention dense --heads 2 --lr 1e-3 --steps 24 --from @dense --text layers
family moa 1e-3 3e-3 1e-2
run moa --attention moa --experts 3 --top-k 2 --head-dim 4
claim moa < dense : MoA is better : none
claim moa < 0.9 by largest_share : Shares are even : none
")
# The records without times, in the order of options; `count` of them.
function(records name count out)
  file(STRINGS "${FOLDER}/${name}.jsonl" lines)
  list(TRANSFORM lines REPLACE "\"tokens_per_s\": [0-9]+" "")
  list(TRANSFORM lines REPLACE "^.*\"options\": " "")
  list(SORT lines)
  list(LENGTH lines found)
  if(NOT found EQUAL count)
    message(FATAL_ERROR "expected ${count} records, found ${found}: ${lines}")
  endif()
  set(${out} "${lines}" PARENT_SCOPE)
endfunction()

trends("${list}" whole said --families moa)
expect("${said}" "^0;.*\n0 trainings are left")
records(whole 5 whole) # 3 rates, 2 seeds
trends("${list}" whole said --families dense,mo)
expect("${said}" "^2;.*--families: expected families of the list, found 'mo'")
trends("${list}" whole said)
expect("${said}" "^0;.*\n0 trainings are left")
records(whole 16 whole) # 2 families choose among 3 rates, 5 runs have 2 seeds
expect("${whole}" "--text layers [^;]*\"validation_text\": \"layers/validation\"")
trends("${list}" whole said)
expect("${said}" "^0;0 trainings are left")

# Killed and restarted, at later and later times, until all trainings are done: a training's folder has its checkpoint.
set(interrupted 0)
foreach(tenths RANGE 2 100 2)
  math(EXPR seconds "${tenths} / 10")
  math(EXPR rest "${tenths} % 10")
  trends("${list}" parts said TIMEOUT ${seconds}.${rest})
  if(said MATCHES "^0;")
    break()
  endif()
  math(EXPR interrupted "${interrupted} + 1")
endforeach()
if(interrupted EQUAL 0)
  message(FATAL_ERROR "expected interruptions, found none")
endif()
expect("${said}" "^0;(.*\n)?0 trainings are left")
records(parts 16 parts)
if(NOT whole STREQUAL parts)
  message(FATAL_ERROR "expected the records of a training without interruptions, ${whole}, found ${parts}")
endif()

# A finished training without its checkpoint is repeated if another training starts from it, with an equal loss.
file(STRINGS "${FOLDER}/whole.jsonl" lines)
list(FILTER lines EXCLUDE REGEX "\"name\": \"continued\"")
list(JOIN lines "\n" lines)
file(WRITE "${FOLDER}/whole.jsonl" "${lines}\n")
file(REMOVE_RECURSE "${FOLDER}/whole")
trends("${list}" whole said)
expect("${said}" "^0;.*begins: [^\n]* --heads 2 --lr .*\n0 trainings are left")
if(said MATCHES "expected the loss")
  message(FATAL_ERROR "${said}")
endif()
records(whole 16 again)
if(NOT again STREQUAL whole)
  message(FATAL_ERROR "expected the records of before, ${whole}, found ${again}")
endif()

# A row by its command.
file(STRINGS "${FOLDER}/whole.jsonl" line REGEX "\"name\": \"moa\".*--seed 2\"")
string(REGEX MATCH "\"options\": \"([^\"]*)\"" unused "${line}")
separate_arguments(options UNIX_COMMAND "${CMAKE_MATCH_1}")
string(REGEX MATCH "\"val_loss\": [0-9.]+" expected "${line}")
execute_process(
  COMMAND "${LM}" --text "${text}/train" --validation-text "${text}/validation" --sample 0 ${options}
  OUTPUT_VARIABLE found ERROR_QUIET)
expect("${found}" "${expected}[^0-9]")

# Replaces a line; the error names the line and the expectation.
function(mistake line regex)
  string(REPLACE ";" "\n" lines "seeds 1;select 3;family f 1 2 3;run a --attention dense;${line}")
  file(WRITE "${FOLDER}/bad.txt" "${lines}\n")
  trends("${FOLDER}/bad.txt" bad said)
  expect("${said}" "^2;.*bad.txt:5: ${regex}")
endfunction()
mistake("train x" "expected all, seeds, select, family, run or claim, found 'train'")
mistake("family g 1e-3 2e-3" "expected three learning rates or more behind the family's name, found 'g 1e-3 2e-3'")
mistake("run a --attention moa" "expected a new name of lower-case letters, digits and _, found 'a'")
mistake("run b --attention nothing" "--attention: expected dense, moa, moh or mae, found 'nothing'")
mistake("run b --attention dense --top-k 3" "--top-k has no effect")
mistake("run b --checkpoint @c" "expected the name of a run above, found 'c'")
mistake("claim a < 0.5 : text : number" "expected the name of a run above, found '0.5'")
mistake("claim a < a by size : text : number" "expected one_expert, gate_entropy or largest_share behind `by`, found 'size'")
mistake("claim a is good" "expected BETTER < WORSE : TEXT : PAPER, found")
