# SPDX-License-Identifier: MIT
# cmake -DTRENDS=... -DLM=... -DSOURCE=... -DFOLDER=... -P test.cmake
# A short list, trained as a whole and with interruptions: the same numbers. What is done is not done again, the command of
# a row gives its number, and mistakes in a list are named.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE "${FOLDER}")
file(COPY "${SOURCE}/include/headmix/router/" DESTINATION "${FOLDER}/text/train")
file(COPY "${SOURCE}/LICENSE" DESTINATION "${FOLDER}/text/validation")
file(COPY "${SOURCE}/include/headmix/layer/" DESTINATION "${FOLDER}/text/layers/train")
file(COPY "${SOURCE}/CMakeLists.txt" DESTINATION "${FOLDER}/text/layers/validation")
set(text "${FOLDER}/text")
file(WRITE "${FOLDER}/list.txt" "
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

# The third argument: further options.
function(trends name out)
  cmake_parse_arguments(PARSE_ARGV 2 more "" "TIMEOUT" "")
  set(options ${more_UNPARSED_ARGUMENTS})
  set(timeout "")
  if(more_TIMEOUT)
    set(timeout TIMEOUT ${more_TIMEOUT})
  endif()
  execute_process(
    COMMAND "${TRENDS}" "${FOLDER}/list.txt" --program "${LM}" --text "${text}" --work "${FOLDER}/${name}" --records
            "${FOLDER}/${name}.jsonl" --jobs 2 ${options}
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors ${timeout})
  set(${out} "${status};${output}${errors}" PARENT_SCOPE)
endfunction()
# What a record says but for times, in the order of the options.
function(records name out)
  file(STRINGS "${FOLDER}/${name}.jsonl" lines)
  list(TRANSFORM lines REPLACE "\"tokens_per_s\": [0-9]+" "")
  list(TRANSFORM lines REPLACE "^.*\"options\": " "")
  list(SORT lines)
  set(${out} "${lines}" PARENT_SCOPE)
endfunction()

trends(whole said "--families;moa")
records(whole whole)
list(LENGTH whole count)
if(NOT said MATCHES "^0;.*\n0 trainings are left" OR NOT count EQUAL 5) # 3 rates, 2 seeds
  message(FATAL_ERROR "expected 5 trainings of the family moa, found ${count} and ${said}")
endif()
trends(whole said "--families;dense,mo")
if(NOT said MATCHES "^2;.*--families: expected families of the list, found 'mo'")
  message(FATAL_ERROR "expected a refusal of an unknown family, found ${said}")
endif()
trends(whole said)
if(NOT said MATCHES "^0;.*\n0 trainings are left")
  message(FATAL_ERROR "expected all trainings, found ${said}")
endif()
records(whole whole)
list(LENGTH whole count)
if(NOT count EQUAL 16) # 2 families choose among 3 rates, 5 runs have 2 seeds
  message(FATAL_ERROR "expected 16 records, found ${count}: ${whole}")
endif()
set(choosing ${whole})
list(FILTER choosing INCLUDE REGEX "--steps 60 .*--seed 3")
list(LENGTH choosing count)
if(NOT count EQUAL 6)
  message(FATAL_ERROR "expected 6 records of 60 steps, found ${count}: ${whole}")
endif()

if(NOT whole MATCHES "--text layers [^;]*\"validation_text\": \"layers/validation\"")
  message(FATAL_ERROR "expected a record of the text in the folder layers, found ${whole}")
endif()

# The page, between its marks.
set(marks "table dense moa" "claims moa" "measures moa" "rates dense" "curves moa" "ends dense" "experts moa" "experts dense" "progress")
set(page "before\n")
foreach(mark IN LISTS marks)
  string(APPEND page "<!-- trends ${mark} -->\nold\n<!-- end -->\n")
endforeach()
file(WRITE "${FOLDER}/page.md" "${page}after\n")
set(write_page "${TRENDS}" "${FOLDER}/list.txt" --program "${LM}" --text "${text}" --work "${FOLDER}/whole" --records
               "${FOLDER}/whole.jsonl" --jobs 0 --page)
execute_process(COMMAND ${write_page} "${FOLDER}/page.md" RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE errors)
file(READ "${FOLDER}/page.md" page)
foreach(regex IN ITEMS "^before\n" "after\n$" "`moa` \\| [0-9.]+ \\([0-9.]+ [0-9.]+\\)" "MoA is better: `moa` < `dense` .*fewer than 3"
                       "Shares are even: `largest_share` of `moa` < 0.9 \\| none \\| 0[.][0-9]+ against 0.9 \\| [0-9.-]+ ± [0-9.]+ [(]2 seeds[)] \\| not decided: fewer than 3 seeds"
                       "`dense` \\| 1e-3: .*\\*\\*" "trends/moa.svg" "`dense` \\| 60 to 80 \\|" "trends/moa-experts.svg"
                       "0: `\"[^`]*`.* 2: `\"" "6 of 6 trainings .* 10 of 10 reported")
  if(NOT status EQUAL 0 OR NOT page MATCHES "${regex}" OR page MATCHES "old|not trained yet")
    message(FATAL_ERROR "expected ${regex} in the page, found status ${status}, ${errors} and ${page}")
  endif()
endforeach()
foreach(picture IN ITEMS moa moa-experts)
  file(READ "${FOLDER}/trends/${picture}.svg" svg)
  if(NOT svg MATCHES "</svg>\n$")
    message(FATAL_ERROR "${picture}.svg: expected a picture, found ${svg}")
  endif()
endforeach()
file(WRITE "${FOLDER}/bad.md" "<!-- trends experts mae -->\n<!-- end -->\n")
execute_process(COMMAND ${write_page} "${FOLDER}/bad.md" RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE errors)
if(NOT status EQUAL 2 OR NOT errors MATCHES "bad.md: expected the name of a run, found 'mae'")
  message(FATAL_ERROR "expected a refusal of a page with an unknown run, found ${status} and ${errors}")
endif()

# Killed and begun again, later and later, until it is done: the folder of a training has its checkpoint.
set(interrupted 0)
foreach(tenths RANGE 1 100)
  math(EXPR seconds "${tenths} / 10")
  math(EXPR rest "${tenths} % 10")
  trends(parts said TIMEOUT ${seconds}.${rest})
  if(said MATCHES "^0;")
    break()
  endif()
  math(EXPR interrupted "${interrupted} + 1")
endforeach()
if(NOT said MATCHES "^0;(.*\n)?0 trainings are left" OR interrupted EQUAL 0)
  message(FATAL_ERROR "expected an end after interruptions, found ${interrupted} of them and ${said}")
endif()
records(parts parts)
if(NOT whole STREQUAL parts)
  message(FATAL_ERROR "expected the records of a training without interruptions, ${whole}, found ${parts}")
endif()

trends(whole said)
if(said MATCHES "begins" OR NOT said MATCHES "^0;0 trainings are left")
  message(FATAL_ERROR "expected nothing to do, found ${said}")
endif()

# The options of a row, as its record has them.
function(options_of run seed out)
  file(STRINGS "${FOLDER}/whole.jsonl" line REGEX "\"name\": \"${run}\".*--seed ${seed}\"")
  string(REGEX MATCH "\"options\": \"([^\"]*)\"" unused "${line}")
  separate_arguments(options UNIX_COMMAND "${CMAKE_MATCH_1}")
  set(${out} ${options} PARENT_SCOPE)
endfunction()

# A run that is done is trained again where its checkpoint is gone and another one begins with it, and finds its loss. So is
# one whose checkpoint is that of another step, as an interruption leaves it.
options_of(dense 1 options)
file(GLOB folders "${FOLDER}/whole/dense-1-*")
file(REMOVE_RECURSE "${FOLDER}/whole")
foreach(folder IN LISTS folders)
  execute_process(
    COMMAND "${LM}" --text "${text}/train" --validation-text "${text}/validation" --sample 0 --threads 1 ${options}
            --checkpoint "${folder}/checkpoint" --stop-after 40 RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE errors)
  if(NOT EXISTS "${folder}/checkpoint/checkpoint.safetensors")
    message(FATAL_ERROR "expected a checkpoint of step 40, found status ${status} and ${errors}")
  endif()
endforeach()
file(STRINGS "${FOLDER}/whole.jsonl" lines)
list(FILTER lines EXCLUDE REGEX "\"name\": \"continued\"")
list(JOIN lines "\n" lines)
file(WRITE "${FOLDER}/whole.jsonl" "${lines}\n")
trends(whole said)
if(NOT said MATCHES "^0;.*begins: [^\n]* --heads 2 --lr .*\n0 trainings are left" OR said MATCHES "expected the loss")
  message(FATAL_ERROR "expected the trainings that are missing, found ${said}")
endif()
records(whole again)
if(NOT again STREQUAL whole)
  message(FATAL_ERROR "expected the records of before, ${whole}, found ${again}")
endif()

# A row by its command.
file(STRINGS "${FOLDER}/whole.jsonl" line REGEX "\"name\": \"moa\".*--seed 2\"")
options_of(moa 2 options)
string(REGEX MATCH "\"val_loss\": [0-9.]+" expected "${line}")
execute_process(
  COMMAND "${LM}" --text "${text}/train" --validation-text "${text}/validation" --sample 0 ${options}
  OUTPUT_VARIABLE found ERROR_QUIET)
string(REGEX MATCH "\"val_loss\": [0-9.]+" found "${found}")
if(NOT expected OR NOT found STREQUAL expected)
  message(FATAL_ERROR "expected ${expected} of ${options}, found ${found}")
endif()

# The line is replaced, and the error says which and what was expected.
function(mistake line regex)
  string(REPLACE ";" "\n" lines "seeds 1;select 3;family f 1 2 3;run a --attention dense;${line}")
  file(WRITE "${FOLDER}/bad.txt" "${lines}\n")
  execute_process(
    COMMAND "${TRENDS}" "${FOLDER}/bad.txt" --program "${LM}" --text "${text}" --work "${FOLDER}/bad" --records
            "${FOLDER}/bad.jsonl" RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(NOT status EQUAL 2 OR NOT errors MATCHES "bad.txt:5: ${regex}")
    message(FATAL_ERROR "${line}: expected status 2 and ${regex}, found ${status} and ${errors}")
  endif()
endfunction()
mistake("train x" "expected all, seeds, select, family, run or claim, found 'train'")
mistake("seeds 1 two" "expected a seed, a whole number, found 'two'")
mistake("select x" "expected a seed, a whole number, found 'x'")
mistake("select" "expected a seed, a whole number, found nothing")
mistake("select 3 --steps many" "--steps: expected .*'many'")
mistake("family g 1e-3 2e-3" "expected three learning rates or more behind the family's name, found 'g 1e-3 2e-3'")
mistake("run a --attention moa" "expected a name that no run has yet, found 'a'")
mistake("run B" "expected a name of lower-case letters, digits and _, found 'B'")
mistake("run b --attention nothing" "--attention: expected dense, moa, moh or mae, found 'nothing'")
mistake("run b --attention dense --top-k 3" "--top-k has no effect")
mistake("run b --checkpoint @c" "expected the name of a run above, found 'c'")
mistake("claim a < c : text : number" "expected the name of a run above, found 'c'")
mistake("claim a < 0.5 : text : number" "expected the name of a run above, found '0.5'")
mistake("claim a < c by largest_share : text : number" "expected the name of a run above, or a number, found 'c'")
mistake("claim a < a by size : text : number" "expected one_expert, gate_entropy or largest_share behind `by`, found 'size'")
mistake("claim a is good" "expected BETTER < WORSE : TEXT : PAPER, found")
