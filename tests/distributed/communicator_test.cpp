// SPDX-License-Identifier: MIT
// Ranks that are threads. Those that are processes have the same tests: mpi/.

#include <doctest/doctest.h>

#include <stdexcept>

#include "communicator_conformance.hpp"
#include "headmix/distributed/local.hpp"

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
      // The first one, too, if it has not ended here yet.
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

TEST_CASE("Local: there is a rank at least") {
  CHECK(says(error_of([] { run_ranks(0, [](Local&) {}); }), "at least one rank; found 0"));
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
