// SPDX-License-Identifier: MIT
// Whole layers: MH-MoE at the width of the published models, with real and with ternary weights, and the sparse mixture
// of experts, over 4096 tokens, and MH-MoE over 65,536, also the products of its experts alone.
#include <array>
#include <utility>

#include "layer.cuh"
#include "shapes.hpp"

using namespace bench;

namespace {
constexpr Index tokens = mh_moe_shape::few_tokens;

template <Index experts, Index chosen>
using Router = headmix::SoftmaxTopK<experts, chosen, headmix::gating::raw, headmix::loss::first_choice_balance>;

using shape = mh_moe_shape;

constexpr Index sparse_d = 512, sparse_k = 2, sparse_hidden = 1024;
template <Index E>
using Sparse = headmix::Smoe<sparse_d, Router<E, sparse_k>, headmix::FeedForward<sparse_hidden>>;

/// GFLOP of the products of the router and of the experts, for all rows of width d / h of h to a token.
constexpr double expert_gflop(Index rows, Index width, Index e, Index chosen, Index inner) {
  return 2e-9 * static_cast<double>(rows * width * (e + 3 * chosen * inner));
}

template <class Weights>
void add_heads(std::vector<TimedRow>& rows, std::string const& name, Index tokens) {
  double const projections = 2e-9 * static_cast<double>(tokens * 2 * shape::d * shape::d);
  double const experts = expert_gflop(tokens, shape::d, shape::experts, shape::k, shape::hidden);
  add_layer<shape::Heads<Weights>, shape::d>(rows, name, headmix::uniform(1, tokens), projections + experts, 0);
}
/// The expert of a slot.
struct choose {
  headmix::Int* index;
  HEADMIX_HD void operator()(Index s) const {
    auto h = static_cast<std::uint32_t>(s) * 0x9E3779B9U;
    h = (h ^ h >> 16) * 0x7FEB352DU;
    index[s] = static_cast<headmix::Int>((h ^ h >> 15) % shape::experts);
  }
};
/// gate u silu(v) over two products, in registers or in memory.
template <class U, class V>
auto swiglu(view<float const> gate, U const& u, V const& v) {
  using namespace headmix;
  using hidden = tree_node<float, ops::multiply, U, tree_node<float, ops::silu, V>>;
  return tree_node<float, ops::multiply, tree_leaf<float, false, true>, hidden>{{gate}, {u, {v}}};
}
/// The buffers of the experts for the tokens of the large layer.
struct Parts {
  static constexpr Index rows = shape::many_tokens * shape::split, slots = rows * shape::k,
                         width = shape::d / shape::split;
  Backend backend;
  Buffers<bfloat16> x{backend, rows, width}, up{backend, slots, shape::hidden}, gate{backend, slots, shape::hidden},
      hidden{backend, slots, shape::hidden}, y{backend, rows, width},
      d_w{backend, shape::experts, width, shape::hidden}, w{backend, 2 * shape::experts, width, shape::hidden, 0.05F},
      w_down{backend, shape::experts, shape::hidden, width, 0.05F};
  Buffers<float> weight{backend, slots, 1};
  Buffers<headmix::Int> index{backend, rows, shape::k}, perm{backend, 1, slots},
      offsets{backend, 1, shape::experts + 1};
  headmix::cuda_kernels::memory scratch{0};

