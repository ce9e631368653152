// SPDX-License-Identifier: MIT
// The communicator over NCCL, on all available GPUs: the ranks are threads of this process.
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "cuda/device_array.hpp"
#include "distributed/communicator_conformance.hpp"
#include "error_of.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/backend/cuda/graph.cuh"
#include "headmix/backend/cuda/sm80.cuh"
#include "headmix/distributed/distributed.hpp"
#include "headmix/distributed/local.hpp"
#include "headmix/distributed/nccl.cuh"

using namespace headmix;
using headmix::test::error_of, headmix::test::says;
template <class T>
using on_device = headmix::testing::device_array<T, Sm80>;
using Ranks = Nccl<Local, Sm80::queue>;

static_assert(Communicator<Ranks>);
static_assert(HasCommunicator<Distributed<Cuda<float, Sm80>, Ranks>>);

namespace {

Index gpus() {
  int count = 0;
  cuda_kernels::check(cudaGetDeviceCount(&count), "counting GPUs");
  return std::min(count, 8);
}
/// Calls f(ranks, queue) on each GPU.
template <class F>
void on_ranks(sums how, F const& f) {
  run_ranks(gpus(), [&](Local& host) {
    cuda_kernels::check(cudaSetDevice(static_cast<int>(host.rank())), "choosing a GPU");
    Sm80::queue queue;
    Ranks ranks(host, queue, how);
    ranks.reserve(std::size_t{1} << 22);  // threads of one process should not allocate while others compute
    f(ranks, queue);
    ranks.barrier();
  });
}

/// Element i of rank r: in types that round, sums in another order differ.
template <class T>
T element(Index r, Index i) {
  if constexpr (std::is_same_v<T, std::byte>) {
    return static_cast<std::byte>((7 * r + i) & 255);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(1000 * r - i);
  } else {
    double const scale = r % 3 == 0 ? 1000.0 : r % 3 == 1 ? -1000.3 : 0.001;
    return static_cast<T>(scale * (1 + 0.37 * static_cast<double>((i * 31 + r * 17) % 101)));
  }
}
template <class T>
std::vector<T> elements(Index r, Index n) {
  std::vector<T> values(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i) values[static_cast<std::size_t>(i)] = element<T>(r, i);
  return values;
}
/// The sums over the ranks of elements first ... first + n, in the order of the ranks.
template <class T>
std::vector<T> sums_of(Index ranks, Index first, Index n) {
  using wide = std::conditional_t<std::is_integral_v<T>, T, accumulator_t<T>>;
  std::vector<T> values(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i) {
    wide sum = static_cast<wide>(element<T>(0, first + i));
    for (Index r = 1; r < ranks; ++r) sum += static_cast<wide>(element<T>(r, first + i));
    values[static_cast<std::size_t>(i)] = static_cast<T>(sum);
  }
  return values;
}
template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}
/// Equality of sums; if their order is not headmix's, up to a tolerance relative to the largest operands.
template <class T>
bool same_sums(std::vector<T> const& a, std::vector<T> const& b, sums how) {
  if (how == sums::ordered || std::is_integral_v<T>) return same_bits(a, b);
  if (a.size() != b.size()) return false;
  double const bound = (std::is_same_v<T, bfloat16> ? 4e-2 : 1e-5) * 4e4 * static_cast<double>(gpus());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])) <= bound)) return false;
  }
  return true;
}
Index sum_of(std::vector<Index> const& counts) { return std::accumulate(counts.begin(), counts.end(), Index{0}); }
std::vector<sums> const both{sums::ordered, sums::by_engine};

}  // namespace

TEST_CASE_TEMPLATE("nccl: sums", T, float, double, bfloat16, Int, Index) {
  for (sums const how : both) {
    on_ranks(how, [&](Ranks& ranks, Sm80::queue& queue) {
      // Numbers around the limit of one round, fewer than ranks, none.
      for (Index const n : {Index{0}, Index{1}, Index{3}, Index{512}, Index{1025}, Index{2049}, Index{40003}}) {
        CAPTURE(n);
        auto const mine = elements<T>(ranks.rank(), n), expected = sums_of<T>(ranks.size(), 0, n);
        on_device<T> const from(queue, mine), to(queue, static_cast<std::size_t>(n)), both_in_one(queue, mine);
        ranks.all_sum(to.data(), from.data(), n);
        ranks.all_sum(both_in_one.data(), both_in_one.data(), n);
        CHECK(same_sums(to.get(), expected, how));
        CHECK(same_sums(both_in_one.get(), expected, how));
        CHECK(same_bits(from.get(), mine));
        ranks.barrier();
      }
    });
  }
}

