// SPDX-License-Identifier: MIT
// The kernels of a MoA layer, forward and backward, one by one: B = 8 sequences of T = 2048 tokens, d = 1024, heads of
// 128 columns, k = 8 of E = 32 experts. --only=text: rows with this text in their names.
#include <cmath>

#include "common.cuh"

using namespace bench;
using headmix::Int;

namespace shape {
constexpr Index sequences = 8, length = 2048, tokens = sequences * length, d = 1024, h = 128, k = 8, experts = 32;
constexpr Index slots = tokens * k;
}  // namespace shape

/// The expert of slot s; experts of a token differ.
struct choose {
  Int* index;
  HEADMIX_HD void operator()(Index s) const {
    Index const token = s / shape::k, slot = s % shape::k;
    auto h = static_cast<std::uint32_t>(token) * 0x9E3779B9U;
    h = (h ^ h >> 16) * 0x7FEB352DU;
    h ^= h >> 15;
    index[s] = static_cast<Int>((h % shape::experts + slot * (2 * (h >> 8 & 7) + 1)) % shape::experts);
  }
};

int main(int argc, char** argv) {
  try {
    Ceilings const c = ceilings_of(argc, argv);
    std::string const only = option(argc, argv, "only");
    Backend backend;
    cudaStream_t const stream = backend.queue().stream();
    auto const time = [&](std::string const& name, double gflop, double megabytes, std::function<void(int)> const& f) {
      if (!only.empty() && name.find(only) == std::string::npos) return;
      row({"kernel", "", name}, median_us(stream, f), gflop, megabytes, c);
    };
    auto const constant = [](auto v) { return headmix::view<std::remove_pointer_t<decltype(v.data)> const>(v); };
    constexpr double giga = 1e-9, token_slots = static_cast<double>(shape::slots);
    constexpr double expert_gflop = 2 * token_slots * shape::d * shape::h * giga;

    using namespace shape;
    Buffers<bfloat16> const x(backend, tokens, d), y(backend, tokens, d), w_q(backend, experts, d, h, 0.05F),
        w_o(backend, experts, h, d, 0.05F), w_kv(backend, d, 2 * h, 0.05F), w_g(backend, d, experts, 0.05F),
        kv(backend, tokens, 2 * h), d_kv(backend, tokens, 2 * h), q(backend, slots, h), d_q(backend, slots, h),
        o(backend, slots, h), d_o(backend, slots, h), upcast(backend, slots, d), d_w_q(backend, experts, d, h),
        d_w_o(backend, experts, h, d);
    Buffers<float> const logits(backend, tokens, experts), p(backend, tokens, experts), lse(backend, slots, 1);
    Buffers<Int> const index(backend, tokens, k), perm(backend, 1, slots), offsets(backend, 1, experts + 1);
    for (int i = 0; i < 3; ++i) {
      backend.for_each(slots, choose{index(i).data});
      backend.sort_by_expert(perm(i), offsets(i), constant(index(i)), headmix::uniform(1, tokens));
    }
    double const order_mb = perm.megabytes();

    time("router: logits (cuBLAS)", 2 * giga * tokens * d * experts, x.megabytes() + logits.megabytes(),
         [&](int i) { backend.gemm(logits(i), constant(x(i)), constant(w_g(i)), false); });
    time("router: softmax", 0, 2 * p.megabytes(), [&](int i) { backend.softmax(p(i), constant(logits(i))); });
    time("router: top-k", 0, p.megabytes() + order_mb, [&](int i) { backend.top_k(index(i), constant(p(i))); });
    time("router: logits, softmax and top-k in one", 2 * giga * tokens * d * experts,
         x.megabytes() + 2 * p.megabytes() + order_mb,
         [&](int i) { backend.route(logits(i), p(i), index(i), constant(x(i)), constant(w_g(i))); });
    for (int i = 0; i < 3; ++i) backend.for_each(slots, choose{index(i).data});
    time("router: expert order", 0, 2 * order_mb,
         [&](int i) { backend.sort_by_expert(perm(i), offsets(i), constant(index(i)), headmix::uniform(1, tokens)); });
    time("keys and values (cuBLAS)", 2 * giga * tokens * d * 2 * h, x.megabytes() + kv.megabytes(),
         [&](int i) { backend.gemm(kv(i), constant(x(i)), constant(w_kv(i)), false); });

    // Scratch of the largest need.
    headmix::cuda_kernels::memory scratch(0);
    auto const with = [&](std::size_t bytes) {
      if (scratch.bytes().size() < bytes) scratch = headmix::cuda_kernels::memory(bytes);
      return scratch.bytes();
    };
    auto const grouped = [&](auto const& to, auto const& from, auto const& weights, Index per_row, bool transposed) {
      return [&, per_row, transposed](int i) {
        view<bfloat16 const> const w = transposed ? weights(i).transposed() : weights(i);
        backend.grouped_gemm(to(i), constant(from(i)), w, constant(perm(i)), constant(offsets(i)), per_row,
                             with(backend.grouped_gemm_scratch(to(i), constant(from(i)), w)));
      };
    };
    auto const outer = [&](auto const& to, auto const& left, auto const& right, Index per_row) {
      return [&, per_row](int i) {
        backend.grouped_outer(to(i), constant(left(i)), constant(right(i)), constant(perm(i)), constant(offsets(i)),
                              per_row, 1, false,
                              with(backend.grouped_outer_scratch(to(i), constant(left(i)), constant(right(i)))));
      };
    };
    headmix::attention_extents extents;
    extents.queries = extents.keys = headmix::uniform(sequences, length);
    extents.rows_per_token = k;
    extents.head_dim = h;
    auto const keys = [&](auto const& both, int i) { return both(i).middle_cols(0, h); };
    auto const values = [&](auto const& both, int i) { return both(i).middle_cols(h, h); };
    headmix::attention_scores<bfloat16> scores;
    scores.scale = 1 / std::sqrt(static_cast<double>(h));
    double const attention_gflop = 4 * giga * token_slots * length * h;

    time("queries: gather-GEMM", expert_gflop, x.megabytes() + w_q.megabytes() + q.megabytes() + order_mb,
         grouped(q, x, w_q, k, false));
    auto const attend = [&](auto mask) {
      return [&](int i) {
        headmix::attention_forward<bfloat16> const problem{
            extents, constant(q(i)), constant(keys(kv, i)), constant(values(kv, i)), o(i), lse(i), {}, scores};
        backend.attention<decltype(mask)>(problem, with(backend.attention_scratch(problem)));
      };
    };
    double const attention_mb = q.megabytes() + kv.megabytes() + o.megabytes() + lse.megabytes();
    time("attention, all keys", attention_gflop, attention_mb, attend(headmix::full{}));
    time("attention, causal", attention_gflop / 2, attention_mb, attend(headmix::causal{}));
    time("output: sum over the experts, in one", expert_gflop,
         o.megabytes() + w_o.megabytes() + 2 * upcast.megabytes() + y.megabytes() + order_mb, [&](int i) {
           auto const to = y(i);
           backend.grouped_sum(to, constant(o(i)), constant(w_o(i)), constant(perm(i)), constant(offsets(i)), k, false,
                               with(backend.grouped_sum_scratch(to, constant(o(i)), constant(w_o(i)))));
         });
    time("output: expanded GEMM", expert_gflop, o.megabytes() + w_o.megabytes() + upcast.megabytes() + order_mb,
         grouped(upcast, o, w_o, 1, false));
    using leaf = headmix::tree_leaf<bfloat16, false, false>;
    auto const sum_slots = [&](auto const& to, auto const& from) {
      return [&](int i) { backend.group_sum(to(i), headmix::lazy<leaf>{{constant(from(i))}, slots, d}, k, false); };
    };
    time("output: sum over the experts of a token", 0, upcast.megabytes() + y.megabytes(), sum_slots(y, upcast));

    time("backward: gradient of o, gather-GEMM", expert_gflop,
         y.megabytes() + w_o.megabytes() + d_o.megabytes() + order_mb, grouped(d_o, y, w_o, k, true));
    time("backward: gradient of W_q", expert_gflop, x.megabytes() + d_q.megabytes() + d_w_q.megabytes() + order_mb,
         outer(d_w_q, x, d_q, k));
    auto const attend_back = [&](auto mask) {
      return [&](int i) {
        headmix::attention_backward<bfloat16> const problem{extents,
                                                            constant(q(i)),
                                                            constant(keys(kv, i)),
                                                            constant(values(kv, i)),
                                                            constant(o(i)),
                                                            constant(d_o(i)),
                                                            constant(lse(i)),
                                                            d_q(i),
                                                            keys(d_kv, i),
                                                            values(d_kv, i),
                                                            {},
                                                            scores};
        backend.attention_gradient<decltype(mask)>(problem,
                                                   with(backend.attention_gradient_scratch<decltype(mask)>(problem)));
      };
    };
    double const back_mb = 2 * attention_mb + d_q.megabytes();
    time("backward: attention, all keys", 2.5 * attention_gflop, back_mb, attend_back(headmix::full{}));
    time("backward: attention, causal", 1.25 * attention_gflop, back_mb, attend_back(headmix::causal{}));
    time("backward: gradient of x, expanded GEMM", expert_gflop,
         d_q.megabytes() + w_q.megabytes() + upcast.megabytes() + order_mb, grouped(upcast, d_q, w_q, 1, true));
  } catch (headmix::Error const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
