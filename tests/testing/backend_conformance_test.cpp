// SPDX-License-Identifier: MIT
// backend_conformance() on a user's backend: it passes, and a fault in any kernel is reported with the kernel's name.

#include "headmix/testing/backend_conformance.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace headmix;

/// A user's backend: the reference, with one wrong element in the kernels that `faults` names.
struct Mine {
  using scalar = double;
  static constexpr bool host_memory = true;
  std::set<std::string> faults = {};

  void map(auto y, auto const& tree, bool accumulate) {
    reference.map(y, tree, accumulate);
    spoil("map", y);
  }
  void row_sum(auto y, auto const& a, bool accumulate) {
    reference.row_sum(y, a, accumulate);
    spoil("row_sum", y);
  }
  void col_sum(auto y, auto const& a, bool accumulate) {
    reference.col_sum(y, a, accumulate);
    spoil("col_sum", y);
  }
  void group_sum(auto y, auto const& a, Index n, bool accumulate) {
    reference.group_sum(y, a, n, accumulate);
    spoil("group_sum", y);
  }
  void gemm(auto y, auto a, auto b, bool accumulate) {
    reference.gemm(y, a, b, accumulate);
    spoil("gemm", y);
  }
  void softmax(auto y, auto a) {
    reference.softmax(y, a);
    spoil("softmax", y);
  }
  void log_sum_exp(auto y, auto a) {
    reference.log_sum_exp(y, a);
    spoil("log_sum_exp", y);
  }
  void top_k(auto y, auto a) {
    reference.top_k(y, a);
    spoil("top_k", y);
  }
  void gather_cols(auto y, auto a, auto index) {
    reference.gather_cols(y, a, index);
    spoil("gather_cols", y);
  }
  void scatter_cols(auto y, auto a, auto index) {
    reference.scatter_cols(y, a, index);
    spoil("scatter_cols", y);
  }
  void renumber(auto y, auto a, Index add, Index add_per_row, Index divide = 1) {
    reference.renumber(y, a, add, add_per_row, divide);
    spoil("renumber", y);
  }
  void one_hot(auto y, auto index) {
    reference.one_hot(y, index);
    spoil("one_hot", y);
  }
  void gather_rows(auto y, auto table, auto index) {
    reference.gather_rows(y, table, index);
    spoil("gather_rows", y);
  }
  void scatter_rows(auto y, auto a, auto index, bool accumulate) {
    reference.scatter_rows(y, a, index, accumulate);
    spoil("scatter_rows", y);
  }
  void sequence_numbers(auto y, segments s) {
    reference.sequence_numbers(y, s);
    spoil("sequence_numbers", y);
  }
  void window_mean(auto y, auto a, segments s, Index window, bool transposed) {
    reference.window_mean(y, a, s, window, transposed);
    spoil("window_mean", y);
  }
  void sort_by_expert(auto perm, auto offsets, auto index, segments s) {
    reference.sort_by_expert(perm, offsets, index, s);
    spoil("sort_by_expert", perm);
  }
  std::size_t grouped_gemm_scratch(auto, auto, auto) { return 8; }
  void grouped_gemm(auto y, auto x, auto w, auto perm, auto offsets, Index slots_per_row, auto scratch) {
    reference.grouped_gemm(y, x, w, perm, offsets, slots_per_row, scratch);
    spoil("grouped_gemm", y);
  }
  std::size_t grouped_outer_scratch(auto, auto, auto) { return 8; }
  void grouped_outer(auto y, auto x, auto g, auto perm, auto offsets, Index x_slots, Index g_slots, bool accumulate,
                     auto scratch) {
    reference.grouped_outer(y, x, g, perm, offsets, x_slots, g_slots, accumulate, scratch);
    spoil("grouped_outer", y);
  }
  std::size_t grouped_sum_scratch(auto, auto, auto) { return 8; }
  void grouped_sum(auto y, auto x, auto w, auto perm, auto offsets, Index slots_per_row, bool accumulate,
                   auto scratch) {
    reference.grouped_sum(y, x, w, perm, offsets, slots_per_row, accumulate, scratch);
    spoil("grouped_sum", y);
  }
  void apply_capacity(auto y, auto index, auto perm, auto offsets, Index most) {
    reference.apply_capacity(y, index, perm, offsets, most);
    spoil("apply_capacity", y);
  }
  void absmax_int8(auto y, auto a) {
    reference.absmax_int8(y, a);
    spoil("absmax_int8", y);
  }
  void absmean_ternary(auto y, auto a) {
    reference.absmean_ternary(y, a);
    spoil("absmean_ternary", y);
  }
  std::size_t attention_scratch(auto const&) { return 8; }
  template <AttentionMask Mask>
  void attention(attention_forward<double> const& p, auto scratch) {
    reference.attention<Mask>(p, scratch);
    spoil("attention", p.o);
  }
  template <AttentionMask Mask>
  std::size_t attention_gradient_scratch(auto const&) {
    return 8;
  }
  template <AttentionMask Mask>
  void attention_gradient(attention_backward<double> const& p, auto scratch) {
    reference.attention_gradient<Mask>(p, scratch);
    spoil("attention_gradient", p.d_k);
  }
  std::size_t attention_bias_gradient_scratch(auto const&) { return 8; }
  template <AttentionMask Mask>
  void attention_bias_gradient(view<double> d_bias, attention_backward<double> const& p, auto scratch) {
    reference.attention_bias_gradient<Mask>(d_bias, p, scratch);
    spoil("attention_bias_gradient", d_bias);
  }
  void rotary(auto y, auto a, auto theta, row_positions s, Index heads, rotation r) {
    reference.rotary(y, a, theta, s, heads, r);
    spoil("rotary", y);
  }

