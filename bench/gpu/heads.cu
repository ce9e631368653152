// SPDX-License-Identifier: MIT
// The kernels of MoH, where tokens choose heads, and those of multi-head attention: B = 4 sequences of T = 2048 tokens,
// d = 1024, 16 heads of 64 columns, of which a token chooses 16, 12, 8 or 4. --only=text: rows with this text in their
// names.
#include <cmath>

#include "common.cuh"

using namespace bench;
using headmix::Int;

namespace shape {
constexpr Index sequences = 4, length = 2048, tokens = sequences * length, d = 1024, h = 64, heads = 16;
}  // namespace shape

/// The head of slot s; heads of a token differ.
struct choose {
  Int* index;
  Index k;
  HEADMIX_HD void operator()(Index s) const {
    Index const token = s / k, slot = s % k;
    auto h = static_cast<std::uint32_t>(token) * 0x9E3779B9U;
    h = (h ^ h >> 16) * 0x7FEB352DU;
    h ^= h >> 15;
    index[s] = static_cast<Int>((h % shape::heads + slot * (2 * (h >> 8 & 7) + 1)) % shape::heads);
  }
};

int main(int argc, char** argv) {
  try {
    Ceilings const c = ceilings_of(argc, argv);
    std::string const only = option(argc, argv, "only");
    Backend backend;
    cudaStream_t const stream = backend.queue().stream();
    auto const time = [&](std::string const& name, double gflop, double megabytes, std::function<void(int)> const& f,
                          std::string const& over = {}) {
      if (!only.empty() && name.find(only) == std::string::npos) return;
      row({"kernel", "", name, over}, median_us(stream, f), gflop, megabytes, c);
    };
    auto const constant = [](auto v) { return headmix::view<std::remove_pointer_t<decltype(v.data)> const>(v); };
    headmix::cuda_kernels::memory scratch(0);  // of the largest need
    auto const with = [&](std::size_t bytes) {
      if (scratch.bytes().size() < bytes) scratch = headmix::cuda_kernels::memory(bytes);
      return scratch.bytes();
    };

    using namespace shape;
    // Rows of all heads, or of all slots, depending on the row of the table.
    Buffers<bfloat16> const x(backend, tokens, d), y(backend, tokens, d), w(backend, d, heads * h, 0.05F),
        d_w(backend, d, heads * h), q(backend, tokens, heads * h), keys(backend, tokens, heads * h),
        values(backend, tokens, heads * h), o(backend, tokens, heads * h), d_o(backend, tokens, heads * h),
        d_q(backend, tokens, heads * h), d_k(backend, tokens, heads * h), d_v(backend, tokens, heads * h);
    Buffers<float> const lse(backend, tokens, heads);
    headmix::attention_scores<bfloat16> scores;
    scores.scale = 1 / std::sqrt(static_cast<double>(h));
    headmix::attention_extents dense;
    dense.queries = dense.keys = headmix::uniform(sequences, length);
    dense.heads = dense.kv_heads = heads;
    dense.head_dim = h;
    constexpr double giga = 1e-9;

    // A row for each slot, or for each token if there are as many columns as those of all heads.
    auto const attend = [&](auto mask, auto const& extents, Index rows, Index head_count) {
      return [&, extents, rows, head_count](int i) {
        auto const of = [&](auto const& buffers, Index cols) { return view(buffers(i).data, rows, cols); };
        headmix::attention_forward<bfloat16> const problem{extents(i),
                                                           constant(of(q, head_count * h)),
                                                           constant(keys(i)),
                                                           constant(values(i)),
                                                           of(o, head_count * h),
                                                           of(lse, head_count),
                                                           {},
                                                           scores};
        backend.attention<decltype(mask)>(problem, with(backend.attention_scratch(problem)));
      };
    };
    auto const attend_back = [&](auto mask, auto const& extents, Index rows, Index head_count) {
      return [&, extents, rows, head_count](int i) {
        auto const of = [&](auto const& buffers, Index cols) { return view(buffers(i).data, rows, cols); };
        headmix::attention_backward<bfloat16> const problem{extents(i),
                                                            constant(of(q, head_count * h)),
                                                            constant(keys(i)),
                                                            constant(values(i)),
                                                            constant(of(o, head_count * h)),
                                                            constant(of(d_o, head_count * h)),
                                                            constant(of(lse, head_count)),
                                                            of(d_q, head_count * h),
                                                            d_k(i),
                                                            d_v(i),
                                                            {},
                                                            scores};
        backend.attention_gradient<decltype(mask)>(problem,
                                                   with(backend.attention_gradient_scratch<decltype(mask)>(problem)));
      };
    };
    std::string const all_heads = "attention, 16 heads";
    auto const time_attention = [&](std::string const& name, auto const& extents, Index rows, Index head_count) {
      double const row_heads = static_cast<double>(rows * head_count);
      double const gflop = 4 * giga * row_heads * length * h;
      double const mb = keys.megabytes() * 2 + row_heads * (4 * h + 4) * 1e-6;
      double const back_mb = keys.megabytes() * 4 + row_heads * (8 * h + 4) * 1e-6;
      auto const both_passes = [&](auto mask, std::string const& seen, double share) {
        auto const time_pass = [&](std::string const& before, double work, double moved, auto const& f) {
          time(before + name + seen, work, moved, f, name == all_heads ? "" : before + all_heads + seen);
        };
        for (int i = 0; i < 3; ++i) attend(mask, extents, rows, head_count)(i);
        time_pass("", share * gflop, mb, attend(mask, extents, rows, head_count));
        time_pass("backward: ", 2.5 * share * gflop, back_mb, attend_back(mask, extents, rows, head_count));
      };
      both_passes(headmix::full{}, ", all keys", 1);
      both_passes(headmix::causal{}, ", causal", 0.5);
    };
    time_attention(
        all_heads, [&](int) { return dense; }, tokens, heads);
    double const product = 2 * giga * static_cast<double>(tokens) * d * heads * h;
    time("product with W_q of 16 heads (cuBLAS)", product, x.megabytes() + q.megabytes() + w.megabytes(),
         [&](int i) { backend.gemm(q(i), constant(x(i)), constant(w(i)), false); });
    time("product with W_o of 16 heads (cuBLAS)", product, o.megabytes() + y.megabytes() + w.megabytes(),
         [&](int i) { backend.gemm(y(i), constant(o(i)), constant(w(i)), false); });
    time("gradient of W_q of 16 heads (cuBLAS)", product, x.megabytes() + d_q.megabytes() + w.megabytes(),
         [&](int i) { backend.gemm(d_w(i), constant(x(i).transposed()), constant(d_q(i)), false); });

    for (Index const k : {16, 12, 8, 4}) {
      Index const slots = tokens * k;
      std::string const of = std::to_string(k) + " of 16 heads";
      Buffers<Int> const index(backend, tokens, k), perm(backend, 1, slots), offsets(backend, 1, heads + 1),
          rows(backend, 1, slots), lists(backend, 1, sequences * heads + 1);
      double const order_mb = perm.megabytes(), share = static_cast<double>(k) / heads;
      for (int i = 0; i < 3; ++i) {
        backend.for_each(slots, choose{index(i).data, k});
        backend.sort_by_expert(perm(i), offsets(i), constant(index(i)), headmix::uniform(1, tokens));
        backend.sort_by_expert(rows(i), lists(i), constant(index(i)), dense.queries);
      }
      time("slots by sequence and head, " + of, 0, 2 * order_mb,
           [&](int i) { backend.sort_by_expert(rows(i), lists(i), constant(index(i)), dense.queries); });
      auto const chosen = [&](int i) {
        headmix::attention_extents extents = dense;
        extents.rows_per_token = k;
        extents.chosen = {rows(i).data, lists(i).data};
        return extents;
      };
      time_attention("attention, " + of, chosen, slots, 1);

      // W_q has its heads side by side, W_o below each other.
      auto const stacked = [&](view<bfloat16> m, bool columns) {
        m.count = heads;
        (columns ? m.cols : m.rows) = h;
        m.stack_stride = columns ? h : h * m.row_stride;
        return m;
      };
      double const slot_mb = q.megabytes() * share;
      auto const slot_rows = [&](view<bfloat16> m) { return view<bfloat16>(m.data, slots, h); };
      time("product with W_q, " + of, product * share, x.megabytes() + slot_mb + w.megabytes() + order_mb, [&](int i) {
        auto const weights = constant(stacked(w(i), true));
        backend.grouped_gemm(slot_rows(q(i)), constant(x(i)), weights, constant(perm(i)), constant(offsets(i)), k,
                             with(backend.grouped_gemm_scratch(slot_rows(q(i)), constant(x(i)), weights)));
      });
      auto const sum = [&](view<bfloat16> to, view<bfloat16> from, view<bfloat16 const> weights, int i) {
        backend.grouped_sum(to, constant(slot_rows(from)), weights, constant(perm(i)), constant(offsets(i)), k, false,
                            with(backend.grouped_sum_scratch(to, constant(slot_rows(from)), weights)));
      };
      time("sum of products with W_o, " + of, product * share, y.megabytes() + slot_mb + w.megabytes() + order_mb,
           [&](int i) { sum(y(i), o(i), constant(stacked(w(i), false)), i); });
      time("backward: gradient of x, " + of, product * share, y.megabytes() + slot_mb + w.megabytes() + order_mb,
           [&](int i) { sum(y(i), d_q(i), constant(stacked(w(i), true).transposed()), i); });
      time("backward: gradient of W_q, " + of, product * share, x.megabytes() + slot_mb + w.megabytes() + order_mb,
           [&](int i) {
             auto const to = stacked(d_w(i), true);
             auto const right = constant(slot_rows(d_q(i)));
             backend.grouped_outer(to, constant(x(i)), right, constant(perm(i)), constant(offsets(i)), k, 1, false,
                                   with(backend.grouped_outer_scratch(to, constant(x(i)), right)));
           });
    }
  } catch (headmix::Error const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
