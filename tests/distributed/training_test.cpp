// SPDX-License-Identifier: MIT
// Trainings on several ranks: the numbers of one process, and checkpoints that any number of ranks resumes.
#include <array>
#include <atomic>
#include <thread>

#include "../error_of.hpp"
#include "../in_child.hpp"
#include "../io/files.hpp"
#include "headmix/distributed/checkpoint.hpp"
#include "headmix/distributed/gradients.hpp"
#include "headmix/layer/data_parallel.hpp"
#include "on_ranks.hpp"

using namespace on_ranks;

namespace {

using One = Smoe<12, SoftmaxTopK<3, 2>, FeedForward<5>, output_bias>;
using Many = DataParallel<Smoe<12, SoftmaxTopK<3, 2>, FeedForward<5>, output_bias, expert_parallel>>;
constexpr Index D = 12, batch_rows = 7;

/// The target of y is -x: dy = (x + y) / rows. Every step has other rows.
template <class M>
void pass(M& m, Index step, Index first, Index rows) {
  auto const x = numbers(batch_rows * D, 1 + static_cast<double>(step));
  auto const y = m.forward({x.data() + first * D, rows, D});
  std::vector<double> dy(static_cast<std::size_t>(rows * D));
  for (Index i = 0; i < rows * D; ++i) {
    dy[static_cast<std::size_t>(i)] = (y.data[i] + x[static_cast<std::size_t>(first * D + i)]) / batch_rows;
  }
  m.zero_gradients();
  m.backward({dy.data(), rows, D}, {0.01, 0.001});
}
/// Steps `from` .. `to` - 1 in one process, starting from a file unless its name is empty, and writing another one.
void train(std::string const& begin, std::string const& end, Index from, Index to) {
  Module<One, Cpu<double>> m(3);
  AdamW<double, Cpu<double>> optimiser(m.parameters(), {}, Cpu<double>());
  if (!begin.empty()) load(begin, m, optimiser);
  for (Index step = from; step < to; ++step) {
    pass(m, step, 0, batch_rows);
    optimiser.step(0.01, clip_scale(m.parameters(), 0.5));
  }
  save(end, m, optimiser);
}
/// The training on several ranks.
void train(Index ranks_here, std::string const& begin, std::string const& end, Index from, Index to) {
  run_ranks(ranks_here, [&](Local& c) {
    Ranked backend(c);
    Module<Many, Ranked> m(3, backend);
    GradientSums<double, Ranked> sums(m.parameters(), m.backend(), 64 * sizeof(double));
    DividedParameters<double, Ranked> mine(m.parameters(), backend);
    AdamW<double, Ranked> optimiser(mine.own(), {}, backend);
    if (!begin.empty()) load(begin, m, optimiser);
    for (Index step = from; step < to; ++step) {
      pass(m, step, first_of_share(batch_rows, c.rank(), c.size()), share_of(batch_rows, c.rank(), c.size()));
      sums.complete();
      optimiser.step(0.01, clip_scale(m.parameters(), 0.5, c));
      mine.gather();
    }
    save(end, c, m, optimiser);
  });
}
double difference(std::string const& a, std::string const& b) {
  auto const x = Safetensors::read(a), y = Safetensors::read(b);
  REQUIRE(x.tensors().size() == y.tensors().size());
  double most = 0;
  for (auto const& named : x.tensors()) {
    auto const& name = named.first;
    auto const& t = named.second;
    CAPTURE(name);
    REQUIRE(y.tensors().count(name) == 1);
    REQUIRE(y.tensors().at(name).shape == t.shape);
    most = std::max(most, on_ranks::difference(x.values<double>(name), y.values<double>(name)));
  }
  return most;
}

}  // namespace

