#pragma once
// SPDX-License-Identifier: MIT
// Passes under observation: the time of each call, and the first number that is not finite.
//
//   Listing l = listing(m);
//   l.add_seconds(seconds_of_calls(m, [&] { m.forward(x); }));
//   check_finite(m, [&] { m.forward(x); m.backward(dy); });   // an error names the call, the value and the place
//
// An observation replaces the functions of a program's calls until it ends.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <vector>

#include "headmix/contract/memory.hpp"
#include "headmix/program/listing.hpp"

namespace headmix {

namespace detail {

/// Replaces the functions of a program's calls during its lifetime: around(call, values, run) is called instead and
/// calls run().
template <class Runner>
class observed_calls {
  using Backend = typename Runner::backend_type;
  using around_call = std::function<void(std::size_t call, untyped_view const* values, std::function<void()> const&)>;

 public:
  observed_calls(Runner& runner, around_call around)
      : runner_(&runner), functions_(&runner.functions()), around_(std::move(around)), before_(latest_) {
    rows_.assign(functions_->calls.begin(), functions_->calls.end());
    for (call_functions<Backend>& row : rows_) row.run = &run;
    observed_ = {rows_, functions_->derived, functions_->validators};
    runner_->set_functions(observed_);
    latest_ = this;
  }
  observed_calls(observed_calls const&) = delete;
  observed_calls& operator=(observed_calls const&) = delete;
  ~observed_calls() {
    runner_->set_functions(*functions_);
    latest_ = before_;
  }

 private:
  static void run(run_context<Backend> const& context, value_reader from, bool accumulate) {
    // A pass runs on the thread that calls it, which may observe several programs.
    observed_calls const* me = latest_;
    while (me != nullptr && &me->runner_->binding().sizes() != &context.sizes) me = me->before_;
    if (me == nullptr) fail("a program is observed on another thread than its passes run on");
    program_table const& table = me->runner_->unrolled().table();
    auto const begins_before = [](call_row const& row, std::ptrdiff_t begin) { return row.begin < begin; };
    auto const row =
        std::lower_bound(table.calls.begin(), table.calls.end(), from.next - table.numbers.data(), begins_before);
    auto const call = static_cast<std::size_t>(row - table.calls.begin());
    auto const original = me->functions_->calls[me->runner_->unrolled().call_of(call)].run;
    me->around_(call, from.values, [&] { original(context, from, accumulate); });
  }

  inline static thread_local observed_calls const* latest_ = nullptr;

  Runner* runner_;
  program_functions<Backend> const* functions_;
  around_call around_;
  observed_calls const* before_;
  std::vector<call_functions<Backend>> rows_;
  program_functions<Backend> observed_;
};

/// The program of a module, or a program itself.
template <class M>
auto& program_of(M& m) {
  if constexpr (requires { m.program(); }) {
    return m.program();
  } else {
    return m;
  }
}
/// The place of the first number that is not finite: matrix, row and column; -1 for none.
template <class T, class Backend>
std::array<Index, 3> first_not_finite_of(Backend const& backend, view<T const> v) {
  std::vector<T> row(static_cast<std::size_t>(v.cols));
  for (Index e = 0; e < v.count; ++e) {
    for (Index i = 0; i < v.rows; ++i) {
      T const* const at = v[e].row(i);
      if (v.col_stride == 1) {
        download(backend, row.data(), at, row.size());
      } else {
        for (Index j = 0; j < v.cols; ++j)
          download(backend, &row[static_cast<std::size_t>(j)], at + j * v.col_stride, 1);
      }
      for (Index j = 0; j < v.cols; ++j) {
        if (!std::isfinite(static_cast<accumulator_t<T>>(row[static_cast<std::size_t>(j)]))) return {e, i, j};
      }
    }
  }
  return {-1, -1, -1};
}
/// The place in value n of a program.
template <class Roots, class Backend, class Mode>
std::array<Index, 3> first_not_finite(Program<Roots, Backend, Mode>& program, std::size_t n, untyped_view const& v) {
  using scalar = typename Backend::scalar;
  auto& runner = program_access::runner(program);
  auto const original = static_cast<std::size_t>(runner.unrolled().origins()[n].value);
  kind const k = program_words<Roots, Backend, Mode>::values[original].kind_of;
  if (v.data == nullptr || k == kind::integer) return {-1, -1, -1};
  if (k == kind::real) return first_not_finite_of(runner.backend(), typed<storage_t<kind::real, scalar> const>(v));
  return first_not_finite_of(runner.backend(), typed<storage_t<kind::accumulator, scalar> const>(v));
}

}  // namespace detail

/// Seconds of each call, in the order of calls, summed over all passes that `passes()` runs on this thread.
/// Synchronizes with a device after each call.
/// @param m  a Module or a Program
template <class M, class F>
[[nodiscard]] std::vector<double> seconds_of_calls(M& m, F const& passes) {
  using clock = std::chrono::steady_clock;
  auto& program = detail::program_of(m);
  auto& runner = detail::program_access::runner(program);
  std::vector<double> seconds(runner.unrolled().table().calls.size());
  auto const wait = [&] {
    if constexpr (requires { runner.backend().queue().synchronize(); }) runner.backend().queue().synchronize();
  };
  detail::observed_calls observed(runner, [&](std::size_t call, detail::untyped_view const*, auto const& run) {
    wait();
    auto const begin = clock::now();
    run();
    wait();
    seconds[call] += std::chrono::duration<double>(clock::now() - begin).count();
  });
  passes();
  return seconds;
}

/// Runs passes() on this thread and fails at the first call that writes a non-finite number, also if it is intended, as
/// the logarithm of an empty sum is.
/// @param m  a Module or a Program
template <class M, class F>
void check_finite(M& m, F const& passes) {
  auto& program = detail::program_of(m);
  auto& runner = detail::program_access::runner(program);
  detail::observed_calls observed(runner, [&](std::size_t call, detail::untyped_view const* values, auto const& run) {
    run();
    auto const numbers = runner.memory_plan().values_of_call(call);
    auto const outputs = static_cast<std::size_t>(runner.unrolled().table().calls[call].outputs);
    for (int const n : numbers.first(outputs)) {
      auto const at = detail::first_not_finite(program, static_cast<std::size_t>(n), values[n]);
      if (at[0] < 0) continue;
      Listing const l = listing(program);
      fail("call ", call, ", ", l.calls[call].text, ": ", l.values[static_cast<std::size_t>(n)].name,
           " is not finite at [", at[0], ", ", at[1], ", ", at[2], "], in a value of extents ",
           detail::text(values[n]));
    }
  });
  passes();
}

}  // namespace headmix
