// SPDX-License-Identifier: MIT
#include "layers.hpp"

#include <array>
#include <chrono>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "headmix/backend/cpu.hpp"
#include "headmix/core/random.hpp"
#include "headmix/core/subsets.hpp"
#include "headmix/count/count.hpp"
#include "headmix/distributed/distributed.hpp"
#include "headmix/distributed/gradients.hpp"
#include "headmix/layer/data_parallel.hpp"
#include "headmix/layer/mae.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/layer/smoe.hpp"
#include "headmix/program/module.hpp"

namespace bench {
namespace detail {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
std::vector<double> slowest(headmix::Mpi& ranks, std::vector<double> const& seconds) {
  auto const n = static_cast<Index>(seconds.size());
  std::vector<Index> const counts(static_cast<std::size_t>(ranks.size()), n);
  std::vector<double> all(seconds.size() * counts.size()), most(seconds.size(), 0);
  ranks.all_gather(all.data(), seconds.data(), counts);
  for (std::size_t i = 0; i < all.size(); ++i) most[i % most.size()] = std::max(most[i % most.size()], all[i]);
  return most;
}

}  // namespace detail

namespace {

using namespace headmix;
using Numbers = std::vector<float>;

/// Mpi with a record of its operations.
class Metered {
 public:
  explicit Metered(Mpi& ranks) : ranks_(&ranks) {}
  [[nodiscard]] std::vector<Operation>& operations() { return operations_; }

  [[nodiscard]] Index rank() const { return ranks_->rank(); }
  [[nodiscard]] Index size() const { return ranks_->size(); }
  template <class T>
  void all_sum(T* to, T const* from, Index n) {
    note<T>(collective::all_sum, n);
    ranks_->all_sum(to, from, n);
  }
  template <class T>
  Index begin_all_sum(T* to, T const* from, Index n) {
    note<T>(collective::all_sum, n);
    return ranks_->begin_all_sum(to, from, n);
  }
  template <class T>
  Index begin_all_to_all(T* to, std::span<Index const> received, T const* from, std::span<Index const> sent) {
    note<T>(collective::all_to_all, sum(sent));
    return ranks_->begin_all_to_all(to, received, from, sent);
  }
  void complete(Index operation) { ranks_->complete(operation); }
  void advance() { ranks_->advance(); }
  void abandon() noexcept { ranks_->abandon(); }
  template <class T>
  void all_gather(T* to, T const* from, std::span<Index const> counts) {
    note<T>(collective::all_gather, sum(counts));
    ranks_->all_gather(to, from, counts);
  }
  template <class T>
  void reduce_scatter(T* to, T const* from, std::span<Index const> counts) {
    note<T>(collective::reduce_scatter, sum(counts));
    ranks_->reduce_scatter(to, from, counts);
  }
  template <class T>
  void all_to_all(T* to, std::span<Index const> received, T const* from, std::span<Index const> sent) {
    note<T>(collective::all_to_all, sum(sent));
    ranks_->all_to_all(to, received, from, sent);
  }
  template <class T>
  void broadcast(T* data, Index n, Index root) {
    note<T>(collective::broadcast, n);
    ranks_->broadcast(data, n, root);
  }
  void barrier() {
    note<std::byte>(collective::barrier, 0);
    ranks_->barrier();
  }

 private:
  template <class T>
  void note(collective what, Index n) {
    operations_.push_back({what, static_cast<double>(n) * sizeof(T)});
  }
  static Index sum(std::span<Index const> counts) {
    Index n = 0;
    for (Index const c : counts) n += c;
    return n;
  }

