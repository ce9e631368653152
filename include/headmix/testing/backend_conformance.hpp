#pragma once
// SPDX-License-Identifier: MIT
// backend_conformance compares every kernel of a backend with Reference, for authors of backends.
//
//   My<float> backend;
//   auto const found = headmix::backend_conformance(backend);
//   if (!found.ok()) std::puts(found.text().c_str());  // "softmax: [1, 37]: y(0, 3) is 0.1, expected 0.2; ..."
//
// It runs the required kernels (contract/backend_policy.hpp) and the backend's optional ones
// (contract/optional_kernels.hpp), on odd extents, single rows and empty operands, with gaps between elements and
// transposed, and reports by name the kernels that differ, the place, and the kernels that it does not check.

#include "headmix/testing/conformance/attention.hpp"
#include "headmix/testing/conformance/decoding.hpp"
#include "headmix/testing/conformance/dense.hpp"
#include "headmix/testing/conformance/experts.hpp"
#include "headmix/testing/conformance/joined.hpp"
#include "headmix/testing/conformance/sequences.hpp"
#include "headmix/testing/conformance/sums.hpp"

namespace headmix {

/// The optional kernels that B lacks, which backend_conformance therefore does not check, by the concepts that B does
/// not satisfy. Two concepts are not about kernels of programs and are not included: ChecksPass, ForEach.
template <BackendPolicy B>
[[nodiscard]] std::vector<conformance_skip> conformance_skips() {
  std::vector<conformance_skip> skips;
  auto const need = [&skips](bool has, char const* kernel, char const* concept_name) {
    if (!has)
      skips.push_back({kernel, message("the backend is no ", concept_name, " (contract/optional_kernels.hpp)")});
  };
  need(FusedRoute<B>, "route", "FusedRoute");
  need(FusedGatedAttention<B>, "gated_attention", "FusedGatedAttention");
  need(AttentionGradientInPlace<B>, "attention_gradient in place", "AttentionGradientInPlace");
  need(FusedRows<B>, "each_row", "FusedRows");
  need(StackedProducts<B>, "gemm_stack", "StackedProducts");
  need(FusedExperts<B>, "grouped_gemm_map", "FusedExperts");
  need(SumsProductPairs<B>, "grouped_sum_pair", "SumsProductPairs");
  need(MapsScores<B>, "attention with score maps", "MapsScores");
  need(StoresProbabilities<B>, "stored probabilities", "StoresProbabilities");
  need(PreparesWeights<B>, "prepared weights", "PreparesWeights");
  need(Decodes<B>, "cached_attention and cached_window_mean", "Decodes");
  need(PackedGemm<B>, "packed_gemm", "PackedGemm");
  return skips;
}

/// Runs all kernels of the backend, each on output memory with other content.
/// @tparam Masks  masks for attention, score maps with the first; fewer compile faster
template <AttentionMask... Masks, BackendPolicy B>
[[nodiscard]] conformance_result backend_conformance(B& backend, conformance_options const& options = {}) {
  if constexpr (sizeof...(Masks) == 0) {
    return backend_conformance<full, causal, mask_with_holes>(backend, options);
  } else {
    using namespace detail::conformance;
    conformance_result result;
    bench<B> b(backend, options, result);
    check_map(b);
    check_sums(b);
    check_long_sums(b);
    check_gemm(b);
    check_softmax(b);
    check_choices(b);
    check_rows(b);
    check_sequences(b);
    check_roundings(b);
    check_experts(b);
    check_each_row(b);
    check_gemm_stack(b);
    check_hidden_layers(b);
    using first = nth<0, type_list<Masks...>>;
    (check_attention<B, Masks, std::is_same_v<Masks, first>>(b), ...);
    (check_decoding<B, Masks, std::is_same_v<Masks, first>>(b), ...);
    result.skips = conformance_skips<B>();
    if (StoresProbabilities<B> && !b.stored_probabilities)
      result.skips.push_back({"stored probabilities", "attention_columns() was 0"});
    if (!options.large) result.skips.push_back({"sizes of many tiles", "conformance_options::large is false"});
    return result;
  }
}

}  // namespace headmix