 private:
  template <class T>
  void spoil(char const* kernel, view<T> y) {
    if (!faults.empty() && faults.contains(kernel) && y.data != nullptr && y.size() > 0)
      y(y.rows - 1, y.cols - 1) += T(1);
  }
  Reference<double> reference;
};

TEST_CASE("conformance: a backend of the user's [slow]") {
  Mine backend;
  auto const found = backend_conformance(backend);
  INFO(found.text());
  CHECK(found.ok());
  CHECK(found.checks > 1500);
  CHECK(found.skips.size() == 13);  // all optional kernels, and large sizes
  CHECK(found.text().find("packed_gemm: not checked, the backend is no PackedGemm (contract/optional_kernels.hpp)\n") !=
        std::string::npos);
  // Equal kernels write equal bits.
  CHECK(backend_conformance(backend).digest == found.digest);
}
TEST_CASE("conformance: a wrong element of a kernel is reported by the name of that kernel and of no other [slow]") {
  std::vector<std::string> const kernels{"map",
                                         "row_sum",
                                         "col_sum",
                                         "group_sum",
                                         "gemm",
                                         "softmax",
                                         "log_sum_exp",
                                         "top_k",
                                         "gather_cols",
                                         "scatter_cols",
                                         "renumber",
                                         "one_hot",
                                         "gather_rows",
                                         "scatter_rows",
                                         "sequence_numbers",
                                         "window_mean",
                                         "sort_by_expert",
                                         "grouped_gemm",
                                         "grouped_outer",
                                         "grouped_sum",
                                         "apply_capacity",
                                         "absmax_int8",
                                         "absmean_ternary",
                                         "attention",
                                         "attention_gradient",
                                         "attention_bias_gradient",
                                         "rotary"};
  // Every second kernel, so that each one has correct neighbours.
  for (std::size_t const first : {std::size_t{0}, std::size_t{1}}) {
    Mine backend;
    for (std::size_t i = first; i < kernels.size(); i += 2) backend.faults.insert(kernels[i]);
    auto const found = backend_conformance(backend);
    INFO(found.text());
    std::map<std::string, int> reported;
    for (auto const& f : found.failures) ++reported[f.kernel];
    std::set<std::string> names;
    for (auto const& [kernel, times] : reported) {
      names.insert(kernel);
      CHECK(times == 3);  // only the first failures are recorded
    }
    CHECK(names == backend.faults);
  }
}
TEST_CASE("conformance: what lies between the elements is not to be written") {
  struct Overrun : Reference<double> {
    void softmax(view<double> y, view<double const> a) const {
      Reference<double>::softmax(y, a);
      if (y.col_stride == 2 && y.size() > 0) y.data[1] = 7;
    }
  };
  Overrun backend;
  auto const found = backend_conformance(backend);
  REQUIRE(!found.ok());
  CHECK(found.failures[0].kernel == "softmax");
  CHECK(found.text().find("softmax: [1, 1]: y: memory between its elements was written\n") != std::string::npos);
}
TEST_CASE("conformance: what lies behind the scratch memory is not to be written") {
  struct Overrun : Reference<double> {
    static std::size_t grouped_sum_scratch(view<double>, view<double const>, view<double const>) { return 40; }
    void grouped_sum(view<double> y, view<double const> x, view<double const> w, view<Int const> perm,
                     view<Int const> offsets, Index slots_per_row, bool accumulate,
                     std::span<std::byte> scratch) const {
      Reference<double>::grouped_sum(y, x, w, perm, offsets, slots_per_row, accumulate, scratch);
      scratch.data()[scratch.size() + 2] = std::byte{7};
    }
  };
  Overrun backend;
  auto const found = backend_conformance(backend);
  REQUIRE(!found.ok());
  for (auto const& f : found.failures) CHECK(f.kernel == "grouped_sum");
  CHECK(found.text().find("writes byte 2 behind its 40 bytes of scratch memory\n") != std::string::npos);
}

}  // namespace
