// SPDX-License-Identifier: MIT
// Attention alone, by the layout of its heads, and routers alone.
#include <cmath>

#include "library.cuh"

namespace {

using namespace bench;
using headmix::Int;

/// Whose rows a list holds: all heads of all tokens, or of 32 heads 16 shared ones and `chosen` of the others.
struct Layout {
  Index sequences, length, heads, groups, head_dim, active;
  bool queries_by_row;      ///< rows of one head, of which a token has `heads`, as in MoA
  bool by_kv_head = false;  ///< a list for each key/value head, not for each head

  [[nodiscard]] Index tokens() const { return sequences * length; }
  [[nodiscard]] bool has_lists() const { return active < heads; }
};
/// Slot s of a token whose choices are the shared heads and some of the others, all different.
struct choose {
  Int* index;
  Index active, heads;
  HEADMIX_HD void operator()(Index s) const {
    Index const token = s / active, slot = s % active, shared = heads / 2;
    auto h = static_cast<std::uint32_t>(token) * 0x9E3779B9U;
    h = (h ^ h >> 16) * 0x7FEB352DU;
    h ^= h >> 15;
    Index const routed = heads - shared, step = 2 * static_cast<Index>(h >> 8 & 7) + 1;
    index[s] = static_cast<Int>(slot < shared ? slot : shared + (static_cast<Index>(h % 1024) + slot * step) % routed);
  }
};

template <class Mask>
struct Attention {
  Layout of;
  Backend backend;
  Index const rows, cols;
  Buffers<bfloat16> q, k, v, o, d_o, d_q, d_k, d_v;
  Buffers<float> lse;
  Buffers<Int> chosen, slots, lists;
  headmix::attention_extents extents;
  headmix::attention_scores<bfloat16> scores;
  headmix::cuda_kernels::memory scratch{0};

  Attention(Layout layout, cudaStream_t stream)
      : of(layout),
        backend(Backend::queue_type(stream)),
        rows(of.queries_by_row ? of.tokens() * of.heads
             : of.has_lists()  ? of.tokens() * of.active
                               : of.tokens()),
        cols(of.queries_by_row || of.has_lists() ? of.head_dim : of.heads * of.head_dim),
        q(backend, rows, cols),
        k(backend, of.tokens(), of.groups * of.head_dim),
        v(backend, of.tokens(), of.groups * of.head_dim),
        o(backend, rows, cols),
        d_o(backend, rows, cols),
        d_q(backend, rows, cols),
        d_k(backend, of.tokens(), of.groups * of.head_dim),
        d_v(backend, of.tokens(), of.groups * of.head_dim),
        lse(backend, rows, cols / of.head_dim),
        chosen(backend, of.tokens(), of.active),
        slots(backend, 1, of.tokens() * of.active),
        lists(backend, 1, of.sequences * (of.by_kv_head ? of.groups : of.heads) + 1) {
    scores.scale = 1 / std::sqrt(static_cast<double>(of.head_dim));
    extents.queries = extents.keys = headmix::uniform(of.sequences, of.length);
    extents.head_dim = of.head_dim;
    if (of.queries_by_row) {
      extents.rows_per_token = of.heads;
    } else {
      extents.heads = of.by_kv_head ? of.groups : of.heads, extents.kv_heads = of.groups;
    }
    if (of.has_lists()) {
      extents.rows_per_token = of.active;
      for (int i = 0; i < 3; ++i) {
        backend.for_each(of.tokens() * of.active, choose{chosen(i).data, of.active, of.heads});
        if (of.by_kv_head) backend.renumber(chosen(i), view<Int const>(chosen(i)), 0, 0, of.heads / of.groups);
        backend.sort_by_expert(slots(i), lists(i), view<Int const>(chosen(i)), extents.queries);
      }
    }
    for (int i = 0; i < 3; ++i) forward(i);
  }
  headmix::attention_extents extents_of(int i) const {
    headmix::attention_extents e = extents;
    if (of.has_lists()) e.chosen = {slots(i).data, lists(i).data, of.by_kv_head ? of.heads / of.groups : 1};
    return e;
  }
  std::span<std::byte> with(std::size_t bytes) {
    if (scratch.bytes().size() < bytes) scratch = headmix::cuda_kernels::memory(bytes);
    return scratch.bytes();
  }
  void forward(int i) {
    headmix::attention_forward<bfloat16> const problem{extents_of(i), q(i), k(i), v(i), o(i), lse(i), {}, scores};
    backend.template attention<Mask>(problem, with(backend.attention_scratch(problem)));
  }
  void backward(int i) {
    headmix::attention_backward<bfloat16> const problem{extents_of(i), q(i),   k(i),   v(i),   o(i), d_o(i),
                                                        lse(i),        d_q(i), d_k(i), d_v(i), {},   scores};
    backend.template attention_gradient<Mask>(problem,
                                              with(backend.template attention_gradient_scratch<Mask>(problem)));
  }
};

template <class Mask>
void add_attention(std::vector<TimedRow>& rows, std::string const& name, Layout of, std::string const& over = {}) {
  auto const shared = std::make_shared<std::weak_ptr<Attention<Mask>>>();
  double const seen = std::is_same_v<Mask, headmix::causal> ? 0.5 : 1;
  double const gflop = 4e-9 * static_cast<double>(of.tokens() * of.active * of.length * of.head_dim) * seen;
  double const q_mb = 2e-6 * static_cast<double>(of.tokens() * of.active * of.head_dim),
               k_mb = 2e-6 * static_cast<double>(of.tokens() * of.groups * of.head_dim);
  for (bool const both : {false, true}) {
    rows.push_back({{"kernel", both ? "forward and backward" : "forward", name, over},
                    both ? 3.5 * gflop : gflop,
                    both ? 6 * q_mb + 6 * k_mb : 2 * q_mb + 2 * k_mb,
                    [=](cudaStream_t stream) -> Work {
                      std::shared_ptr<Attention<Mask>> a = shared->lock();
                      if (!a) *shared = a = std::make_shared<Attention<Mask>>(of, stream);
                      if (both) return [a](int i) { a->forward(i), a->backward(i); };
                      return [a](int i) { a->forward(i); };
                    }});
  }
}

struct Router {
  Backend backend;
  Buffers<bfloat16> x, w;
  Buffers<float> z, p, p_sum, chosen_sum;
  Buffers<Int> index, order, begins;
  headmix::cuda_kernels::memory scratch;