TEST_CASE_TEMPLATE("nccl: sums of which each rank gets a part", T, float, double, bfloat16, Int, Index) {
  for (sums const how : both) {
    on_ranks(how, [&](Ranks& ranks, Sm80::queue& queue) {
      for (int form = 0; form < 3; ++form) {  // equal numbers, different numbers, one rank without elements
        std::vector<Index> counts;
        for (Index r = 0; r < ranks.size(); ++r) counts.push_back(form == 0 ? 700 : form == 1 ? 5 + 300 * r : 9 * r);
        Index const n = sum_of(counts), own = counts[static_cast<std::size_t>(ranks.rank())];
        Index first = 0;
        for (Index r = 0; r < ranks.rank(); ++r) first += counts[static_cast<std::size_t>(r)];
        auto const expected = sums_of<T>(ranks.size(), first, own);
        on_device<T> const from(queue, elements<T>(ranks.rank(), n)), to(queue, static_cast<std::size_t>(own));
        ranks.reduce_scatter(to.data(), from.data(), counts);
        CHECK(same_sums(to.get(), expected, how));
        if (n > 0) {
          ranks.reduce_scatter(from.data() + first, from.data(), counts);
          auto const all = from.get();
          CHECK(same_sums(std::vector<T>(all.begin() + first, all.begin() + first + own), expected, how));
        }
        ranks.barrier();
      }
    });
  }
}

TEST_CASE_TEMPLATE("nccl: what moves", T, float, double, bfloat16, Int, Index, std::byte) {
  on_ranks(sums::ordered, [&](Ranks& ranks, Sm80::queue& queue) {
    Index const size = ranks.size(), me = ranks.rank();
    auto const at = [](std::vector<Index> const& counts, Index r) { return counts[static_cast<std::size_t>(r)]; };
    for (Index const each : {0, 11}) {
      std::vector<Index> counts;
      for (Index r = 0; r < size; ++r) counts.push_back(each + 13 * r);
      std::vector<T> expected;
      for (Index r = 0; r < size; ++r) {
        auto const part = elements<T>(r, at(counts, r));
        expected.insert(expected.end(), part.begin(), part.end());
      }
      on_device<T> const from(queue, elements<T>(me, at(counts, me)));
      on_device<T> const to(queue, expected.size()), in_place(queue, expected);
      ranks.all_gather(to.data(), from.data(), counts);
      CHECK(same_bits(to.get(), expected));
      if (!expected.empty()) {
        ranks.all_gather(in_place.data(), in_place.data() + sum_of({counts.begin(), counts.begin() + me}), counts);
        CHECK(same_bits(in_place.get(), expected));
      }
      ranks.barrier();
    }

    // Rank a sends 2 a + b + 1 elements to rank b, and none if a + b is 3.
    auto const between = [](Index a, Index b) { return a + b == 3 ? Index{0} : 2 * a + b + 1; };
    std::vector<Index> sent, received;
    std::vector<T> from_all, expected;
    for (Index r = 0; r < size; ++r) {
      sent.push_back(between(me, r)), received.push_back(between(r, me));
      auto const out = elements<T>(10 * me + r, between(me, r)), in = elements<T>(10 * r + me, between(r, me));
      from_all.insert(from_all.end(), out.begin(), out.end()), expected.insert(expected.end(), in.begin(), in.end());
    }
    on_device<T> const from(queue, from_all), to(queue, expected.size());
    ranks.all_to_all(to.data(), received, from.data(), sent);
    CHECK(same_bits(to.get(), expected));
    ranks.barrier();

    for (Index root = 0; root < size; ++root) {
      on_device<T> const data(queue, elements<T>(me, 77));
      ranks.broadcast(data.data(), 77, root);
      ranks.broadcast(data.data(), 0, root);
      CHECK(same_bits(data.get(), elements<T>(root, 77)));
      ranks.barrier();
    }
  });
}

TEST_CASE("nccl: operations are recorded, and run when the graph is launched") {
  for (sums const how : both) {
    on_ranks(how, [&](Ranks& ranks, Sm80::queue& queue) {
      constexpr Index n = 5000;
      std::vector<Index> counts;
      for (Index r = 0; r < ranks.size(); ++r) counts.push_back(share_of(n, r, ranks.size()));
      Index const own = counts[static_cast<std::size_t>(ranks.rank())],
                  first = first_of_share(n, ranks.rank(), ranks.size());
      auto const mine = elements<float>(ranks.rank(), n);
      on_device<float> from(queue, mine), sum(queue, n), part(queue, static_cast<std::size_t>(own)), gathered(queue, n);
      auto const pass = [&] {
        ranks.all_sum(sum.data(), from.data(), n);
        ranks.reduce_scatter(part.data(), from.data(), counts);
        ranks.all_gather(gathered.data(), part.data(), counts);
      };
      pass();
      ranks.barrier();
      {
        cuda_graph graph(queue, pass);
        std::vector<float> const zeros(n);
        for (int i = 0; i < 3; ++i) {
          sum.set(zeros), gathered.set(zeros);
          ranks.barrier();
          graph.launch();
          ranks.synchronize();
          CHECK(same_sums(sum.get(), sums_of<float>(ranks.size(), 0, n), how));
          CHECK(same_sums(part.get(), sums_of<float>(ranks.size(), first, own), how));
          CHECK(same_sums(gathered.get(), sums_of<float>(ranks.size(), 0, n), how));
        }
        ranks.barrier();
      }
    });
  }
}

