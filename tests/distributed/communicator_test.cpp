// SPDX-License-Identifier: MIT
// The communicator of threads. MPI processes: mpi/.

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>

#include "../in_child.hpp"
#include "communicator_conformance.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/distributed/local.hpp"
#include "headmix/distributed/staged.hpp"

using namespace headmix;
using namespace headmix::test;

TEST_CASE("Local: all operations with all types of elements, and sums in the order of the ranks") {
  for (Index ranks = 1; ranks <= 4; ++ranks) {
    CAPTURE(ranks);
    CHECK(error_of([&] { run_ranks(ranks, [](Local& c) { check_communicator(c); }); }) == "");
  }
}

TEST_CASE("Local: what ranks disagree in is an error on all of them") {
  for (Index ranks = 2; ranks <= 4; ++ranks) {
    for (int number = 0; number < disagreements; ++number) {
      CAPTURE(ranks);
      CAPTURE(number);
      CHECK(error_of([&] { run_ranks(ranks, [&](Local& c) { check_disagreement(c, number); }); }) == "");
    }
  }
}

TEST_CASE("Local: what a rank refuses alone") {
  for (Index const ranks : {1, 3}) {
    CHECK(error_of([&] { run_ranks(ranks, [](Local& c) { check_refusals(c); }); }) == "");
  }
}

TEST_CASE("Local: when one rank throws, the others fail with its text, and its exception is thrown on") {
  std::vector<std::string> texts(3);
  auto const run = [&] {
    run_ranks(3, [&](Local& c) {
      float x = 1;
      if (c.rank() == 1) {
        c.all_sum(&x, &x, 1);
        throw std::domain_error("the file is not there");
      }
      // The first rank fails, too, unless it has already ended.
      texts[static_cast<std::size_t>(c.rank())] = error_of([&] {
        for (;;) c.all_sum(&x, &x, 1);
      });
      c.barrier();
    });
  };
  CHECK_THROWS_WITH_AS(run(), "the file is not there", std::domain_error);
  for (auto const i : {0, 2}) {
    CHECK(texts[static_cast<std::size_t>(i)] == "headmix: rank 1 has failed: the file is not there");
  }
}

namespace {
/// The error of run_ranks, in a child process with a watchdog.
template <class F>
std::string ranks_end_with(Index ranks, F const& f) {
  return in_child([&] {
    run_ranks(ranks, f);
    return std::string("it ends well");
  });
}
}  // namespace

TEST_CASE("Local: a rank that returns while others go on is an error on all of them") {
  for (Index const leaves : {0, 1, 2}) {
    std::string const text = ranks_end_with(3, [leaves](Local& c) {
      float x = 1;
      c.all_sum(&x, &x, 1);
      if (c.rank() != leaves) c.all_sum(&x, &x, 1);
    });
    CAPTURE(text);
    CHECK(says(text, " disagree: the operation is "));
    CHECK(says(text, message("the end of the program on rank ", leaves).c_str()));
    CHECK(says(text, "all_sum on rank "));
  }
  // The sum is not complete. The memory is kept: other ranks may be reading it.
  std::vector<std::vector<float>> of_ranks(2, std::vector<float>(100000));
  std::string const text = ranks_end_with(2, [&of_ranks](Local& c) {
    auto& x = of_ranks[static_cast<std::size_t>(c.rank())];
    Index const sum = c.begin_all_sum(x.data(), x.data(), 100000);
    if (c.rank() == 0) c.complete(sum);
  });
  CHECK(text == "headmix: rank 1 has ended while an operation was going on; see complete()");
  CHECK(ranks_end_with(3, [](Local&) {}) == "it ends well");
}

TEST_CASE("Local: an exception of any type is thrown on") {
  std::vector<std::string> texts(3);
  CHECK_THROWS_AS(run_ranks(3,
                            [&](Local& c) {
                              if (c.rank() == 1) throw 5;
                              texts[static_cast<std::size_t>(c.rank())] = error_of([&] { c.barrier(); });
                              c.barrier();
                            }),
                  int);
  for (auto const i : {0, 2}) {
    CHECK(texts[static_cast<std::size_t>(i)] == "headmix: rank 1 has failed: an exception");
  }
}

TEST_CASE("Local: a number of ranks that cannot be is an error") {
  for (Index const n : {Index{0}, Index{-5}, Index{4097}, Index{200000}, (Index{1} << 32) + 1}) {
    CHECK(ranks_end_with(n, [](Local&) {}) == message("headmix: run_ranks: expected 1 to 4096 ranks, found ", n));
  }
}

#if defined(__linux__) && !defined(HEADMIX_TEST_SANITIZER)
TEST_CASE("Local: a thread that the system refuses is an error, and no rank has begun") {
  std::string const text = in_child([] {
    limit_memory(std::size_t{200} << 20);
    std::atomic<int> begun = 0;
    auto const error = error_of([&] { run_ranks(1500, [&](Local&) { ++begun; }); });
    return message(error, "; ", begun.load(), " ranks");
  });
  CAPTURE(text);
  CHECK(text.starts_with("headmix: run_ranks: expected 1500 threads, found "));
  CHECK(text.ends_with(": the system refuses the next one (Resource temporarily unavailable); 0 ranks"));
}
#endif

namespace {
struct Device : Cpu<float> {
  void synchronize() const {}
};
}  // namespace

TEST_CASE("Staged: what a rank refuses alone") {
  for (Index const ranks : {1, 3}) {
    CHECK(error_of([&] {
            run_ranks(ranks, [](Local& c) {
              Staged<Device, Local> staged(c, Device{});
              check_refusals(staged);
            });
          }) == "");
  }
}

TEST_CASE("shares: they follow each other, and differ by one at most") {
  for (Index const n : {0, 1, 5, 7, 1000}) {
    for (Index const ranks : {1, 2, 3, 8}) {
      Index next = 0;
      for (Index r = 0; r < ranks; ++r) {
        CHECK(first_of_share(n, r, ranks) == next);
        Index const share = share_of(n, r, ranks);
        CHECK(n / ranks <= share);
        CHECK(share <= (n + ranks - 1) / ranks);
        next += share;
      }
      CHECK(next == n);
    }
  }
}
