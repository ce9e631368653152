// SPDX-License-Identifier: MIT
// Run by mpirun on several ranks: the tests of every communicator, and cases special to processes; or, selected by its
// argument, a failing program (faults.cmake).

#include "headmix/distributed/mpi.hpp"
// Including it twice is harmless.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <new>
#include <stdexcept>

#include "communicator_conformance.hpp"
#include "headmix/distributed/mpi.hpp"

using namespace headmix;
using namespace headmix::test;

namespace {
std::atomic<long> allocations{0};
}
void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* const p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t to) {
  ++allocations;
  auto const a = static_cast<std::size_t>(to);
  if (void* const p = std::aligned_alloc(a, (bytes + a - 1) / a * a)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace {

/// Once memory is allocated, rounds allocate nothing.
void check_allocations(Mpi& c) {
  std::vector<float> x(50000, 1.f), y(50000);
  std::vector<Index> const counts(static_cast<std::size_t>(c.size()), 3000);
  auto const turn = [&] {
    Index const first = c.begin_all_sum(y.data(), x.data(), 50000);
    Index const second = c.begin_all_sum(x.data(), x.data(), 10);
    c.barrier();
    c.complete(second);
    c.complete(first);
    c.all_gather(y.data(), x.data(), counts);
    c.reduce_scatter(x.data(), y.data(), counts);
    c.all_to_all(x.data(), counts, y.data(), counts);
    c.broadcast(x.data(), 50000, 0);
  };
  for (int i = 0; i < 50; ++i) turn();
  long const before = allocations;
  for (int i = 0; i < 50; ++i) turn();
  long const found = allocations - before;
  require(found == 0, message("rounds allocate nothing; found ", found, " allocations"));
}

template <class T>
void check_sums_by_engine(Mpi& c) {
  for (Index const n : {0, 1, 1000, 70001}) {
    // Numbers whose sums are exact in any order.
    std::vector<T> x(static_cast<std::size_t>(n));
    auto const fill = [&] {
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(i % 64) + static_cast<T>(c.rank());
    };
    auto const expected = [&](std::size_t i) {
      return static_cast<T>((2 * static_cast<Index>(i % 64) + c.size() - 1) * c.size() / 2);
    };
    fill();
    std::vector<T> y(x.size());
    c.all_sum(y.data(), x.data(), n);
    c.all_sum(x.data(), x.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) {
      require(x[i] == expected(i) && y[i] == expected(i), message("the sum by MPI of ", n));
    }
    fill();
    std::vector<Index> counts;
    for (Index r = 0; r < c.size(); ++r) counts.push_back(share_of(n, r, c.size()));
    auto const first = static_cast<std::size_t>(first_of_share(n, c.rank(), c.size()));
    auto const mine = static_cast<std::size_t>(counts[static_cast<std::size_t>(c.rank())]);
    c.reduce_scatter(y.data(), x.data(), counts);
    c.reduce_scatter(x.data() + first, x.data(), counts);
    for (std::size_t i = 0; i < mine; ++i) {
      require(y[i] == expected(first + i) && x[first + i] == y[i], message("the reduce_scatter by MPI of ", n));
    }
  }
}
void check_by_engine() {
  Mpi c(MPI_COMM_WORLD, sums::by_engine);
  check_sums_by_engine<float>(c);
  check_sums_by_engine<double>(c);
  // Other operations are unchanged, and asynchronous sums proceed while MPI adds.
  check_moves<float>(c);
  check_sums<bfloat16>(c);
  check_overlap(c);
  check_refusals(c);
  if (c.size() == 1) return;
  Index const last = c.size() - 1;
  float x[8]{};
  // A separate communicator: a rank that still waits in the last operation would fail.
  Mpi apart(MPI_COMM_WORLD, sums::by_engine);
  std::string const text = error_of([&] {
    if (apart.rank() == last)
      apart.barrier();
    else
      apart.all_sum(x, x, 5);
    apart.barrier();
  });
  require(says(text, "the operation is ") && says(text, message("barrier on rank ", last).c_str()), text);
  for (bool const shared : {false, true}) {
    Mpi again(MPI_COMM_WORLD, sums::by_engine);
    std::vector<Index> counts(static_cast<std::size_t>(c.size()), 1);
    if (c.rank() == last) counts.front() = shared ? 0 : 2, counts.back() = 2;
    std::vector<float> many(counts.size() + 2);
    std::string const other = error_of([&] {
      again.reduce_scatter(many.data(), many.data(), counts);
      again.barrier();
    });
    require(says(other, "reduce_scatter: "), other);
  }
}

int check_all(Mpi& c) {
  check_communicator(c);
  check_refusals(c);
  check_allocations(c);
  check_by_engine();
  if (c.size() > 1) {
    for (int number = 0; number < disagreements; ++number) {
      Mpi again(MPI_COMM_WORLD);
      check_disagreement(again, number);
    }
    // Fails on this rank, and no rank waits for ever.
    Mpi again(MPI_COMM_WORLD);
    if (again.rank() == 1) again.fail_all("no more");
    require(error_of([&] { again.barrier(); }) == "headmix: rank 1 has failed: no more", "fail_all ends all");
    require(again.names_failure() == (again.rank() == 1), "one rank names the reason");
  }
  c.barrier();
  return 0;
}

/// Repeats sums for a long time.
void go_on(Mpi& c, int turns = 1000000000) {
  std::vector<float> x(100000, 0.f);
  for (int i = 0; i < turns; ++i) {
    Index const first = c.begin_all_sum(x.data(), x.data(), 100000);
    float y = 1;
    c.all_sum(&y, &y, 1);
    c.complete(first);
  }
}
[[noreturn]] void hang() {
  for (;;) pause();
}

/// The last rank runs `fault` while all ranks compute.
int run_fault(Mpi& c, std::string const& fault) {
  bool const faulty = c.rank() == c.size() - 1;
  std::vector<float> x(1000000);
  if (fault == "timeout") c.set_timeout(1);
  go_on(c, 100);
  if (fault == "interrupt" && c.rank() == 0) {
    c.set_interrupt([asked = 0]() mutable { return ++asked > 3000; });
  }
  if (!faulty) {
    if (fault == "return") c.barrier();
    go_on(c);
  }
  if (fault == "kill") raise(SIGKILL);
  if (fault == "size") c.all_sum(x.data(), x.data(), 999999);
  if (fault == "exception") throw std::runtime_error("the file is\nnot there");
  if (fault == "large") {
    // Its memory is freed while other ranks are about to read it.
    std::vector<float> y(20000000);
    try {
      c.begin_all_sum(y.data(), y.data(), 100000);
      throw std::runtime_error("in the middle");
    } catch (...) {
      c.abandon();
      throw;
    }
  }
  if (fault == "return") return 0;
  if (fault == "late" || fault == "interrupt") {  // busy while another rank fails
    sleep(2);
    go_on(c);
  }
  hang();
}
/// All ranks fail at the same time.
int run_fault_of_all(Mpi& c) {
  go_on(c, 10);
  throw std::runtime_error(message("this is no number, on rank ", c.rank()));
}
/// The program handles the error itself.
int run_caught(Mpi& c) {
  try {
    if (c.rank() == 0) fail("a matter of our own");
    go_on(c);
  } catch (Error const& e) {
    c.fail_all(e.what());
    if (c.names_failure()) std::fprintf(stderr, "ours: %s\n", e.what());
  }
  return 7;
}

}  // namespace

int main(int argc, char** argv) {
  std::string const what = argc > 1 ? argv[1] : "";
  return run_mpi(&argc, &argv, [&](Mpi& c) {
    if (what.empty()) return check_all(c);
    std::printf("process %ld\n", static_cast<long>(getpid()));
    std::fflush(stdout);
    if (what == "all") return run_fault_of_all(c);
    if (what == "caught") return run_caught(c);
    if (what == "late" && c.rank() == 0) {
      go_on(c, 100);
      throw std::runtime_error("too early");
    }
    return run_fault(c, what);
  });
}
