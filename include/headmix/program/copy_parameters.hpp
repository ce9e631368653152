#pragma once
// SPDX-License-Identifier: MIT
// Parameters from one module to another: a pretrained multi-head layer becomes a mixture of heads, training hands over
// to inference, a GPU's module to the host's.

#include <algorithm>
#include <vector>

#include "headmix/core/ternary.hpp"
#include "headmix/program/module.hpp"

namespace headmix {

/// Copies every parameter of `from` to the parameter of the same name in `to`, rounding to its type. Parameters that
/// only `to` has keep their values; one that only `from` has, or of another shape, is an error.
///
/// A parameter whose counterpart in `to` is packed (`weights::packed`) is rounded to ternary weights and packed.
///
/// MultiHead and Moh have the same parameters besides those of the router: heads keep their order, so the first h_s are
/// the shared ones, and with QueryNorm there is nothing else to learn (Jin et al. 2024, section 3.4):
///
///   Module<MultiHead<512, 8, 64, causal>, Cpu<float>> dense(seed);
///   Module<Moh<512, 64, QueryNorm<4, 4, 2>, causal>, Cpu<float>> sparse(seed);
///   copy_parameters(dense, sparse);
template <class From, class To>
void copy_parameters(From const& from, To& to) {
  using T = typename From::scalar;
  using U = typename To::scalar;
  auto const text = [](Index count, Index rows, Index cols) {
    return '[' + std::to_string(count) + ", " + std::to_string(rows) + ", " + std::to_string(cols) + ']';
  };
  auto const find = [](auto const& all, std::string_view name) {
    return std::find_if(all.begin(), all.end(), [name](auto const& p) { return p.name == name; });
  };
  // Nothing is copied before everything fits.
  for (auto const& source : from.parameters()) {
    auto const& v = source.value;
    auto const found = text(v.count, v.rows, v.cols);
    auto const fits = [&](std::string const& expected) {
      if (found != expected) fail("copy_parameters: ", source.name, " is ", found, " and goes to ", expected);
    };
    if (auto const p = find(to.parameters(), source.name); p != to.parameters().end()) {
      fits(text(p->value.count, p->value.rows, p->value.cols));
    } else if (auto const q = find(to.packed_parameters(), source.name); q != to.packed_parameters().end()) {
      fits(text(q->words.count, q->in, q->out));
    } else {
      fail("copy_parameters: ", source.name, " is not among the parameters that are copied to");
    }
  }
  std::vector<T> read;
  for (auto const& source : from.parameters()) {
    auto const& v = source.value;
    read.resize(static_cast<std::size_t>(v.size()));
    download(from.backend(), read.data(), v.data, read.size());
    if (auto const p = find(to.parameters(), source.name); p != to.parameters().end()) {
      std::vector<U> written(read.size());
      std::transform(read.begin(), read.end(), written.begin(), [](T x) { return static_cast<U>(x); });
      upload(to.backend(), p->value.data, written.data(), written.size());
    } else {
      auto const q = find(to.packed_parameters(), source.name);
      std::vector<Int> words(static_cast<std::size_t>(q->words.size()));
      view<T const> const matrices(read.data(), v.count, v.rows, v.cols);
      for (Index e = 0; e < v.count; ++e) packed_ternary::pack(words.data() + e * q->words.cols, matrices[e]);
      upload(to.backend(), q->words.data, words.data(), words.size());
    }
  }
}

}  // namespace headmix