TEST_CASE("nccl: temporary memory does not grow while the stream is recorded, and graphs keep theirs") {
  run_ranks(gpus(), [](Local& host) {
    cuda_kernels::check(cudaSetDevice(static_cast<int>(host.rank())), "choosing a GPU");
    Sm80::queue queue;
    Ranks ranks(host, queue);
    CHECK(ranks.sum_bytes<float>(0) == 0);
    CHECK((ranks.sum_bytes<float>(100000) > 0) == (ranks.size() > 1));
    CHECK(says(error_of([&] { cuda_graph(queue, [&] { ranks.reserve(4096); }); }), "needs 4096 bytes"));
    CHECK(says(error_of([&] { cuda_graph(queue, [&] { ranks.barrier(); }); }), "cannot be recorded"));
    CHECK(says(error_of([&] { cuda_graph(queue, [&] { ranks.synchronize(); }); }), "recorded"));
    constexpr Index n = 3000;
    ranks.reserve(ranks.sum_bytes<float>(n));
    on_device<float> from(queue, elements<float>(ranks.rank(), n)), to(queue, n);
    ranks.all_sum(to.data(), from.data(), n);
    ranks.barrier();
    {
      cuda_graph graph(queue, [&] { ranks.all_sum(to.data(), from.data(), n); });
      ranks.barrier();
      ranks.reserve(std::size_t{1} << 24);
      to.set(std::vector<float>(n));
      ranks.barrier();
      graph.launch();
      CHECK(same_bits(to.get(), sums_of<float>(ranks.size(), 0, n)));
      ranks.barrier();
    }
  });
}

TEST_CASE("nccl: mistakes of one rank") {
  on_ranks(sums::ordered,
           [](Ranks& ranks, Sm80::queue&) { CHECK(error_of([&] { headmix::test::check_refusals(ranks); }) == ""); });
}

TEST_CASE("nccl: operations are compared between the ranks, when asked") {
  on_ranks(sums::ordered, [](Ranks& ranks, Sm80::queue& queue) {
    on_device<float> const x(queue, 640), y(queue, 640);
    on_device<Int> const chosen(queue, 640);
    std::vector<Index> const ones(static_cast<std::size_t>(ranks.size()), 1);
    ranks.check_each_operation(true);
    // Matching operations pass.
    ranks.all_sum(x.data(), x.data(), 64);
    ranks.all_gather(y.data(), x.data(), ones);
    ranks.reduce_scatter(y.data(), x.data(), ones);
    ranks.all_to_all(y.data(), ones, x.data(), ones);
    ranks.broadcast(x.data(), 3, 0);
    ranks.check();
    ranks.barrier();
    if (ranks.size() > 1) {
      bool const one = ranks.rank() == 1;
      // All ranks get the same message.
      auto const said = [&](auto const& f) { return error_of(f); };
      CHECK(says(said([&] { ranks.all_sum(x.data(), x.data(), one ? 63 : 64); }),
                 "rank 0 and rank 1 disagree: all_sum: the number of elements is 64 on rank 0 and 63 on rank 1"));
      CHECK(says(said([&] {
                   if (one) {
                     ranks.all_sum(chosen.data(), chosen.data(), 64);
                   } else {
                     ranks.all_sum(x.data(), x.data(), 64);
                   }
                 }),
                 "all_sum: the type of elements is float on rank 0 and Int on rank 1"));
      CHECK(says(said([&] {
                   if (one) {
                     ranks.barrier();
                   } else {
                     ranks.broadcast(x.data(), 3, 0);
                   }
                 }),
                 "the operation is broadcast on rank 0 and barrier on rank 1"));
      CHECK(says(said([&] { ranks.broadcast(x.data(), 3, one ? 1 : 0); }), "the root is 0 on rank 0 and 1 on rank 1"));
      auto wrong = ones;
      if (one) wrong[0] = 2;
      CHECK(says(said([&] { ranks.all_to_all(y.data(), ones, x.data(), wrong); }),
                 "all_to_all: rank 1 sends 2 elements to rank 0, which expects 1"));
    }
    ranks.check_each_operation(false);
    ranks.all_sum(x.data(), x.data(), 64);  // usable again
    ranks.barrier();
  });
}

TEST_CASE("nccl: a backend of several ranks") {
  run_ranks(gpus(), [](Local& host) {
    cuda_kernels::check(cudaSetDevice(static_cast<int>(host.rank())), "choosing a GPU");
    Cuda<float, Sm80> const backend;
    Cuda<float, Sm80> copy = backend;
    Nccl ranks(host, copy.queue());
    Distributed distributed(ranks, backend);
    CHECK(distributed.communicator().rank() == host.rank());
    CHECK(&ranks.on_host() == &host);
    CHECK(ranks.queue().stream() == copy.queue().stream());
    // A stream without a queue.
    Nccl others(host, copy.queue().stream(), sums::by_engine);
    static_assert(std::is_same_v<decltype(others), Ranks>);
    on_device<float> const x(copy.queue(), elements<float>(host.rank(), 64));
    others.all_sum(x.data(), x.data(), 64);
    CHECK(same_sums(x.get(), sums_of<float>(host.size(), 0, 64), sums::by_engine));
    ranks.barrier();
    others.barrier();
  });
}
