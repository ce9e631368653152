// SPDX-License-Identifier: MIT
// Saved and resumed trainings: equal bits, or an error that names the tensor and changes nothing.

#include "headmix/io/checkpoint.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <limits>

#include "files.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/io/weights.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/module.hpp"
#include "headmix/train/adamw.hpp"
#include "headmix/train/sgd.hpp"

using namespace headmix;
using namespace headmix::test;
using doctest::Contains;

namespace {

using Layer = Moa<8, 4, NoisyTopK<3, 2>, causal, output_dropout<1, 4>>;
using Training = Module<Layer, Cpu<float>>;
using Optimiser = AdamW<float, Cpu<float>>;

template <class T = float>
std::vector<T> numbers(std::size_t n) {
  std::vector<T> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<T>(Random(2).normal(i));
  return v;
}
/// Training steps towards y = x.
template <class T>
void train(Module<Layer, Cpu<T>>& m, AdamW<T, Cpu<T>>& optimiser, int steps) {
  auto const x = numbers<T>(6 * 8);
  std::vector<T> dy(x.size());
  for (int s = 0; s < steps; ++s) {
    auto const y = m.forward({x.data(), 6, 8}, uniform(2, 3));
    for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = T(static_cast<float>(y.data[i]) - static_cast<float>(x[i]));
    m.zero_gradients();
    m.backward({dy.data(), 6, 8}, {0.01, 0.001});
    optimiser.step(1e-2);
  }
}
template <class M>
std::string values(M const& m) {
  std::string all;
  for (auto const& p : m.parameters()) {
    all.append(reinterpret_cast<char const*>(p.value.data),
               sizeof(*p.value.data) * static_cast<std::size_t>(p.value.size()));
  }
  return all;
}
template <class O>
std::string state_of(O const& optimiser) {
  std::string all = std::to_string(optimiser.steps());
  for (auto const& s : optimiser.state()) {
    all.append(reinterpret_cast<char const*>(s.value.data),
               sizeof(*s.value.data) * static_cast<std::size_t>(s.value.size()));
  }
  return all;
}

/// A training, its earlier state, and a file of another training.
struct Fixture {
  Folder folder;
  std::string path = folder / "a.safetensors";
  Training m{1};
  Optimiser optimiser{m.parameters(), {}, m.backend()};

  Fixture() {
    Training other(2);
    Optimiser o(other.parameters(), {}, other.backend());
    train(other, o, 2);
    save(path, other, o);
    train(m, optimiser, 1);
  }
  /// Modifies the file.
  template <class F>
  void edit(F change) {
    auto const file = Safetensors::read(path);
    TensorMap tensors = file.tensors();
    Metadata metadata = file.metadata();
    change(tensors, metadata);
    write_safetensors(path, tensors, metadata);
  }
  /// load() fails with this error and changes nothing.
  void refused(std::string const& error) {
    std::string const before = values(m) + state_of(optimiser) + std::to_string(m.passes()) + std::to_string(m.seed());
    CHECK_THROWS_WITH_AS(load(path, m, optimiser), Contains(error.c_str()), Error);
    CHECK(values(m) + state_of(optimiser) + std::to_string(m.passes()) + std::to_string(m.seed()) == before);
  }
};

/// A user's optimiser in host memory: gradient descent with momentum.
struct Momentum {
  std::vector<parameter<float>> moved;
  std::vector<std::vector<float>> velocities;
  Index done = 0;

  explicit Momentum(std::vector<parameter<float>> all) : moved(std::move(all)) {
    for (auto const& p : moved) velocities.emplace_back(static_cast<std::size_t>(p.value.size()), 0.5f);
  }
  [[nodiscard]] std::vector<state_tensor<float>> state() const {
    std::vector<state_tensor<float>> all;
    for (std::size_t i = 0; i < moved.size(); ++i) {
      auto* const v = const_cast<float*>(velocities[i].data());
      all.push_back({"velocity." + std::string(moved[i].name), {v, 1, moved[i].value.size()}});
    }
    return all;
  }
  [[nodiscard]] Index steps() const { return done; }
  void set_steps(Index n) { done = n; }
};
static_assert(StatefulOptimiser<Momentum> && StatefulOptimiser<Optimiser> && StatefulOptimiser<Sgd<float>>);
static_assert(HasParameters<Training> && !HasParameters<Momentum> && !StatefulOptimiser<Training>);

}  // namespace

