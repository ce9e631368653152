// SPDX-License-Identifier: MIT
// Allocation failures at any point of construction, passes, steps, files and decoding: std::bad_alloc, no leak, no
// change, and a repeated call gives equal bits. operator new of this executable is replaced.

#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <optional>

#include "../count_allocations.hpp"
#include "../io/files.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/decode/decoder.hpp"
#include "headmix/io/checkpoint.hpp"
#include "headmix/io/weights.hpp"
#include "headmix/layer/feed_forward.hpp"
#include "headmix/layer/mh_moe.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/copy_parameters.hpp"
#include "headmix/train/adamw.hpp"

namespace allocation_failures_test {

using namespace headmix;
using namespace headmix::test;

namespace {

constexpr Index width = 8, rows = 11;
using Layer = Moa<width, 4, NoisyTopK<3, 2>, causal, output_dropout<1, 10>>;
using Training = Module<Layer, Cpu<float>>;
using Optimiser = AdamW<float, Cpu<float>>;
using Decoded = Moa<width, 4, SoftmaxTopK<3, 2>, causal>;
constexpr Int offsets[] = {0, 4, 4, rows};
segments three_sequences() { return ragged(offsets, 3); }

/// For n = 1, 2, ..., until no allocation fails: act(*make()) with a failing n-th allocation, then check(it, failed).
template <class Make, class Act, class Check>
void with_every_failure(Make make, Act act, Check check) {
  for (long n = 1; n < 2000; ++n) {
    CAPTURE(n);
    auto const state = make();
    bool failed = false;
    failing_allocation = n;
    try {
      act(*state);
    } catch (std::bad_alloc const&) {
      failed = true;
    }
    bool const is_past = failing_allocation > 0;
    failing_allocation = 0;
    check(*state, failed);
    if (is_past) {
      CHECK(!failed);
      return;
    }
  }
  FAIL("expected fewer allocations");
}
template <class Make, class Act>
void with_every_failure(Make make, Act act) {
  with_every_failure(make, act, [](auto&, bool) {});
}

template <class M>
std::vector<float> numbers(M const& m, bool of_gradients = false) {
  std::vector<float> all;
  for (auto const& p : m.parameters()) {
    auto const& v = of_gradients ? p.gradient : p.value;
    all.insert(all.end(), v.data, v.data + v.size());
  }
  return all;
}
std::vector<float> numbers(view<float const> v) { return {v.data, v.data + v.size()}; }

/// A module, an optimiser and a decoder, and copies of their state.
struct Setting {
  Setting() {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(Random(2).normal(i));
  }
  [[nodiscard]] view<float const> in(Index n = rows) const { return {x.data(), n, width}; }
  void backward() { m.backward(in(), {{"load_balance", 0.01}, {"z", 0.001}}); }

  Training m{7};
  std::optional<Optimiser> optimiser;
  std::vector<float> x = std::vector<float>(rows * width);