  Router(Index tokens, Index width, Index experts, Index k, cudaStream_t stream)
      : backend(Backend::queue_type(stream)),
        x(backend, tokens, width),
        w(backend, width, experts, 0.05F),
        z(backend, tokens, experts),
        p(backend, tokens, experts),
        p_sum(backend, 1, experts),
        chosen_sum(backend, 1, experts),
        index(backend, tokens, k),
        order(backend, 1, tokens * k),
        begins(backend, 1, experts + 1),
        scratch(backend.route_scratch(problem(0))) {}
  void route(int i) { backend.route(z(i), p(i), index(i), view<bfloat16 const>(x(i)), view<bfloat16 const>(w(i))); }
  /// As layers read it: without logits, with the sums of a balance loss and the order of the slots.
  void route_for_layer(int i) { backend.route(problem(i), scratch.bytes()); }
  headmix::route_problem<bfloat16> problem(int i) {
    view<float> const unread(nullptr, z(i).rows, z(i).cols);
    headmix::route_problem<bfloat16> r{unread, p(i), index(i)};
    r.p_sum = p_sum(i), r.chosen_sum = chosen_sum(i);
    r.order = order(i), r.begins = begins(i);
    r.x = view<bfloat16 const>(x(i)), r.w = view<bfloat16 const>(w(i));
    return r;
  }
};
void add_router(std::vector<TimedRow>& rows, Index tokens, Index width, Index experts, Index k) {
  double const n = static_cast<double>(tokens), e = static_cast<double>(experts), d = static_cast<double>(width);
  std::string const name = "router, " + std::to_string(tokens) + " x " + std::to_string(width) + ", " +
                           std::to_string(k) + " of " + std::to_string(experts);
  double const index_mb = 4e-6 * n * static_cast<double>(k), x_mb = 2e-6 * n * d, w_mb = 2e-6 * d * e;
  for (bool const of_layer : {false, true}) {
    rows.push_back({{"kernel", "forward", of_layer ? name + ", with sums and order" : name},
                    2e-9 * n * d * e,
                    x_mb + w_mb + (of_layer ? 4e-6 * n * e + 3 * index_mb : 8e-6 * n * e + index_mb),
                    [=](cudaStream_t stream) -> Work {
                      auto const r = std::make_shared<Router>(tokens, width, experts, k, stream);
                      if (of_layer) return [r](int i) { r->route_for_layer(i); };
                      return [r](int i) { r->route(i); };
                    }});
  }
}

}  // namespace

std::vector<TimedRow> bench::timed_rows() {
  using headmix::causal, headmix::full;
  std::vector<TimedRow> rows;
  for (Index const length : {2048, 8192}) {
    std::string const at = "32/8 x 128, " + std::to_string(length) + " tokens", all = "attention of " + at;
    add_attention<causal>(rows, all, {1, length, 32, 8, 128, 32, false});
    for (Index const active : {24, 16}) {
      add_attention<causal>(rows, "attention, " + std::to_string(active) + " of " + at,
                            {1, length, 32, 8, 128, active, false}, all);
      add_attention<causal>(rows, "attention, " + std::to_string(active) + " of " + at + ", by key/value head",
                            {1, length, 32, 8, 128, active, false, true}, all);
    }
  }
  for (Index const length : {2048, 8192}) {
    Index const sequences = 16'384 / length;
    std::string const at = length == 2048 ? "" : ", T=" + std::to_string(length);
    add_attention<full>(rows, "attention, 8 x 128, all keys" + at, {sequences, length, 8, 8, 128, 8, false});
    add_attention<causal>(rows, "attention, 8 x 128, causal" + at, {sequences, length, 8, 8, 128, 8, false});
    add_attention<full>(rows, "attention, 8 rows of 128, all keys" + at, {sequences, length, 8, 1, 128, 8, true});
    add_attention<causal>(rows, "attention, 8 rows of 128, causal" + at, {sequences, length, 8, 1, 128, 8, true});
  }
  add_router(rows, 16'384, 1024, 32, 8);
  add_router(rows, 2048, 4096, 48, 8);
  add_router(rows, 196'608, 256, 96, 3);
  return rows;
}
bool bench::passes_repeat() { return true; }