TEST_CASE("checkpoint: a training that is resumed has the same bits, with noise and dropout") {
  Folder const folder;
  Training whole(7), first(7), second(99);
  Optimiser a(whole.parameters(), {}, whole.backend()), b(first.parameters(), {}, first.backend()),
      c(second.parameters(), {}, second.backend());
  train(whole, a, 10);
  train(first, b, 4);
  save(folder / "a", first, b);
  load(folder / "a", second, c);
  CHECK(second.seed() == 7);
  CHECK(second.passes() == 4);
  CHECK(values(second) == values(first));
  train(second, c, 6);
  CHECK(values(second) == values(whole));
  CHECK(state_of(c) == state_of(a));
}

TEST_CASE("checkpoint: a training of bfloat16 that is resumed has the same bits") {
  for (auto const narrow : {narrow_parameters::master_weights, narrow_parameters::stochastic_rounding}) {
    Folder const folder;
    Module<Layer, Cpu<bfloat16>> whole(7), first(7), second(99);
    AdamWOptions const options{.narrow = narrow, .seed = 5};
    AdamW<bfloat16, Cpu<bfloat16>> a(whole.parameters(), options, whole.backend()),
        b(first.parameters(), options, first.backend()), c(second.parameters(), options, second.backend());
    train(whole, a, 10);
    train(first, b, 4);
    save(folder / "a", first, b);
    load(folder / "a", second, c);
    train(second, c, 6);
    CHECK(values(second) == values(whole));
    CHECK(state_of(c) == state_of(a));
  }
}

TEST_CASE("checkpoint: what a file says of itself") {
  Folder const folder;
  Training m(5);
  Optimiser optimiser(m.parameters(), {}, m.backend());
  train(m, optimiser, 3);
  std::vector<double> const curve{1.5, 2.5};
  save(folder / "a", {{{"extra.curve", {dtype::f64, {2}, std::as_bytes(std::span(curve))}}}, {{"run", "r"}}}, m,
       optimiser, Sgd<float>(m.parameters()));
  auto const file = Safetensors::read(folder / "a");
  CHECK(file.values<double>("extra.curve") == curve);
  CHECK(file.metadata().at("run") == "r");
  CHECK(file.metadata().at("seed") == "5");
  CHECK(file.metadata().at("passes") == "3");
  CHECK(file.metadata().at("scalar") == "F32");
  CHECK(file.metadata().at("optimiser_steps") == "3 0");
  CHECK(file.metadata().at("headmix").find('.') != std::string::npos);
  CHECK((" " + file.metadata().at("parameters") + " ").find(" W_noise ") != std::string::npos);
  CHECK(file.tensor("W_q").shape == std::vector<Index>{3, 8, 4});
  CHECK(file.tensor("W_g").shape == std::vector<Index>{8, 3});
  CHECK(file.tensor("optimiser.v.W_k").shape == std::vector<Index>{8, 4});
  Sgd<float> other(m.parameters());
  CHECK_THROWS_WITH_AS(load(folder / "a", m, optimiser),
                       Contains("expected the state of 1 optimisers, found that of 2"), Error);
  load(file, m, optimiser, other);
}

TEST_CASE("checkpoint: weights alone, for inference, and in another type") {
  Fixture f;
  Training other(2);
  Optimiser o(other.parameters(), {}, other.backend());
  train(other, o, 2);
  Module<Layer, Cpu<float>, inference> fixed(3);
  load(f.path, fixed);
  CHECK(values(fixed) == values(other));
  Module<Layer, Reference<double>, inference> wide(3);
  CHECK_THROWS_WITH_AS(load(f.path, wide), Contains("\"W_g\": expected F64 [8, 3], found F32 [8, 3]"), Error);
  load(f.path, {.convert = true}, wide);
  for (std::size_t i = 0; i < wide.parameters().size(); ++i) {
    auto const& a = wide.parameters()[i].value;
    auto const& b = other.parameters()[i].value;
    for (Index j = 0; j < a.size(); ++j) REQUIRE(a.data[j] == static_cast<double>(b.data[j]));
  }
  save(f.path, fixed);
  f.refused("expected the state of an optimiser, found none");
  load(f.path, f.m);
  CHECK(values(f.m) == values(other));
}

TEST_CASE("checkpoint: an optimiser of one's own") {
  Folder const folder;
  Training m(1);
  Momentum a(m.parameters()), b(m.parameters());
  a.velocities[1][2] = 3;
  a.done = 12;
  save(folder / "a", m, a);
  load(folder / "a", m, b);
  CHECK(b.velocities == a.velocities);
  CHECK(b.done == 12);
  Optimiser c(m.parameters(), {}, m.backend());
  CHECK_THROWS_WITH_AS(load(folder / "a", m, c), Contains("\"optimiser.m.W_g\": expected F32 [8, 3], found no such"),
                       Error);
}