  struct copies {
    std::vector<float> parameters, moments;
    std::uint64_t seed;
    std::uint32_t passes;
    Index steps;
    bool operator==(copies const&) const = default;
  };
  [[nodiscard]] copies now() const {
    copies c{numbers(m), {}, m.seed(), m.passes(), optimiser ? optimiser->steps() : 0};
    if (optimiser) {
      for (auto const& s : optimiser->state())
        c.moments.insert(c.moments.end(), s.value.data, s.value.data + s.value.size());
    }
    return c;
  }
};
struct none {};
auto nothing() { return std::make_unique<none>(); }
auto fresh() { return std::make_unique<Setting>(); }
auto trained() {
  auto s = fresh();
  s->optimiser.emplace(s->m.parameters());
  for (int i = 0; i < 2; ++i) {
    s->m.forward(s->in(), three_sequences());
    s->backward();
    s->optimiser->step(1e-2);
  }
  return s;
}
auto with_optimiser() {
  auto s = fresh();
  s->optimiser.emplace(s->m.parameters());
  return s;
}

}  // namespace

TEST_CASE("allocation failures: construction") {
  Training const owner(7);
  using Packed = Module<MhMoe<width, 2, SoftmaxTopK<3, 2>, FeedForward<6, weights::packed>>, Cpu<float>, inference>;
  with_every_failure(nothing, [](none&) { Training(7); });
  with_every_failure(nothing, [](none&) { Training(uninitialized{}); });
  with_every_failure(nothing, [&](none&) { Training(share_parameters{}, owner); });
  with_every_failure(nothing, [](none&) { Packed(7); });
  with_every_failure(nothing, [&](none&) { Optimiser(owner.parameters()); });
  with_every_failure(nothing,
                     [](none&) { Decoder<Decoded, Cpu<float>>({.sequences = 3, .tokens = 40, .page = 8}, 1); });
}

TEST_CASE("allocation failures: passes and steps") {
  auto const expected = fresh();
  auto const y = numbers(expected->m.forward(expected->in(), three_sequences()));
  expected->backward();
  auto const gradient = numbers(expected->m, true);
  auto const zeros = std::vector<float>(gradient.size(), 0.0f);
  auto const after_a_pass = [] {
    auto s = fresh();
    s->m.forward(s->in(3));  // the next pass is larger
    s->m.continue_from(7, 0);
    return s;
  };
  auto const forward = [](Setting& s) { s.m.forward(s.in(), three_sequences()); };
  auto const check_forward = [&](Setting& s, bool failed) {
    if (failed) {
      CHECK_THROWS_AS(s.backward(), Error);
      CHECK(s.m.passes() == 0);
      CHECK(numbers(s.m.forward(s.in(), three_sequences())) == y);
    }
    s.backward();
    CHECK(numbers(s.m, true) == gradient);
  };
  with_every_failure(fresh, forward, check_forward);
  with_every_failure(after_a_pass, forward, check_forward);
  with_every_failure(
      [&] {
        auto s = fresh();
        forward(*s);
        return s;
      },
      [](Setting& s) { s.backward(); },
      [&](Setting& s, bool failed) {
        if (failed) {
          CHECK(numbers(s.m, true) == zeros);
          s.backward();
        }
        CHECK(numbers(s.m, true) == gradient);
      });
  with_every_failure(trained, [](Setting& s) { s.optimiser->step(1e-2, s.optimiser->clip_scale(1)); });
}

TEST_CASE("allocation failures: saving leaves the file that was there, and loading leaves the module and optimisers") {
  Folder const folder;
  auto const path = folder / "a.safetensors", named_path = folder / "named.safetensors";
  TensorNames const names{{"W_g W_noise", "gate"}, {"W_q", "q.*"}, {"W_k W_v", "kv"}, {"W_o", "o.*"}};
  auto const saved = trained();
  save(path, saved->m, *saved->optimiser);
  save(named_path, saved->m, names);
  auto const file = Safetensors::read(path), named = Safetensors::read(named_path);

  auto const other = fresh();
  auto const old = text_of(read_all(path));
  auto const kept = [&](bool failed) {
    auto const now = text_of(read_all(path));
    CHECK(folder.files() == 2);
    CHECK((now == old) == failed);
    if (!failed) save(path, saved->m, *saved->optimiser);
  };
  other->optimiser.emplace(other->m.parameters());
  with_every_failure(
      nothing, [&](none&) { save(path, other->m, *other->optimiser); }, [&](none&, bool failed) { kept(failed); });
  with_every_failure(
      nothing, [&](none&) { save(path, other->m, names); }, [&](none&, bool failed) { kept(failed); });

  with_every_failure(nothing, [&](none&) { static_cast<void>(Safetensors::read(path)); });
  auto const before = with_optimiser()->now(), all = saved->now();
  REQUIRE(before != all);
  with_every_failure(
      with_optimiser, [&](Setting& s) { load(file, s.m, *s.optimiser); },
      [&](Setting& s, bool failed) { CHECK(s.now() == (failed ? before : all)); });
  with_every_failure(
      fresh, [&](Setting& s) { load(path, s.m); },
      [&](Setting& s, bool failed) { CHECK(numbers(s.m) == (failed ? before : all).parameters); });
  with_every_failure(
      fresh, [&](Setting& s) { load(s.m, named, names); },
      [&](Setting& s, bool failed) { CHECK(numbers(s.m) == (failed ? before : all).parameters); });
  with_every_failure(
      fresh, [&](Setting& s) { copy_parameters(saved->m, s.m); },
      [&](Setting& s, bool failed) { CHECK(numbers(s.m) == (failed ? before : all).parameters); });
}

TEST_CASE("allocation failures: copies to packed weights") {
  using From = Module<MhMoe<width, 2, SoftmaxTopK<3, 2>, FeedForward<6, weights::ternary>>, Cpu<float>>;
  using To = Module<MhMoe<width, 2, SoftmaxTopK<3, 2>, FeedForward<6, weights::packed>>, Cpu<float>, inference>;
  From const from(5);
  auto const words = [](To const& m) {
    std::vector<Int> all;
    for (auto const& p : m.packed_parameters()) all.insert(all.end(), p.words.data, p.words.data + p.words.size());
    return all;
  };
  To const untouched(7);
  To copied(7);
  copy_parameters(from, copied);
  auto const before = words(untouched), after = words(copied);
  with_every_failure([] { return std::make_unique<To>(7); }, [&](To& m) { copy_parameters(from, m); },
                     [&](To& m, bool failed) {
                       CHECK(words(m) == (failed ? before : after));
                       CHECK(numbers(m) == numbers(failed ? untouched : copied));
                     });
}

TEST_CASE("allocation failures: prepared weights") {
  using Served = Module<Layer, Cpu<float>, inference>;
  auto const s = fresh();
  Served expected(7);
  expected.prepare_weights();
  auto const y = numbers(expected.forward(s->in()));
  with_every_failure([] { return std::make_unique<Served>(7); },
                     [&](Served& m) {
                       m.prepare_weights();
                       m.forward(s->in());
                     },
                     [&](Served& m, bool) {
                       m.prepare_weights();
                       CHECK(numbers(m.forward(s->in())) == y);
                     });
}

TEST_CASE("allocation failures: decoding") {
  struct Decoding {
    Decoder<Decoded, Cpu<float>> d{{.sequences = 3, .tokens = 40, .page = 8, .pages = 6}, 1};
    [[nodiscard]] auto lengths() const { return std::array{d.length(0), d.length(1), d.length(2)}; }
  };
  auto const s = fresh();
  auto const made = [] { return std::make_unique<Decoding>(); };
  auto const prefilled = [&] {
    auto t = made();
    t->d.prefill(s->in(), three_sequences());
    t->d.reorder(std::array<Index, 3>{2, 2, 0});
    return t;
  };
  auto const prefill = [&](Decoding& t) { return t.d.prefill(s->in(), three_sequences()); };
  auto const step = [&](Decoding& t) {
    t.d.reorder(std::array<Index, 3>{0, 0, 1});
    return t.d.step(s->in(3));
  };
  auto const y = numbers(prefill(*made())), y_step = numbers(step(*prefilled()));
  with_every_failure(made, prefill, [&](Decoding& t, bool failed) {
    if (!failed) return;
    CHECK(t.lengths() == std::array<Index, 3>{0, 0, 0});
    CHECK(t.d.pages().free_pages() == 6);
    CHECK(numbers(prefill(t)) == y);
  });
  with_every_failure(prefilled, step, [&](Decoding& t, bool failed) {
    if (!failed) return;
    t.d.rewind(0, 7), t.d.rewind(1, 7), t.d.rewind(2, 7);
    CHECK(numbers(t.d.step(s->in(3))) == y_step);
  });
}

}  // namespace allocation_failures_test
