// SPDX-License-Identifier: MIT
// headmix::compiled in a unit compiled for plain x86-64, compared with headers alone in a unit compiled for this
// machine: one sequence of T tokens. `ratio` is the quotient of the times; the goal for attention is at most 1 / 0.95.
// Experts (smoe) are the layer with the most pointwise work, which uses the instructions of its unit.
#include "../common.hpp"
#include "../dispatch/pass.hpp"

namespace {

using namespace bench;

auto layer(std::string const& name, bool backward) {
  return [name, backward](benchmark::State& state) {
    Index const t = state.range(0), threads = state.range(1);
    auto const plain = compiled_pass(name, pool(threads), t),
               native = make_pass<headmix::Cpu<float, headmix::thread_pool>>(name, pool(threads), t);
    plain->run(backward);
    native->run(backward);
    time_calls(
        state, [&] { plain->run(backward); }, [&] { native->run(backward); });
    if (name != "smoe") at_most(state, "ratio", 1 / 0.95);
    count_tokens(state, t);
  };
}

int const registered = [] {
  for (std::string const name : {"moa", "moh", "smoe"}) {
    for (bool const backward : {false, true}) {
      add("compiled_" + name + (backward ? "_backward" : "_forward") + "/cpu/float", {"T"}, {{1024}}, {1, 2},
          layer(name, backward));
    }
  }
  return 0;
}();

}  // namespace