  Mpi* ranks_;
  std::vector<Operation> operations_;
};

using Backend = Distributed<Cpu<float>, Metered>;

double number(Index n) { return static_cast<double>(n); }
Index largest_share(Index n, Index ranks) { return (n + ranks - 1) / ranks; }
/// The part of the rank with most of n equal parts.
double largest_part(double all, Index n, Index ranks) { return all * number(largest_share(n, ranks)) / number(n); }
/// The rows of the rank with most of them; sequences are not divided.
Sizes rows_of_rank(Sizes s, Index ranks) {
  Index const length = s.tokens / s.sequences;
  s.sequences = largest_share(s.sequences, ranks);
  s.tokens = s.sequences * length;
  return s;
}

/// Multiply-adds of a forward pass.
template <class Case>
double macs(Sizes const& s, counted what = {}) {
  using L = typename Case::template layer<>;
  return std::apply(
      [&](auto... size) {
        return number(count_macs<L>(what, at<tokens>(s.tokens), at<sequences>(s.sequences), size...));
      },
      Case::template sizes<L>(s));
}

// For each layer: its type, with options, and in its form on ranks; its sizes; the multiply-adds of a rank's forward
// pass; the operations of a forward pass, and of the backward pass after it. Unless stated otherwise, all ranks have
// all rows.

struct AllRows {
  static constexpr bool own_rows = false, sums_gradients = false;
  static constexpr std::array<double, 0> loss_weights = {};
  template <class M>
  static void prepare(M&, Sizes const&) {}
};
Operation sum_of_rows(Sizes const& s, double scalar) {
  return {collective::all_sum, number(s.tokens * s.width) * scalar};
}

struct MultiHeadCase : AllRows {
  template <class... Options>
  using layer = MultiHead<dynamic, dynamic, dynamic, causal, Options...>;
  using on_ranks = layer<tensor_parallel>;
  template <class L>
  static auto sizes(Sizes const& s) {
    return std::tuple(at<typename L::model_dim>(s.width), at<typename L::heads>(s.heads),
                      at<typename L::head_dim>(s.head_dim));
  }
  static double macs_of_rank(Sizes const& s, Index ranks) {
    return largest_part(macs<MultiHeadCase>(s), s.heads, ranks);
  }
  static void forward(std::vector<Operation>& all, Sizes const& s, double scalar) {
    all.push_back(sum_of_rows(s, scalar));
  }
  static void backward(std::vector<Operation>& all, Sizes const& s, double scalar) {
    all.push_back(sum_of_rows(s, scalar));
  }
};

struct MohCase : AllRows {
  using router = TwoStage<dynamic, dynamic, dynamic>;
  template <class... Options>
  using layer = Moh<dynamic, dynamic, router, causal, Options...>;
  using on_ranks = layer<tensor_parallel>;
  static constexpr std::array<double, 1> loss_weights = {0.01};
  static Index shared(Sizes const& s) { return s.heads / 4; }
  static Index active(Sizes const& s) { return s.heads / 2; }
  template <class L>
  static auto sizes(Sizes const& s) {
    return std::tuple(at<typename L::model_dim>(s.width), at<typename L::head_dim>(s.head_dim),
                      at<router::shared_heads>(shared(s)), at<router::routed_heads>(s.heads - shared(s)),
                      at<router::routed_top_k>(active(s) - shared(s)));
  }
  /// The router is computed on all ranks.
  static double macs_of_rank(Sizes const& s, Index ranks) {
    double const heads = macs<MohCase>(s, {.router = false});
    return macs<MohCase>(s) - heads + largest_part(heads, s.heads, ranks);
  }
  static void forward(std::vector<Operation>& all, Sizes const& s, double scalar) {
    all.push_back(sum_of_rows(s, scalar));
  }
  static void backward(std::vector<Operation>& all, Sizes const& s, double scalar) {
    all.push_back({collective::all_sum, number(s.tokens * active(s)) * 4});  // gradient of the weights of heads
    all.push_back(sum_of_rows(s, scalar));
  }
};

struct MaeCase : AllRows {
  template <class... Options>
  using layer = Mae<dynamic, dynamic, dynamic, causal, left_out_heads<dynamic>, Options...>;
  using on_ranks = layer<tensor_parallel>;
  template <class L>
  static auto sizes(Sizes const& s) {
    return std::tuple(at<typename L::model_dim>(s.width), at<typename L::heads>(s.heads),
                      at<typename L::head_dim>(s.head_dim), at<typename L::expert_heads>(s.heads - 1),
                      at<typename L::experts>(s.heads));
  }
  template <class M>
  static void prepare(M& module, Sizes const& s) {
    static std::vector<Int> heads;  // heads of each expert
    heads.clear();
    for (Index e = 0; e < s.heads; ++e) {
      for (Index j = 0; j + 1 < s.heads; ++j) {
        heads.push_back(static_cast<Int>(outside_of_subset(s.heads, Index{1}, e, j)));
      }
    }
    module.program().bind(on_ranks::heads_of_experts{}, view<Int const>(heads.data(), s.heads, s.heads - 1));
  }
  /// The gate is computed on all ranks.
  static double macs_of_rank(Sizes const& s, Index ranks) {
    double const heads = macs<MaeCase>(s, {.router = false});
    return macs<MaeCase>(s) - heads + largest_part(heads, s.heads, ranks);
  }
  static void forward(std::vector<Operation>& all, Sizes const& s, double scalar) {
    all.push_back(sum_of_rows(s, scalar));
  }
  static void backward(std::vector<Operation>& all, Sizes const& s, double scalar) {
    all.push_back({collective::all_gather, number(s.tokens * s.heads) * 4});  // gradient of the weights of heads
    all.push_back(sum_of_rows(s, scalar));
  }
};

template <class... Options>
struct MoaSizes : AllRows {
  using router = SoftmaxTopK<dynamic, dynamic>;
  template <class... More>
  using layer = Moa<dynamic, dynamic, router, causal, More...>;
  using on_ranks = layer<Options...>;
  static constexpr std::array<double, 2> loss_weights = {0.01, 0.001};
  static Index experts(Sizes const& s) { return 4 * s.heads; }
  template <class L>
  static auto sizes(Sizes const& s) {
    return with_top_k<L>(s, s.heads);
  }
  template <class L>
  static auto with_top_k(Sizes const& s, Index top_k) {
    return std::tuple(at<typename L::model_dim>(s.width), at<typename L::head_dim>(s.head_dim),
                      at<router::experts>(experts(s)), at<router::top_k>(top_k));
  }
};
struct MoaCase : MoaSizes<expert_parallel> {
  /// The work outside of experts, which all ranks do: the router, keys and values.
  struct no_experts : MoaSizes<> {
    template <class L>
    static auto sizes(Sizes const& s) {
      return with_top_k<L>(s, 0);
    }
  };
  static double macs_of_rank(Sizes const& s, Index ranks) {
    double const all = macs<MoaCase>(s), shared = macs<no_experts>(s);
    return shared + largest_part(all - shared, experts(s), ranks);
  }
  static void forward(std::vector<Operation>& all, Sizes const& s, double scalar) {
    all.push_back(sum_of_rows(s, scalar));
  }
  static void backward(std::vector<Operation>& all, Sizes const& s, double scalar) {
    all.push_back({collective::all_sum, number(s.tokens * s.heads) * 4});  // gradient of the weights of experts
    for (int i = 0; i < 2; ++i) {                                          // gradients of keys and values
      all.push_back({collective::all_sum, number(s.tokens * s.head_dim) * scalar});
    }
    all.push_back(sum_of_rows(s, scalar));
  }
};

/// Tokens are divided, so losses are sums over ranks.
template <class Case>
struct OwnRows : Case {
  static constexpr bool own_rows = true;
  using on_ranks = DataParallel<typename Case::on_ranks>;
  static double macs_of_rank(Sizes const& s, Index ranks) { return macs<Case>(rows_of_rank(s, ranks)); }
  /// Sums of these numbers of rows, and of the statistics of losses.
  static void sums(std::vector<Operation>& all, Index sizes, Index experts) {
    all.push_back({collective::all_sum, number(sizes) * sizeof(Index)});
    for (Index const n : {experts, experts, Index{1}}) all.push_back({collective::all_sum, number(n) * 4});
  }
};

template <template <class...> class Layer>
struct FeedForwardSizes : AllRows {
  using router = SoftmaxTopK<dynamic, dynamic>;
  template <class... Options>
  using layer = Layer<Options...>;
  using on_ranks = Layer<expert_parallel>;
  static constexpr std::array<double, 2> loss_weights = {0.01, 0.001};
  template <class L>
  static auto sizes(Sizes const& s) {
    return std::tuple(at<typename L::model_dim>(s.width), at<router::experts>(s.experts), at<router::top_k>(s.top_k),
                      at<typename L::network::hidden_dim>(s.hidden));
  }
};
template <class... Options>
using SmoeLayer = Smoe<dynamic, SoftmaxTopK<dynamic, dynamic>, FeedForward<dynamic>, Options...>;
template <class... Options>
using MhMoeLayer = MhMoe<dynamic, 2, SoftmaxTopK<dynamic, dynamic>, FeedForward<dynamic>, Options...>;

template <template <class...> class Layer>
struct FeedForwardCase : OwnRows<FeedForwardSizes<Layer>> {
  /// Rows are sent to the ranks of their experts, and back.
  static void exchange(std::vector<Operation>& all, Sizes const& s, double scalar) {
    for (int i = 0; i < 2; ++i) {
      all.push_back({collective::all_to_all, number(s.tokens * s.top_k) * number(s.width) * scalar});
    }
  }
  static void forward(std::vector<Operation>& all, Sizes const& s, double scalar) {
    FeedForwardCase::sums(all, 2, s.experts);
    all.push_back({collective::all_to_all, number(s.experts) * sizeof(Int)});
    exchange(all, s, scalar);
  }
  static void backward(std::vector<Operation>& all, Sizes const& s, double scalar) { exchange(all, s, scalar); }
};

/// A training step without the optimiser.
struct MoaStepCase : OwnRows<MoaSizes<>> {
  static constexpr bool sums_gradients = true;
  static void forward(std::vector<Operation>& all, Sizes const& s, double) { sums(all, 1, experts(s)); }
  /// Gradients of at least one MB are summed alone, the others together.
  static void backward(std::vector<Operation>& all, Sizes const& s, double scalar) {
    double const head = number(s.width * s.head_dim) * scalar, of_experts = number(experts(s)) * head;
    double small = 0;
    for (double const bytes : {of_experts, of_experts, head, head, number(s.width * experts(s)) * scalar}) {
      if (bytes >= 1 << 20) {
        all.push_back({collective::all_sum, bytes});
      } else {
        small += bytes;
      }
    }
    if (small > 0) all.push_back({collective::all_sum, small});
  }
};

template <class Case>
Work work_of(Sizes const& s, Index ranks, bool backward, double scalar) {
  Work work;
  work.flops = (backward ? 6 : 2) * Case::macs_of_rank(s, ranks);
  Sizes const here = Case::own_rows ? rows_of_rank(s, ranks) : s;
  Case::forward(work.operations, here, scalar);
  if (backward) Case::backward(work.operations, here, scalar);
  return work;
}

/// Numbers in [-1, 1), different for different `seed`.
Numbers random_numbers(Index n, Index seed) {
  Random const random(static_cast<std::uint64_t>(seed));
  Numbers all(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<float>(2 * random.uniform(i) - 1);
  return all;
}

template <class Case>
double time_layer(Sizes const& s, Mpi& ranks, bool backward, Timing const& timing, std::vector<Operation>& done) {
  using L = typename Case::on_ranks;
  Metered metered(ranks);
  Backend const backend(metered);
  auto module =
      std::apply([&](auto... size) { return Module<L, Backend>(1, backend, size...); }, Case::template sizes<L>(s));
  Case::prepare(module, s);
  // Routers initialised to zero would send all tokens to the same experts.
  Index seed = 1;
  for (auto const& p : module.parameters()) {
    auto const numbers = random_numbers(p.value.size(), ++seed);
    float const scale = 1.0f / std::sqrt(static_cast<float>(p.value.rows));
    for (Index i = 0; i < p.value.size(); ++i) p.value.data[i] = scale * numbers[static_cast<std::size_t>(i)];
  }
  Index const sequences = Case::own_rows ? share_of(s.sequences, ranks.rank(), ranks.size()) : s.sequences;
  Index const length = s.tokens / s.sequences, rows = sequences * length;
  Index const own = Case::own_rows ? ranks.rank() : 0;
  auto const x = random_numbers(rows * s.width, 100 + own), dy = random_numbers(rows * s.width, 1000 + own);
  std::optional<GradientSums<float, Backend>> sums;
  if (Case::sums_gradients && backward) sums.emplace(module.parameters(), module.backend());
  auto const pass = [&] {
    metered.operations().clear();
    module.forward({x.data(), rows, s.width}, uniform(sequences, length));
    if (!backward) return;
    if (sums) module.zero_gradients();
    module.backward({dy.data(), rows, s.width}, std::span<double const>(Case::loss_weights));
    if (sums) sums->complete();
  };
  pass();
  double const seconds = time_of(ranks, timing, pass);
  done = metered.operations();
  return seconds;
}

template <class Case>
constexpr Layer layer_of(char const* name, char const* title) {
  return {name, title, work_of<Case>, time_layer<Case>};
}

}  // namespace

std::span<Layer const> layers() {
  static constexpr Layer all[] = {
      layer_of<MultiHeadCase>("multi_head", "MultiHead, tensor_parallel"),
      layer_of<MohCase>("moh", "Moh, tensor_parallel"),
      layer_of<MaeCase>("mae", "Mae, tensor_parallel"),
      layer_of<MoaCase>("moa", "Moa, expert_parallel"),
      layer_of<FeedForwardCase<SmoeLayer>>("smoe", "DataParallel<Smoe, expert_parallel>"),
      layer_of<FeedForwardCase<MhMoeLayer>>("mh_moe", "DataParallel<MhMoe, expert_parallel>"),
      layer_of<MoaStepCase>("moa_step", "DataParallel<Moa>, GradientSums"),
  };
  return all;
}

double time_product(Mpi& ranks, Timing const& timing) {
  constexpr Index rows = 1024, depth = 512, cols = 512;
  auto const a = random_numbers(rows * depth, 1), b = random_numbers(depth * cols, 2);
  Numbers c(static_cast<std::size_t>(rows * cols));
  Cpu<float> cpu;
  double const seconds = time_of(ranks, timing, [&] {
    cpu.gemm(view<float>(c.data(), rows, cols), view<float const>(a.data(), rows, depth),
             view<float const>(b.data(), depth, cols), false);
  });
  return 2.0 * rows * depth * cols / seconds;
}

}  // namespace bench