  explicit Parts(cudaStream_t stream) : backend(Backend::queue_type(stream)) {
    for (int i = 0; i < 3; ++i) {
      backend.for_each(slots, choose{index(i).data});
      backend.sort_by_expert(perm(i), offsets(i), constant(index(i)), headmix::uniform(1, rows));
    }
  }
  template <class T>
  static view<T const> constant(view<T> v) {
    return v;
  }
  [[nodiscard]] view<bfloat16 const> stack(int i, Index first) const {
    return {w(i)[first].data, shape::experts, width, shape::hidden};
  }
  std::span<std::byte> with(std::size_t bytes) {
    if (scratch.bytes().size() < bytes) scratch = headmix::cuda_kernels::memory(bytes);
    return scratch.bytes();
  }
  /// gate u silu(v) of the products u and v; both are stored too, for the backward pass, if wanted.
  void hidden_layer(int i, bool store) {
    if constexpr (headmix::FusedExperts<Backend>) {
      using headmix::tree_product;
      auto const none = view<bfloat16>(nullptr, slots, shape::hidden);
      backend.grouped_gemm_map(hidden(i), swiglu(constant(weight(i)), tree_product<0>{}, tree_product<1>{}),
                               std::array{store ? up(i) : none, store ? gate(i) : none}, constant(x(i)),
                               std::array{stack(i, 0), stack(i, shape::experts)}, constant(perm(i)),
                               constant(offsets(i)), shape::k, {});
    }
  }
  void hidden_in_three(int i) {
    for (auto const& [to, first] : {std::pair(up(i), Index{0}), std::pair(gate(i), shape::experts)}) {
      backend.grouped_gemm(to, constant(x(i)), stack(i, first), constant(perm(i)), constant(offsets(i)), shape::k, {});
    }
    using leaf = headmix::tree_leaf<bfloat16, false, false>;
    backend.map(hidden(i), swiglu(constant(weight(i)), leaf{constant(up(i))}, leaf{constant(gate(i))}), false);
  }
  void down(int i) {
    auto const from = constant(hidden(i)), weights = constant(w_down(i));
    backend.grouped_sum(y(i), from, weights, constant(perm(i)), constant(offsets(i)), shape::k, false,
                        with(backend.grouped_sum_scratch(y(i), from, weights)));
  }
  void hidden_gradient(int i) {  // of the product with W_down
    backend.grouped_gemm(
        hidden(i), constant(y(i)), constant(w_down(i)).transposed(), constant(perm(i)), constant(offsets(i)), shape::k,
        with(backend.grouped_gemm_scratch(hidden(i), constant(y(i)), constant(w_down(i)).transposed())));
  }
  /// Of the rows, by the gradients of both products: in one kernel where there is one, or in two.
  void row_gradient(int i, bool together) {
    auto const transposed = [&](Index first) { return stack(i, first).transposed(); };
    std::array const from = {constant(up(i)), constant(gate(i))}, of = {transposed(0), transposed(shape::experts)};
    auto const scratch = with(backend.grouped_sum_scratch(y(i), from[0], of[0]));
    if (together) {
      backend.grouped_sum_pair(y(i), from, of, constant(perm(i)), constant(offsets(i)), shape::k, false, scratch);
    } else {
      for (std::size_t n = 0; n < 2; ++n) {
        backend.grouped_sum(y(i), from[n], of[n], constant(perm(i)), constant(offsets(i)), shape::k, n > 0, scratch);
      }
    }
  }
  void weight_gradient(int i) {
    auto const right = constant(up(i));
    backend.grouped_outer(d_w(i), constant(x(i)), right, constant(perm(i)), constant(offsets(i)), shape::k, 1, false,
                          with(backend.grouped_outer_scratch(d_w(i), constant(x(i)), right)));
  }
};
void add_parts(std::vector<TimedRow>& rows) {
  auto const shared = std::make_shared<std::weak_ptr<Parts>>();
  double const product = 2e-9 * static_cast<double>(Parts::slots * Parts::width * shape::hidden);
  double const x_mb = 2e-6 * static_cast<double>(Parts::rows * Parts::width),
               slots_mb = 2e-6 * static_cast<double>(Parts::slots * shape::hidden),
               w_mb = 2e-6 * static_cast<double>(shape::experts * Parts::width * shape::hidden);
  auto const add = [&](char const* what, double products, double megabytes, std::function<void(Parts&, int)> f) {
    rows.push_back({{"kernel", "", std::string("MH-MoE's experts, 65536 tokens: ") + what},
                    products * product,
                    megabytes,
                    [=](cudaStream_t stream) -> Work {
                      std::shared_ptr<Parts> p = shared->lock();
                      if (!p) *shared = p = std::make_shared<Parts>(stream);
                      return [p, f](int i) { f(*p, i); };
                    }});
  };
  if constexpr (headmix::FusedExperts<Backend>) {
    add("hidden layer", 2, x_mb + 2 * w_mb + 3 * slots_mb, [](Parts& p, int i) { p.hidden_layer(i, true); });
    add("hidden layer, inference", 2, x_mb + 2 * w_mb + slots_mb, [](Parts& p, int i) { p.hidden_layer(i, false); });
  }
  add("hidden layer as two products and a map", 2, x_mb + 2 * w_mb + 3 * slots_mb,
      [](Parts& p, int i) { p.hidden_in_three(i); });
  add("W_down and the sum over slots", 1, slots_mb + w_mb + x_mb, [](Parts& p, int i) { p.down(i); });
  add("gradient of the hidden layer", 1, x_mb + w_mb + slots_mb, [](Parts& p, int i) { p.hidden_gradient(i); });
  add("gradient of the rows", 2, 2 * slots_mb + 2 * w_mb + x_mb, [](Parts& p, int i) { p.row_gradient(i, true); });
  add("gradient of the rows as two sums", 2, 2 * slots_mb + 2 * w_mb + x_mb,
      [](Parts& p, int i) { p.row_gradient(i, false); });
  add("gradient of W_up", 1, x_mb + slots_mb + w_mb, [](Parts& p, int i) { p.weight_gradient(i); });
}
template <Index E>
void add_sparse(std::vector<TimedRow>& rows) {
  add_layer<Sparse<E>, sparse_d>(rows, "MoE 2 of " + std::to_string(E) + " x 1024", headmix::uniform(1, tokens),
                                 expert_gflop(tokens, sparse_d, E, sparse_k, sparse_hidden), 0);
}

}  // namespace

std::vector<TimedRow> bench::timed_rows() {
  using headmix::weights::real, headmix::weights::ternary;
  std::vector<TimedRow> rows;
  add_heads<real>(rows, shape::name_of_many(), shape::many_tokens);
  add_heads<real>(rows, "MH-MoE 3 of 96 x 512", tokens);
  add_parts(rows);
  add_heads<ternary>(rows, "MH-MoE 3 of 96 x 512, ternary", tokens);
  add_sparse<8>(rows);
  add_sparse<16>(rows);
  add_sparse<32>(rows);
  add_sparse<128>(rows);
  return rows;
}
bool bench::passes_repeat() {
  using headmix::weights::real, headmix::weights::ternary;
  bool ok = repeats<shape::Heads<real>, shape::d>("MH-MoE", headmix::uniform(1, tokens));
  ok &= repeats<shape::Heads<ternary, headmix::capacity<1>>, shape::d>("MH-MoE, ternary, a capacity",
                                                                       headmix::uniform(1, 1777));
  return ok;
}