TEST_CASE("a training on several ranks is that of one process") {
  headmix::test::Folder folder;
  train("", folder / "one.safetensors", 0, 20);
  train("", folder / "start.safetensors", 0, 0);
  CHECK(difference(folder / "one.safetensors", folder / "start.safetensors") > 0.01);
  for (Index const ranks_here : {1, 2, 4}) {
    train(ranks_here, "", folder / "many.safetensors", 0, 20);
    CHECK(difference(folder / "one.safetensors", folder / "many.safetensors") < 1e-9);
    train(ranks_here, "", folder / "again.safetensors", 0, 20);
    CHECK(difference(folder / "again.safetensors", folder / "many.safetensors") == 0);
  }
}
TEST_CASE("any number of ranks goes on from a checkpoint of another number") {
  headmix::test::Folder folder;
  train("", folder / "one.safetensors", 0, 12);
  train(2, "", folder / "half.safetensors", 0, 6);
  train(folder / "half.safetensors", folder / "end.safetensors", 6, 12);
  CHECK(difference(folder / "one.safetensors", folder / "end.safetensors") < 1e-9);
  for (Index const ranks_here : {1, 3, 4}) {
    train(ranks_here, folder / "half.safetensors", folder / "end.safetensors", 6, 12);
    CHECK(difference(folder / "one.safetensors", folder / "end.safetensors") < 1e-9);
  }
}
TEST_CASE("a module that is divided is not saved as one process would") {
  run_ranks(2, [&](Local& c) {
    Module<Many, Ranked> m(3, Ranked(c));
    CHECK_THROWS_WITH(save("none.safetensors", m), doctest::Contains("divided among ranks"));
  });
}
TEST_CASE("ranks that do not begin a training with the same are an error that names one, and what differs") {
  headmix::test::Folder folder;
  train("", folder / "one.safetensors", 0, 3);
  train("", folder / "same_steps.safetensors", 1, 4);
  // The errors of all ranks after rank 2 alone has made a change.
  auto const error_after = [&](auto const& change) {
    std::string text;
    std::atomic<int> failed = 0;
    run_ranks(3, [&](Local& c) {
      Ranked backend(c);
      Module<Many, Ranked> m(3, backend);
      DividedParameters<double, Ranked> mine(m.parameters(), backend);
      AdamW<double, Ranked> optimiser(mine.own(), {}, backend);
      load(folder / "one.safetensors", m, optimiser);
      check_equal_on_ranks(c, m, optimiser);  // experts and the optimiser's state are divided
      if (c.rank() == 2) change(m, optimiser);
      std::string const mine_ends = headmix::test::error_of([&] { check_equal_on_ranks(c, m, optimiser); });
      if (!mine_ends.empty()) ++failed;
      if (c.rank() == 0) text = mine_ends;
    });
    CHECK((failed == 3 || (failed == 0 && text.empty())));
    return text;
  };
  auto const is = [](std::string const& text, std::string const& what) {
    CAPTURE(text);
    CHECK(text.starts_with("headmix: " + what + " must be the same on all ranks; it is "));
    CHECK(text.ends_with(" on rank 2"));
  };
  CHECK(error_after([](auto&, auto&) {}) == "");
  is(error_after([](auto& m, auto&) {
       for (auto const& p : m.parameters()) {
         double& last = p.value.data[p.value.size() - 1];
         if (p.name == "W_g") last = std::nextafter(last, 1);
       }
     }),
     "the digest of W_g");
  is(error_after([](auto&, auto& optimiser) { optimiser.set_steps(2); }), "the number of an optimiser's steps");
  is(error_after([](auto& m, auto&) { m.continue_from(3, 77); }), "the number of passes");
  is(error_after([&](auto& m, auto& optimiser) { load(folder / "same_steps.safetensors", m, optimiser); }),
     "the digest of W_g");
}
TEST_CASE("the state of an optimiser that is not divided is the same on all ranks, too") {
  std::string const text = headmix::test::error_of([] {
    run_ranks(2, [](Local& c) {
      Ranked backend(c);
      Module<One, Ranked> m(3, backend);
      AdamW<double, Ranked> optimiser(m.parameters(), {}, backend);
      check_equal_on_ranks(c, m, optimiser);
      if (c.rank() == 1) optimiser.state().back().value.data[0] = -0.;
      check_equal_on_ranks(c, m, optimiser);
    });
  });
  CAPTURE(text);
  CHECK(text.starts_with("headmix: the digest of optimiser."));
}
TEST_CASE("modules of different seeds are an error on all ranks") {
  std::atomic<int> caught = 0;
  run_ranks(3, [&](Local& c) {
    try {
      Module<Many, Ranked> const m(c.rank() == 1 ? 4 : 3, Ranked(c));
    } catch (Error const& e) {
      std::string const text = e.what();
      if (text.find("the seed of a module must be the same on all ranks; it is 3 on rank 0 and 4 on rank 1") !=
          text.npos) {
        ++caught;
      }
    }
  });
  CHECK(caught == 3);
}

namespace {

/// Counts begun sums.
struct Counted : Local {
  using Local::Local;
  template <class... A>
  Index begin_all_sum(A... a) {
    ++sums;
    return Local::begin_all_sum(a...);
  }
  int sums = 0;
};

}  // namespace