TEST_CASE("checkpoint: what is wrong is named, and nothing changes") {
  Fixture f;
  std::vector<float> v(96, 1.0f);
  auto const bytes = std::as_bytes(std::span(v));
  SUBCASE("missing") {
    f.edit([](TensorMap& t, auto&) { t.erase("W_k"); });
    f.refused("a.safetensors: \"W_k\": expected F32 [8, 4], found no such tensor");
  }
  SUBCASE("left over") {
    f.edit([&](TensorMap& t, auto&) { t["W_x"] = {dtype::f32, {2}, bytes.first(8)}; });
    f.refused("a.safetensors: \"W_x\", F32 [2]: expected the name of a parameter");
  }
  SUBCASE("state of an optimiser left over") {
    f.edit([&](TensorMap& t, auto&) { t["optimiser.m.W_x"] = {dtype::f32, {2}, bytes.first(8)}; });
    f.refused("\"optimiser.m.W_x\", F32 [2]: expected");
  }
  SUBCASE("swapped shapes") {
    f.edit([&](TensorMap& t, auto&) { std::swap(t["W_q"], t["W_o"]); });
    f.refused("\"W_o\": expected F32 [3, 4, 8], found F32 [3, 8, 4]");
  }
  SUBCASE("as many elements, other extents") {
    f.edit([&](TensorMap& t, auto&) { t["W_k"].shape = {32}; });
    f.refused("\"W_k\": expected F32 [8, 4], found F32 [32]");
  }
  SUBCASE("another type") {
    f.edit([&](TensorMap& t, auto&) { t["W_k"] = {dtype::i32, {8, 4}, bytes.first(128)}; });
    f.refused("\"W_k\": expected F32 [8, 4], found I32 [8, 4]");
  }
  SUBCASE("NaN, of the last tensor that is read") {
    v[5] = std::numeric_limits<float>::quiet_NaN();
    f.edit([&](TensorMap& t, auto&) { t["optimiser.v.W_v"] = {dtype::f32, {8, 4}, bytes.first(128)}; });
    f.refused("\"optimiser.v.W_v\": element 5: expected a finite number in the range of F32, found nan");
    load(f.path, {.allow_non_finite = true}, f.m, f.optimiser);
    for (auto const& t : f.optimiser.state()) CHECK(std::isnan(t.value.data[5]) == (t.name == "v.W_v"));
  }
  SUBCASE("infinity") {
    v[31] = -std::numeric_limits<float>::infinity();
    f.edit([&](TensorMap& t, auto&) { t["W_k"] = {dtype::f32, {8, 4}, bytes.first(128)}; });
    f.refused("\"W_k\": element 31: expected a finite number in the range of F32, found -inf");
  }
  SUBCASE("a number that the type does not hold") {
    std::vector<double> wide(32, 1e300);
    f.edit([&](TensorMap& t, auto&) { t["W_k"] = {dtype::f64, {8, 4}, std::as_bytes(std::span(wide))}; });
    CHECK_THROWS_WITH_AS(load(f.path, {.convert = true}, f.m),
                         Contains("element 0: expected a finite number in the range of F32, found 1e+300"), Error);
  }
  SUBCASE("lying metadata") {
    std::pair<char const*, char const*> const lies[] = {{"seed", "-1"},
                                                        {"passes", "4294967296"},
                                                        {"optimiser_steps", "x"},
                                                        {"optimiser_steps", "-2"},
                                                        {"optimiser_steps", ""}};
    auto const good = read_all(f.path);
    for (auto const& [key, value] : lies) {
      f.edit([&, k = key, text = value](auto&, Metadata& m) { m[k] = text; });
      f.refused(*value == 0 ? "expected the state of 1 optimisers, found that of 0"
                            : message("metadata \"", key, "\": expected"));
      write_file(f.path, text_of(good));
    }
    f.edit([&](auto&, Metadata& m) { m.erase("passes"); });
    f.refused("metadata: expected \"seed\" and \"passes\"");
  }
  SUBCASE("one name twice") {
    Bytes const whole = read_all(f.path);
    std::string text = text_of(whole);
    for (std::size_t at = 0; (at = text.find("\"W_v\":", at)) != text.npos; ++at) text[at + 3] = 'k';
    write_file(f.path, text);
    f.refused("\"W_k\": expected every key once");
  }
  SUBCASE("lying offsets") {
    std::string text = text_of(read_all(f.path));
    std::size_t const at = text.find("\"data_offsets\":[0,");
    text[at + 16] = '4';
    write_file(f.path, text);
    f.refused("data_offsets");
  }
}

