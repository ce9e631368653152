#pragma once
// SPDX-License-Identifier: MIT
// Copies parameters between modules: from a pretrained multi-head layer to a mixture of heads, from training to
// inference, from a GPU to the host.

#include <algorithm>
#include <vector>

#include "headmix/core/ternary.hpp"
#include "headmix/program/module.hpp"

namespace headmix {

/// Copies every parameter and buffer of `from` to the same leaf of `to` or, where the layers differ, to the parameter
/// of the same name, rounding to its type. Parameters that only `to` has keep their values; one that only `from` has,
/// or of another shape, is an error, and so is a name that several leaves have where it has to tell them apart.
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
  auto const given = detail::with_buffers(from);
  auto const taken = detail::with_buffers(to);
  auto const sources = detail::names_of(given), targets = detail::names_of(taken),
             packed = detail::names_of(to.packed_parameters());
  auto const find = [&](std::size_t source, auto const& among) {
    return detail::find_parameter(sources, source, "the module that is copied from", among,
                                  "the module that is copied to");
  };
  // All checks and allocations precede the first copy.
  struct copy {
    int parameter, packed;  // the index of the target; -1 for none
  };
  std::vector<copy> copies;
  std::size_t elements = 0, words = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    auto const& source = given[i];
    auto const& v = source.value;
    auto const found = text(v.count, v.rows, v.cols);
    auto const fits = [&](std::string const& expected) {
      if (found != expected) fail("copy_parameters: ", source.name, " is ", found, " and goes to ", expected);
    };
    copies.push_back({find(i, targets), -1});
    if (int const p = copies.back().parameter; p >= 0) {
      auto const& value = taken[static_cast<std::size_t>(p)].value;
      fits(text(value.count, value.rows, value.cols));
    } else if (int const q = copies.back().packed = find(i, packed); q >= 0) {
      auto const& target = to.packed_parameters()[static_cast<std::size_t>(q)];
      fits(text(target.words.count, target.in, target.out));
      words = (std::max)(words, static_cast<std::size_t>(target.words.size()));
    } else {
      fail("copy_parameters: ", source.name, " is not among the parameters that are copied to");
    }
    elements = (std::max)(elements, static_cast<std::size_t>(v.size()));
  }
  std::vector<T> read(elements);
  std::vector<U> written(elements);
  std::vector<Int> packed_words(words);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    auto const& v = given[i].value;
    auto const n = static_cast<std::size_t>(v.size());
    download(from.backend(), read.data(), v.data, n);
    if (int const p = copies[i].parameter; p >= 0) {
      std::transform(read.data(), read.data() + n, written.data(), [](T x) { return static_cast<U>(x); });
      upload(to.backend(), taken[static_cast<std::size_t>(p)].value.data, written.data(), n);
    } else {
      auto const& target = to.packed_parameters()[static_cast<std::size_t>(copies[i].packed)];
      view<T const> const matrices(read.data(), v.count, v.rows, v.cols);
      for (Index e = 0; e < v.count; ++e)
        packed_ternary::pack(packed_words.data() + e * target.words.cols, matrices[e]);
      upload(to.backend(), target.words.data, packed_words.data(), static_cast<std::size_t>(target.words.size()));
    }
  }
  to.parameters_changed();
}

}  // namespace headmix
