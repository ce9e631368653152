// SPDX-License-Identifier: MIT
// Tokens divided among ranks, with feed-forward experts divided among ranks.
#include <thread>

#include "check_on_ranks.hpp"
#include "headmix/layer/data_parallel.hpp"

using namespace on_ranks;

TEST_CASE("Smoe whose experts and tokens are divided among ranks") {
  using R = SoftmaxTopK<5, 2>;
  using One = Smoe<12, R, FeedForward<10>>;
  using Many = DataParallel<Smoe<12, R, FeedForward<10>, expert_parallel>>;
  check<One, Many>({7}, 1, given_rows::one_rank);
  check<One, Many>({7, 6}, 1, given_rows::one_rank);
  check<One, Many>({3, 0, 5, 1}, 1, given_rows::one_rank);
  check<One, Many>({0, 9}, 1, given_rows::one_rank);
}
TEST_CASE("MH-MoE with capacity whose experts and tokens are divided among ranks") {
  using R = SoftmaxTopK<3, 2, loss::first_choice_balance>;
  using X = FeedForward<5, activation::gelu_tanh, feed_forward_bias>;
  using One = MhMoe<12, 2, R, X, capacity<1>, subtoken_residual>;
  using Many = DataParallel<MhMoe<12, 2, R, X, capacity<1>, subtoken_residual, expert_parallel>>;
  check<One, Many>({4, 5}, 1, given_rows::one_rank);
  check<One, Many>({2, 0, 3, 8}, 1, given_rows::one_rank);
}
TEST_CASE("MoA whose tokens are divided among ranks") {
  using One = Moa<12, 4, SoftmaxTopK<5, 3, loss::cv_squared, loss::z>, causal>;
  check<One, DataParallel<One>>({4, 8}, 4, given_rows::one_rank);
  check<One, DataParallel<One>>({4, 0, 12}, 4, given_rows::one_rank);
  check<One, DataParallel<One>>({3, 0, 3, 6}, 3, given_rows::one_rank);
}
TEST_CASE("Smoe with overlapped exchanges") {
  using R = SoftmaxTopK<5, 3>;
  using One = Smoe<12, R, FeedForward<10>>;
  using Many = DataParallel<Smoe<12, R, FeedForward<10>, expert_parallel, overlapped_exchange>>;
  check<One, Many>({7, 6}, 1, given_rows::one_rank);
  check<One, Many>({3, 0, 5, 1}, 1, given_rows::one_rank);
}
TEST_CASE("the load by rank can be observed") {
  std::mutex mutex;
  Index total = 0;
  run_ranks(3, [&](Local& ranks) {
    using L = Smoe<12, SoftmaxTopK<4, 2>, FeedForward<10>, expert_parallel>;
    Module<L, Ranked> m(7, Ranked(ranks));
    set_parameters(m);
    auto const x = numbers(12 * 10, 1 + static_cast<double>(ranks.rank()));
    m.forward({x.data(), 10, 12});
    auto const chosen = m.observed(), rows = m.observed<1>();
    std::lock_guard const lock(mutex);
    CHECK(rows.rows == 3);
    CHECK(rows.cols == share_of(4, ranks.rank(), 3));
    for (Index r = 0; r < rows.rows; ++r) {
      for (Index e = 0; e < rows.cols; ++e) total += rows(r, e);
    }
    // Rows that stay on this rank.
    for (Index e = 0; e < rows.cols; ++e) {
      Index mine = 0;
      for (Index i = 0; i < 20; ++i) {
        mine += chosen(i / 2, i % 2) == first_of_share(4, ranks.rank(), 3) + e ? 1 : 0;
      }
      CHECK(rows(ranks.rank(), e) == mine);
    }
  });
  CHECK(total == 3 * 10 * 2);
}

namespace {

/// Observations of this thread's rank during an exchange.
struct Seen {
  int exchanges = 0, products = 0, products_meanwhile = 0;
  Index rows = 0, received = 0;  // rows of the largest product, and rows received
};
thread_local Seen seen;

/// A communicator that counts concurrent exchanges.
struct Watched : Local {
  using Local::Local;
  template <class... A>
  Index begin_all_to_all(A&&... a) {
    ++seen.exchanges;
    going_on.push_back(Local::begin_all_to_all(std::forward<A>(a)...));
    return going_on.back();
  }
  void complete(Index number) {
    std::erase(going_on, number);
    Local::complete(number);
  }
  std::vector<Index> going_on;
};
thread_local Watched* watched = nullptr;
struct WatchedProducts : Cpu<double> {
  template <class... A>
  void grouped_gemm(view<double> y, A&&... a) {
    ++seen.products;
    seen.rows = std::max(seen.rows, y.rows);
    if (!watched->going_on.empty()) ++seen.products_meanwhile;
    Cpu<double>::grouped_gemm(y, std::forward<A>(a)...);
  }
};

template <class L>
Seen watch() {
  Seen result;
  headmix::detail::local_group group(2);
  std::vector<std::thread> threads;
  for (Index r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      using Backend = Distributed<WatchedProducts, Watched>;
      Watched ranks(group, r);
      watched = &ranks, seen = {};
      Module<L, Backend> m(7, Backend(ranks));
      auto const x = numbers(20 * 12, 1);
      m.forward({x.data(), 20, 12});
      CHECK(ranks.going_on.empty());
      auto const came = m.template observed<1>();
      for (Index i = 0; i < came.rows; ++i) {
        for (Index e = 0; e < came.cols; ++e) seen.received += came(i, e);
      }
      if (r == 0) result = seen;
    });
  }
  for (auto& t : threads) t.join();
  return result;
}

}  // namespace

TEST_CASE("rows are on their way while experts work") {
  using R = SoftmaxTopK<4, 2, init<fan_in_uniform>>;  // ranks receive different numbers of rows
  Seen const plain = watch<Smoe<12, R, FeedForward<10>, expert_parallel>>();
  Seen const overlapped = watch<Smoe<12, R, FeedForward<10>, expert_parallel, overlapped_exchange>>();
  CHECK(plain.exchanges == 2);  // to the experts and back
  CHECK(plain.products_meanwhile == 0);
  CHECK(plain.rows == plain.received);  // not the 80 rows of the memory
  CHECK(plain.received < 80);
  CHECK(overlapped.exchanges == 4);
  CHECK(overlapped.products == 2 * plain.products);
  // Experts compute on the first half during the exchange of the second, and on the second during the return of the
  // first.
  CHECK(overlapped.products_meanwhile == overlapped.products);
}