TEST_CASE("checkpoint: a file that is cut, or has other bytes, is refused or read as a whole") {
  Fixture f;
  std::string const text = text_of(read_all(f.path));
  std::uint64_t header = 0;
  std::memcpy(&header, text.data(), 8);
  save(f.path, f.m, f.optimiser);
  auto const as_before = Safetensors::read(f.path);
  auto const everything = [&f] { return values(f.m) + state_of(f.optimiser) + std::to_string(f.m.passes()); };
  std::string const before = everything();
  TensorNames const names =
      TensorNames{{"W_g", "W_g", tensor_name::in_out}, {"W_noise", "W_noise", tensor_name::in_out},
                  {"W_q", "W_q", tensor_name::in_out}, {"W_k", "W_k", tensor_name::in_out},
                  {"W_v", "W_v", tensor_name::in_out}, {"W_o", "W_o", tensor_name::in_out}}
          .ignoring("optimiser.*");
  int refused = 0, taken = 0;
  auto const attempt = [&](std::string const& content, bool by_name) {
    try {
      auto const file = Safetensors::parse(std::as_bytes(std::span(content)), "f");
      if (by_name) {
        load(f.m, file, names);
      } else {
        load(file, f.m, f.optimiser);
      }
    } catch (Error const&) {
      ++refused;
      REQUIRE(everything() == before);
      return;
    }
    ++taken;
    for (auto const& p : f.m.parameters()) {
      for (Index i = 0; i < p.value.size(); ++i) REQUIRE(std::isfinite(p.value.data[i]));
    }
    load(as_before, f.m, f.optimiser);
    REQUIRE(everything() == before);
  };
  for (std::size_t n = 0; n < text.size(); n += n < header + 16 ? 37 : 211) attempt(text.substr(0, n), n % 2 == 0);
  CHECK(taken == 0);
  Random const random(4);
  std::uint64_t draw = 0;
  auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random.below(draw++, n)); };
  for (int run = 0; run < 1000; ++run) {
    std::string other = text;
    for (std::size_t n = 1 + below(3); n > 0; --n) {
      std::size_t const at = below(run % 4 == 0 ? text.size() : header + 8);
      other[at] = run % 2 == 0 ? static_cast<char>(below(256)) : text[8 + below(header)];
    }
    attempt(other, run % 3 == 0);
  }
  CHECK(refused > 500);
  CHECK(taken > 50);
}

TEST_CASE("checkpoint: parameters of one name are an error that names both") {
  struct Twice {
    Cpu<float> cpu;
    std::vector<float> v = std::vector<float>(4);
    [[nodiscard]] std::vector<parameter<float>> parameters() const {
      auto* const p = const_cast<float*>(v.data());
      return {{"W", {p, 2, 2}, {}, "a::W"}, {"W", {p, 2, 2}, {}, "b::W"}};
    }
    [[nodiscard]] Cpu<float> const& backend() const { return cpu; }
  } const m;
  Folder const folder;
  CHECK_THROWS_WITH_AS(save(folder / "a", m), Contains("W is the name of two tensors: a::W and b::W"), Error);
  CHECK(folder.files() == 0);
}

TEST_CASE("checkpoint: a process that is killed while it saves leaves a whole checkpoint") {
  Fixture f;
  auto const fill = [](auto const& m, float x) {
    for (auto const& p : m.parameters()) std::fill_n(p.value.data, p.value.size(), x);
  };
  fill(f.m, 0);
  f.optimiser.set_steps(0);
  save(f.path, f.m, f.optimiser);
  float last = 0;
  for (std::uint64_t kill_number = 0; kill_number < 50; ++kill_number) {
    pid_t const child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (float x = last + 1;; ++x) {
        fill(f.m, x);
        f.optimiser.set_steps(static_cast<Index>(x));
        save(f.path, f.m, f.optimiser);
      }
    }
    usleep(static_cast<useconds_t>(Random(9).below(kill_number, 20000)));
    REQUIRE(kill(child, SIGKILL) == 0);
    waitpid(child, nullptr, 0);
    load(f.path, f.m, f.optimiser);
    float const x = f.m.parameters()[0].value.data[0];
    CHECK(x >= last);
    CHECK(f.optimiser.steps() == static_cast<Index>(x));
    for (auto const& p : f.m.parameters()) {
      for (Index i = 0; i < p.value.size(); ++i) REQUIRE(p.value.data[i] == x);
    }
    last = x;
  }
  CHECK(last > 0);
}
