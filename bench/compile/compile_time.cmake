# SPDX-License-Identifier: MIT
# cmake -DCOMPILER=... -DFLAGS=... -DINCLUDES=... -DOUT=compile.json -P compile_time.cmake
#
# The cost of headmix for a translation unit, in seconds beside the project's goals: each group of headers through the
# compiler's front end, a test file of a layer with the flags of the tests, and one more instantiation of a layer. std
# and Eigen/Core are yardsticks for the machine. The minimum of several runs is shown; OUT has all of them, for
# headmix-bench-compare. -DONLY_NETWORKS=ON: only the rows of networks.
cmake_path(SET root NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../..")
list(TRANSFORM INCLUDES PREPEND "-I")
list(APPEND FLAGS ${INCLUDES} "-I${root}")
set(test_flags -O2 -UNDEBUG)
list(JOIN test_flags " " shown)
set(source "${OUT}.cpp")
set(rows "")

function(say)
  execute_process(COMMAND "${CMAKE_COMMAND}" -E echo ${ARGN})
endfunction()

# Compile times of `source` in microseconds: all runs, the least first.
function(time_source out runs)
  set(times "")
  foreach(run RANGE 1 ${runs})
    string(TIMESTAMP start "%s%f")
    execute_process(COMMAND "${COMPILER}" ${FLAGS} ${ARGN} "${source}" -o "${source}.o" COMMAND_ERROR_IS_FATAL ANY)
    string(TIMESTAMP end "%s%f")
    math(EXPR time "${end} - ${start}")
    list(APPEND times ${time})
  endforeach()
  list(SORT times COMPARE NATURAL)
  set(${out} ${times} PARENT_SCOPE)
endfunction()

# Prints a line of the table and adds the entries of OUT: goal (empty: none), name, microseconds.
function(report goal name)
  list(GET ARGN 0 least)
  math(EXPR whole "${least} / 1000000")
  math(EXPR cents "${least} % 1000000 / 10000 + 100")
  string(SUBSTRING ${cents} 1 2 cents)
  if(goal)
    set(goal "  (goal ${goal})")
  endif()
  say("  ${whole}.${cents}  ${name}${goal}")
  foreach(time IN LISTS ARGN)
    list(APPEND rows
         "{\"name\": \"compile/${name}\", \"run_type\": \"iteration\", \"real_time\": ${time}, \"time_unit\": \"us\"}")
  endforeach()
  set(rows "${rows}" PARENT_SCOPE)
endfunction()

# Sizes of the object and of its code.
find_program(size_program size)
function(say_object)
  file(SIZE "${source}.o" bytes)
  math(EXPR kilobytes "${bytes} / 1000")
  set(code "")
  if(size_program)
    execute_process(COMMAND "${size_program}" "${source}.o" OUTPUT_VARIABLE sizes)
    string(REGEX MATCH "\n *([0-9]+)" first "${sizes}")
    math(EXPR code "${CMAKE_MATCH_1} / 1000")
    string(PREPEND code ", code ")
    string(APPEND code " KB")
  endif()
  say("        object of ${kilobytes} KB${code}")
endfunction()

macro(report_headers goal name)
  set(text "")
  foreach(header ${ARGN})
    string(APPEND text "#include <${header}>\n")
  endforeach()
  file(WRITE "${source}" "${text}")
  time_source(times 3 -fsyntax-only)
  report("${goal}" "${name}" ${times})
endmacro()

if(NOT ONLY_NETWORKS)
  say("Seconds to compile with ${COMPILER}, headers alone:")
  report_headers("" "std (vector, span, cmath)" vector span cmath)
  report_headers("" Eigen/Core Eigen/Core)
  foreach(group IN ITEMS core expr program router layer backend train count analysis io testing)
    file(GLOB headers RELATIVE "${root}/include" "${root}/include/headmix/${group}/*.hpp")
    list(FILTER headers EXCLUDE REGEX "/open_mp.hpp$")  # refuses to be compiled without its flag
    set(goal "")
    if(group STREQUAL "core")
      set(goal 0.5)
    endif()
    if(headers)
      report_headers("${goal}" "headmix/${group}/*" ${headers})
    endif()
  endforeach()
  report_headers("" headmix/headmix.hpp headmix/headmix.hpp)

  say("with ${shown}, as the tests are:")
  set(layer_test tests/layer/moa_test.cpp)
  file(WRITE "${source}" "#include <${layer_test}>\n")
  time_source(times 1 ${test_flags} -c)
  report(8 ${layer_test} ${times})

  # A layer trained at n widths: half of the extra time of two more widths.
  function(write_layers n)
    set(text "#include <headmix/headmix.hpp>
template <int Width>
void train(headmix::view<float const> x) {
  headmix::Module<headmix::Moa<Width, 8, headmix::SoftmaxTopK<8, 2>>, headmix::Cpu<float>> m(1);
  m.backward(m.forward(x), {0.01, 0.001});
}
")
    foreach(i RANGE 1 ${n})
      math(EXPR width "${i} * 16")
      string(APPEND text "template void train<${width}>(headmix::view<float const>);\n")
    endforeach()
    file(WRITE "${source}" "${text}")
  endfunction()
  write_layers(1)
  time_source(times_1 1 ${test_flags} -c)
  report("" "one layer in a file of its own" ${times_1})
  say_object()
  time_source(times 1 ${test_flags} -DHEADMIX_COMPILED -c)
  report(5 "the same with headmix::compiled" ${times})
  say_object()
  # Like target_precompile_headers.
  set(unit "${source}")
  set(source "${OUT}.hpp")
  file(WRITE "${source}" "#include <headmix/headmix.hpp>\n")
  time_source(times 1 ${test_flags} -DHEADMIX_COMPILED -x c++-header)
  report("" "headmix/headmix.hpp precompiled, once for a target" ${times})
  file(RENAME "${source}.o" "${source}.gch")
  set(source "${unit}")
  time_source(times 1 ${test_flags} -DHEADMIX_COMPILED -Winvalid-pch -include "${OUT}.hpp" -c)
  report(5 "one layer with headmix::compiled and that" ${times})
  file(REMOVE "${OUT}.hpp" "${OUT}.hpp.gch")
  write_layers(3)
  time_source(times_3 1 ${test_flags} -c)
  math(EXPR difference "(${times_3} - ${times_1}) / 2")
  report(0.6 "one more instantiation of a layer" ${difference})
endif()

# A network of n blocks, and a single block: seconds and, with GNU time, the compiler's peak memory.
find_program(gnu_time time)
if(gnu_time)
  execute_process(COMMAND "${gnu_time}" --version OUTPUT_VARIABLE version ERROR_VARIABLE version)
  if(NOT version MATCHES "GNU")
    set(gnu_time "")
  endif()
endif()
if(NOT gnu_time)
  say("networks (peak memory: not known, there is no GNU time):")
  set(gnu_time "")
else()
  say("networks:")
endif()

function(report_network out name layer)
  file(WRITE "${source}" "#include <headmix/headmix.hpp>
using namespace headmix;
struct width : size<64> {};
struct Block {
  struct x : input<tokens, width> {};
  struct gain : param<width> { using initializer = ones; };
  struct ffn_gain : param<width> { using initializer = ones; };
  static constexpr auto attn = use<Moa<64, 16, SoftmaxTopK<4, 2>, causal>, \"attn\">(rms_norm(x{}, gain{}));
  struct h : let<std::remove_cv_t<decltype(x{} + attn.y)>> {};
  static constexpr auto ffn = use<Smoe<64, SoftmaxTopK<4, 2>, FeedForward<64>>, \"ffn\">(rms_norm(h{}, ffn_gain{}));
  static constexpr auto y = h{} + ffn.y;
  using losses = losses_of<attn, ffn>;
  using observed = observed_of<attn, ffn>;
};
template <Index Count>
struct Net {
  struct x : input<tokens, width> {};
  static constexpr auto blocks = repeat<Count, Block, \"blocks\">(x{});
  static constexpr auto y = blocks.y;
  using losses = losses_of<blocks>;
  using observed = observed_of<blocks>;
};
void train(view<float const> x, view<float const> dy) {
  Module<${layer}, Cpu<float>> m(1);
  m.forward(x);
  m.backward(dy);
}
")
  set(memory "")
  if(gnu_time)
    set(usage "${OUT}.memory")
    list(PREPEND FLAGS -f %M -o "${usage}" "${COMPILER}")
    set(COMPILER "${gnu_time}")
  endif()
  time_source(times 1 ${network_flags} -c)
  if(gnu_time)
    file(READ "${usage}" memory)
    file(REMOVE "${usage}")
    math(EXPR memory "${memory} / 1024")
  endif()
  set(goal "")
  if(ARGN)
    list(GET ARGN 0 than)
    list(GET ARGN 1 goal)
    math(EXPR percent "${times} * 100 / ${than}")
    set(goal "${goal}, found ${percent} %")
  endif()
  report("${goal}" "${name}" ${times})
  if(memory)
    say("        ${memory} MiB of memory")
  endif()
  set(rows "${rows}" PARENT_SCOPE)
  set(${out} ${times} PARENT_SCOPE)
endfunction()
set(network_flags ${test_flags})
report_network(block "a block alone" Block)
report_network(two "2 blocks by repeat" "Net<2>" ${block} "120 % of a block alone")
report_network(eight "8 blocks by repeat" "Net<8>")
report_network(many "32 blocks by repeat" "Net<32>" ${two} "150 % of 2 blocks")
set(network_flags -O0)
report_network(plain "2 blocks, -O0" "Net<2>")
set(network_flags -O0 -g)
report_network(debug "2 blocks, -O0 -g" "Net<2>" ${plain} "200 % of -O0, and 150 % of its memory")

file(REMOVE "${source}" "${source}.o")
list(JOIN rows ",\n    " rows)
file(WRITE "${OUT}" "{\n  \"context\": {\"headmix_compiler\": \"${COMPILER}\"},\n  \"benchmarks\": [\n    ${rows}\n  ]\n}\n")
