#pragma once
// SPDX-License-Identifier: MIT
// gradcheck: the derived gradients of an expression against central differences, for the library's tests and for users
// who write routers, experts and scalar functions.
//
//   auto r = gradcheck(softmax(x{} % W{}), at<tokens>(7));
//   if (!r.ok()) std::puts(r.text.c_str());

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "headmix/backend/reference.hpp"
#include "headmix/expr/random.hpp"
#include "headmix/tape/module.hpp"

namespace headmix {

struct gradcheck_options {
  double low = -1, high = 1;  ///< inputs are uniform in [low, high): keep them away from kinks and ties
  double step = 1e-6;         ///< of the differences
  std::uint64_t seed = 1;
  segments token_sequences = {};  ///< where the sequences of tokens begin; one sequence without it
  segments memory_sequences = {};
};

/// What a check found.
struct gradcheck_result {
  double error = 0;          ///< largest |difference quotient - gradient| / max(1, |gradient|) over all elements
  double repeated = 0;       ///< largest deviation of a second backward pass from doubling the gradients, relative
  bool reproducible = true;  ///< forward and backward again, from zeroed gradients, gave the same bits
  std::string text;          ///< the worst element, in words

  [[nodiscard]] bool ok(double tolerance = 1e-6) const {
    return error <= tolerance && repeated <= 1e-14 && reproducible;
  }
};

namespace detail {

template <class L, class Scalar>
struct checked_leaf {
  std::vector<storage_t<L::kind_of, Scalar>> value, gradient;
};
template <class L>
struct checked_leaves;
template <class... L>
struct checked_leaves<type_list<L...>> : checked_leaf<L, double>... {};

}  // namespace detail

/// Checks the gradients of <dy, y>, dy random, by every parameter and input of y, as the backend (over double) computes
/// them. Dynamic sizes are given by `at<X>(n)`.
template <class Backend, Expr Y, Extent... X>
gradcheck_result gradcheck_on(Backend backend, Y, gradcheck_options const& options, size_value<X>... sizes) {
  Tape<roots<Y>, Backend> tape(backend);
  using leaves = typename decltype(tape)::leaves;
  (tape.set(X{}, sizes.n), ...);
  if (options.token_sequences.rows > 0) tape.bind_tokens(options.token_sequences);
  if (options.memory_sequences.rows > 0) tape.bind_memory(options.memory_sequences);

  detail::checked_leaves<leaves> memory;
  std::uint64_t stream = 0;
  for_each(leaves{}, [&]<class L>() {
    auto& m = static_cast<detail::checked_leaf<L, double>&>(memory);
    Index const n = tape.template extent<count<L>>(), r = tape.template extent<rows<L>>(),
                c = tape.template extent<cols<L>>();
    if (n < 0 || r < 0 || c < 0) {
      fail("gradcheck: an extent of ", type_name<L>(), " is dynamic; give its value: at<...>(n)");
    }
    Random const random(options.seed, stream++);
    m.value.resize(static_cast<std::size_t>(n * r * c));
    for (std::size_t i = 0; i < m.value.size(); ++i) {
      if constexpr (Selection<L>) {
        m.value[i] = static_cast<Int>(random.below(i, static_cast<std::uint64_t>(tape.template extent<domain<L>>())));
      } else if constexpr (std::is_base_of_v<random_key, L>) {
        m.value[i] = randomness(options.seed).word[i];
      } else {
        m.value[i] = options.low + (options.high - options.low) * random.uniform(i);
      }
    }
    if constexpr (L::grad) m.gradient.resize(m.value.size());
    tape.bind(L{}, {m.value.data(), n, r, c}, {L::grad ? m.gradient.data() : nullptr, n, r, c});
  });
  AlignedBuffer workspace(tape.workspace_bytes());
  tape.bind_workspace(workspace.bytes());

  auto const first = tape.forward();
  Random const random(options.seed, stream);
  std::vector<double> weights(static_cast<std::size_t>(first.size()));
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = 2 * random.uniform(i) - 1;
  view<double const> const dy{weights.data(), first.count, first.rows, first.cols};
  auto const objective = [&] {
    auto const y = tape.forward();
    double sum = 0;
    std::size_t next = 0;
    for (Index i = 0; i < y.count * y.rows; ++i) {
      for (Index j = 0; j < y.cols; ++j) sum += y.row(i)[j * y.col_stride] * weights[next++];
    }
    return sum;
  };

  gradcheck_result result;
  tape.backward(dy);
  auto const once = memory;
  tape.backward(dy);
  for_each(leaves{}, [&]<class L>() {
    auto& m = static_cast<detail::checked_leaf<L, double>&>(memory);
    auto const& o = static_cast<detail::checked_leaf<L, double> const&>(once);
    for (std::size_t i = 0; i < m.gradient.size(); ++i) {
      auto const gradient = static_cast<double>(o.gradient[i]);
      double const deviation = std::abs(static_cast<double>(m.gradient[i]) - 2 * gradient);
      result.repeated = (std::max)(result.repeated, deviation / (std::max)(1.0, std::abs(gradient)));
      m.gradient[i] = 0;
    }
  });
  tape.forward();
  tape.backward(dy);
  for_each(leaves{}, [&]<class L>() {
    auto const& m = static_cast<detail::checked_leaf<L, double>&>(memory);
    auto const& o = static_cast<detail::checked_leaf<L, double> const&>(once);
    result.reproducible = result.reproducible && m.gradient == o.gradient;
  });

  for_each(leaves{}, [&]<class L>() {
    if constexpr (L::grad) {
      auto& m = static_cast<detail::checked_leaf<L, double>&>(memory);
      auto const& o = static_cast<detail::checked_leaf<L, double> const&>(once);
      for (std::size_t i = 0; i < m.value.size(); ++i) {
        double const kept = m.value[i];
        m.value[i] = kept + options.step;
        double const above = objective();
        m.value[i] = kept - options.step;
        double const below = objective();
        m.value[i] = kept;
        double const quotient = (above - below) / (2 * options.step);
        double const error = std::abs(quotient - o.gradient[i]) / (std::max)(1.0, std::abs(o.gradient[i]));
        if (!(error <= result.error)) {  // also when it is not a number
          result.error = error;
          result.text = message("element ", i, " of ", type_name<L>(), ": gradient ", o.gradient[i],
                                ", difference quotient ", quotient);
        }
      }
    }
  });
  return result;
}

/// The same on the reference backend.
template <Expr Y, Extent... X>
gradcheck_result gradcheck(Y y, gradcheck_options const& options, size_value<X>... sizes) {
  return gradcheck_on(Reference<double>{}, y, options, sizes...);
}
template <Expr Y, Extent... X>
gradcheck_result gradcheck(Y y, size_value<X>... sizes) {
  return gradcheck_on(Reference<double>{}, y, gradcheck_options{}, sizes...);
}

}  // namespace headmix