TEST_CASE("gradients are summed while the backward pass goes on, from the second step on") {
  headmix::detail::local_group group(2);
  std::vector<std::thread> threads;
  std::array<std::array<int, 2>, 2> begun{};  // by rank, in the first two backward passes
  for (Index r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      using Backend = Distributed<Cpu<double>, Counted>;
      Counted ranks(group, r);
      Module<MultiHead<12, 2, 6, causal>, Backend> m(3, Backend(ranks));
      GradientSums<double, Backend> sums(m.parameters(), m.backend(), 1);
      auto const x = numbers(60, 1);
      for (std::size_t step = 0; step < 2; ++step) {
        m.zero_gradients();
        m.forward({x.data(), 5, 12});
        int const before = ranks.sums;
        m.backward({x.data(), 5, 12});
        begun[static_cast<std::size_t>(r)][step] = ranks.sums - before;
        sums.complete();
      }
    });
  }
  for (auto& t : threads) t.join();
  for (auto const& rank : begun) {
    CHECK(rank[0] == 0);
    CHECK(rank[1] == 4);  // W_q, W_k, W_v and W_o
  }
}
namespace {

/// A parameter of n numbers with this gradient.
parameter<double> parameter_of(char const* name, double* gradient, Index n) {
  static std::vector<double> value(64);
  parameter<double> p{};
  p.name = name;
  p.value = {value.data(), 1, n}, p.gradient = {gradient, 1, n};
  return p;
}
using Layer = MultiHead<12, 2, 6, causal>;
/// Adds dy = x on some ranks: this multiple of one gradient.
void backward(Module<Layer, Ranked>& m, std::vector<double> const& x) {
  m.forward({x.data(), 5, 12});
  m.backward({x.data(), 5, 12});
}
std::vector<double> gradients_of(Module<Layer, Ranked>& m) {
  std::vector<double> all;
  for (auto const& p : m.parameters()) all.insert(all.end(), p.gradient.data, p.gradient.data + p.gradient.size());
  return all;
}
bool is_multiple(std::vector<double> const& a, double factor, std::vector<double> const& one) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::abs(a[i] - factor * one[i]) > 1e-12) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("gradients that no pass makes are summed by their names, wherever they lie") {
  // One bucket for all gradients, and one for each.
  for (std::size_t const bucket : {std::size_t{1} << 20, std::size_t{1}}) {
    CAPTURE(bucket);
    CHECK(headmix::test::in_child([bucket] {
            std::string wrong;
            run_ranks(2, [&](Local& ranks) {
              std::vector<double> memory(64);
              bool const first = ranks.rank() == 0;
              double *const a = memory.data() + (first ? 0 : 32), *const b = memory.data() + (first ? 32 : 0);
              double* const c = memory.data() + (first ? 16 : 50);
              std::fill_n(a, 8, 1.), std::fill_n(b, 8, 10.), std::fill_n(c, 3, 100.);
              std::vector<parameter<double>> all{parameter_of("a", a, 8), parameter_of("b", b, 8),
                                                 parameter_of("c", c, 3)};
              if (!first) std::swap(all[0], all[2]);
              GradientSums<double, Ranked> sums(all, Ranked(ranks), bucket);
              for (int step = 1; step <= 2; ++step) {
                sums.complete();
                for (int i = 0; i < 8; ++i) {
                  if (a[i] != (1 << step) || b[i] != 10 * (1 << step)) wrong = message("of rank ", ranks.rank());
                }
                if (c[2] != 100 * (1 << step)) wrong = "of c";
              }
            });
            return wrong;
          }) == "");
  }
}
TEST_CASE("ranks that leave out a part of a step are summed with the others") {
  CHECK(headmix::test::in_child([] {
          std::atomic<int> right = 0;
          run_ranks(3, [&](Local& ranks) {
            Ranked backend(ranks);
            Module<Layer, Ranked> one(3, backend), other(4, backend);
            auto all = one.parameters();
            all.insert(all.end(), other.parameters().begin(), other.parameters().end());
            auto const x = numbers(60, 1);
            backward(one, x), backward(other, x);
            auto const of_one = gradients_of(one), of_other = gradients_of(other);
            GradientSums<double, Ranked> sums(all, backend, 1);
            for (int step = 0; step < 4; ++step) {
              one.zero_gradients(), other.zero_gradients();
              // In the first and the third step, all ranks compute all gradients.
              bool const all_of_them = step % 2 == 0, leaves = ranks.rank() == 1;
              if (all_of_them || !leaves) backward(one, x);
              if (all_of_them || leaves || step == 3) backward(other, x);
              sums.complete();
              double const times = all_of_them ? 3 : 2, times_other = all_of_them || step == 3 ? 3 : 1;
              if (is_multiple(gradients_of(one), times, of_one) &&
                  is_multiple(gradients_of(other), times_other, of_other))
                ++right;
            }
          });
          return message(right.load(), " right");
        }) == "12 right");
}
TEST_CASE("a first step that makes other gradients on some rank is an error that names it") {
  std::string const text = headmix::test::in_child([] {
    run_ranks(3, [&](Local& ranks) {
      Ranked backend(ranks);
      Module<Layer, Ranked> m(3, backend);
      GradientSums<double, Ranked> sums(m.parameters(), backend);
      if (ranks.rank() != 2) backward(m, numbers(60, 1));
      sums.complete();
    });
    return std::string("no error");
  });
  CAPTURE(text);
  CHECK(text.find("GradientSums: the digest of the parameters in the order in which the first step makes their "
                  "gradients must be the same on all ranks; it is ") != text.npos);
  CHECK(text.find(" on rank 2") != text.npos);
}
TEST_CASE("a gradient that is added to after its sum has begun is an error") {
  run_ranks(1, [&](Local& ranks) {
    Module<MultiHead<12, 2, 6, causal>, Ranked> m(3, Ranked(ranks));
    GradientSums<double, Ranked> sums(m.parameters(), m.backend(), 1);
    auto const x = numbers(60, 1);
    m.forward({x.data(), 5, 12});
    m.backward({x.data(), 5, 12});
    sums.complete();
    m.backward({x.data(), 5, 12});
    CHECK_THROWS_WITH(m.backward({x.data(), 5, 12}),
                      doctest::Contains("added to after its sum over the ranks had begun"));
  });
}
