#pragma once
// SPDX-License-Identifier: MIT
// Parameters from one module to another: a pretrained multi-head layer becomes a mixture of heads, training hands over
// to inference, a GPU's module to the host's.

#include <algorithm>
#include <vector>

#include "headmix/tape/module.hpp"

namespace headmix {

/// Copies every parameter of `from` to the parameter of the same name in `to`, rounding to its type. Parameters that
/// only `to` has keep their values; one that only `from` has, or of another shape, is an error.
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
  auto const text = [](auto const& v) {
    return '[' + std::to_string(v.count) + ", " + std::to_string(v.rows) + ", " + std::to_string(v.cols) + ']';
  };
  // Nothing is copied before everything fits.
  std::vector<std::size_t> places;
  for (auto const& source : from.parameters()) {
    auto const target = std::find_if(to.parameters().begin(), to.parameters().end(),
                                     [&](auto const& p) { return p.name == source.name; });
    if (target == to.parameters().end()) {
      fail("copy_parameters: ", source.name, " is not among the parameters that are copied to");
    }
    if (text(source.value) != text(target->value)) {
      fail("copy_parameters: ", source.name, " is ", text(source.value), " and goes to ", text(target->value));
    }
    places.push_back(static_cast<std::size_t>(target - to.parameters().begin()));
  }
  std::vector<T> read;
  std::vector<U> written;
  for (std::size_t i = 0; i < places.size(); ++i) {
    auto const& source = from.parameters()[i].value;
    read.resize(static_cast<std::size_t>(source.size()));
    download(from.backend(), read.data(), source.data, read.size());
    written.resize(read.size());
    std::transform(read.begin(), read.end(), written.begin(), [](T x) { return static_cast<U>(x); });
    upload(to.backend(), to.parameters()[places[i]].value.data, written.data(), written.size());
  }
}

}  // namespace headmix
