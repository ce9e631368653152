// SPDX-License-Identifier: MIT
// Single collective operations: values and gradients on every rank, in one process and on a backend without a
// communicator.
#include "on_ranks.hpp"

using namespace on_ranks;

namespace {

struct All : size<7> {};
struct C : size<3> {};
struct x_share : input<rank_share<All>, C> {};
struct x_all : input<All, C> {};
struct x_wide : input<C, All> {};

/// y and the gradient of x; dy has the numbers of seed `seed + 10 rank`.
template <class Y, class X, class Backend>
std::pair<std::vector<double>, std::vector<double>> pass(Backend backend, Index rank, view<double const> x, Y, X) {
  Program<roots<Y>, Backend> program(backend);
  std::vector<double> d_x(static_cast<std::size_t>(x.size()));
  program.bind(X{}, x, {d_x.data(), x.rows, x.cols});
  AlignedBuffer memory(program.workspace_bytes());
  program.bind_workspace(memory.bytes());
  auto const y = program.forward();
  auto const dy = numbers(y.size(), 3 + 10 * static_cast<double>(rank));
  program.backward({dy.data(), y.rows, y.cols});
  return {std::vector<double>(y.data, y.data + y.size()), d_x};
}
std::vector<double> dy_of(Index rank, Index n) { return numbers(n, 3 + 10 * static_cast<double>(rank)); }

}  // namespace

TEST_CASE("all_gather and reduce_scatter are each other's gradients") {
  for (Index const ranks_here : {1, 2, 3, 4}) {
    std::mutex mutex;
    run_ranks(ranks_here, [&](Local& c) {
      Index const first = first_of_share(7, c.rank(), ranks_here), own = share_of(7, c.rank(), ranks_here);
      auto const x = numbers(21, 1);
      auto const [y, d_x] =
          pass(Ranked(c), c.rank(), {x.data() + 3 * first, own, 3}, all_gather<All>(x_share{}), x_share{});
      auto const mine = numbers(21, 5 + static_cast<double>(c.rank()));
      auto const [z, d_z] = pass(Ranked(c), c.rank(), {mine.data(), 7, 3}, reduce_scatter<All>(x_all{}), x_all{});
      std::lock_guard const lock(mutex);
      CHECK(y == x);
      for (Index i = 0; i < 3 * own; ++i) {
        double sum_dy = 0, sum_x = 0;
        for (Index r = 0; r < ranks_here; ++r) {
          auto const at = static_cast<std::size_t>(3 * first + i);
          sum_dy += dy_of(r, 21)[at];
          sum_x += numbers(21, 5 + static_cast<double>(r))[at];
        }
        CHECK(d_x[static_cast<std::size_t>(i)] == doctest::Approx(sum_dy).epsilon(1e-12));
        CHECK(z[static_cast<std::size_t>(i)] == doctest::Approx(sum_x).epsilon(1e-12));
      }
      for (Index r = 0; r < ranks_here; ++r) {
        Index const rows = share_of(7, r, ranks_here);
        auto const dy = dy_of(r, 3 * rows);
        for (Index i = 0; i < 3 * rows; ++i) {
          CHECK(d_z[static_cast<std::size_t>(3 * first_of_share(7, r, ranks_here) + i)] ==
                dy[static_cast<std::size_t>(i)]);
        }
      }
    });
  }
}
TEST_CASE("a rank's columns of a replicated value, and its gradient, that of all columns") {
  for (Index const ranks_here : {1, 2, 4}) {
    std::mutex mutex;
    run_ranks(ranks_here, [&](Local& c) {
      Index const first = first_of_share(7, c.rank(), ranks_here), own = share_of(7, c.rank(), ranks_here);
      auto const x = numbers(21, 1);
      auto const [y, d_x] = pass(Ranked(c), c.rank(), {x.data(), 3, 7}, share_of_cols<All>(x_wide{}), x_wide{});
      std::lock_guard const lock(mutex);
      for (Index i = 0; i < 3; ++i) {
        for (Index j = 0; j < own; ++j) {
          CHECK(y[static_cast<std::size_t>(i * own + j)] == x[static_cast<std::size_t>(7 * i + first + j)]);
        }
        for (Index r = 0; r < ranks_here; ++r) {
          Index const begin = first_of_share(7, r, ranks_here), n = share_of(7, r, ranks_here);
          auto const dy = dy_of(r, 3 * n);
          for (Index j = 0; j < n; ++j) {
            CHECK(d_x[static_cast<std::size_t>(7 * i + begin + j)] == dy[static_cast<std::size_t>(i * n + j)]);
          }
        }
      }
    });
  }
}
TEST_CASE("without a communicator there is one rank") {
  auto const x = numbers(21, 1);
  auto const [y, d_x] = pass(Cpu<double>(), 0, {x.data(), 7, 3}, all_sum(replicated(x_all{})), x_all{});
  CHECK(y == x);
  CHECK(d_x == dy_of(0, 21));
  auto const [z, d_z] = pass(Reference<double>(), 0, {x.data(), 7, 3}, all_gather<All>(x_share{}), x_share{});
  CHECK(z == x);
  CHECK(d_z == dy_of(0, 21));
  using Layer = Smoe<12, SoftmaxTopK<3, 2>, FeedForward<5>, expert_parallel>;
  Module<Layer, Cpu<double>> m(1);
  Module<Smoe<12, SoftmaxTopK<3, 2>, FeedForward<5>>, Cpu<double>> one(1);
  auto const rows = numbers(60, 2);
  auto const a = m.forward({rows.data(), 5, 12}), b = one.forward({rows.data(), 5, 12});
  CHECK(on_ranks::difference({a.data, a.data + 60}, {b.data, b.data + 60}) < 1e-14);
}
TEST_CASE("programs whose sizes differ between ranks") {
  auto const x = numbers(100, 1);
  std::string text;
  try {
    run_ranks(3, [&](Local& c) {
      using L = MultiHead<12, 3, 4, tensor_parallel>;
      Module<L, Ranked> m(1, Ranked(c));
      m.forward({x.data(), c.rank() == 2 ? 5 : 4, 12});
    });
  } catch (Error const& e) {
    text = e.what();
  }
  CAPTURE(text);
  CHECK(text.find("all_sum: the number of elements is ") != text.npos);
  CHECK(text.find("60") != text.npos);
  CHECK(text.find("48") != text.npos);
  CHECK(text.find("rank 2") != text.npos);
}
TEST_CASE("more ranks than heads") {
  auto const x = numbers(48, 1);
  CHECK_THROWS_WITH(run_ranks(3,
                              [&](Local& c) {
                                Module<MultiHead<12, 2, 4, tensor_parallel>, Ranked> m(1, Ranked(c));
                                m.forward({x.data(), 4, 12});
                              }),
                    doctest::Contains("must be a multiple of size this rank's heads = 0"));
}
