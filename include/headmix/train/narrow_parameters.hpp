#pragma once
// SPDX-License-Identifier: MIT
// Updates of parameters by optimisers, including types with fewer digits than the updates need.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "headmix/contract/memory.hpp"
#include "headmix/contract/optional_kernels.hpp"
#include "headmix/core/checked.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/random.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/program/parameter.hpp"
#include "headmix/program/run/checks.hpp"

namespace headmix {

/// The treatment of bfloat16 parameters by an optimiser: most updates are smaller than the distance between two
/// adjacent numbers.
enum class narrow_parameters {
  /// Keeps a float master weight for each parameter and rounds it to the parameter.
  master_weights,
  /// Rounds up or down with probabilities that make the expectation exact (Gupta et al. 2015). Needs no memory.
  stochastic_rounding,
};

namespace detail {

/// The number of elements; an error where no Index can hold it.
template <class T>
[[nodiscard]] Index checked_size(view<T> const& v) {
  return (checked(v.count) * v.rows * v.cols).value;
}

template <class T>
[[nodiscard]] std::string extents(view<T> const& v) {
  std::string s = "[";
  s += std::to_string(v.count) + ", " + std::to_string(v.rows) + ", " + std::to_string(v.cols) + "]";
  return s;
}

/// An error unless values and gradients have equal extents, and memory without gaps.
template <class T>
void check_parameters(std::string const& whose, std::vector<parameter<T>> const& all) {
  for (auto const& p : all) {
    view<T> const &a = p.value, &b = p.gradient;
    static_cast<void>(checked_size(a));
    std::string const name(p.name);
    if (a.count != b.count || a.rows != b.rows || a.cols != b.cols)
      fail(whose, ": the gradient of ", name, ": expected the extents of its value, ", extents(a), ", found ",
           extents(b));
    if (!a.contiguous() || !b.contiguous())
      fail(whose, ": ", name, ": expected a contiguous value and gradient, found gaps or a transpose");
    if (a.size() != 0 && (a.data == nullptr || b.data == nullptr))
      fail(whose, ": ", name, ": expected memory for value and gradient, found a null pointer");
    check_alignment(name, a.data, alignof(T), a.size(), whose + ": ");
    check_alignment(name, b.data, alignof(T), b.size(), whose + ": the gradient of ");
  }
}

/// Rounds a number between two adjacent bfloat16s to the upper one with a probability equal to its relative distance
/// from the lower one, by a random word. Non-finite numbers are unchanged.
[[nodiscard]] HEADMIX_HD inline bfloat16 stochastically_rounded(float x, std::uint32_t random) {
  auto const word = __builtin_bit_cast(std::uint32_t, x);
  if ((word & 0x7F800000u) == 0x7F800000u) return bfloat16(x);
  bfloat16 y;
  y.bits = static_cast<std::uint16_t>((word + (random & 0xFFFFu)) >> 16);
  return y;
}

/// Updates one parameter's elements. `next(i, weight)` is the new weight of element i with the old value `weight`, both
/// of accumulator_t<T>.
template <class T, class Next>
struct move_values {
  T* __restrict value;
  Next next;
  HEADMIX_HD void operator()(Index i) const { value[i] = next(i, value[i]); }
};
/// Updates one parameter's elements with a master weight for each.
template <class T, class Next>
struct move_masters {
  T* __restrict value;
  accumulator_t<T>* __restrict weight;
  Next next;
  HEADMIX_HD void operator()(Index i) const {
    weight[i] = next(i, weight[i]);
    value[i] = static_cast<T>(weight[i]);
  }
};
/// One update with stochastic rounding; element i uses word i of the stream.
template <class T, class Next>
struct move_at_random {
  T* __restrict value;
  Next next;
  Random random;
  HEADMIX_HD void operator()(Index i) const {
    value[i] = stochastically_rounded(next(i, static_cast<accumulator_t<T>>(value[i])),
                                      random.word(static_cast<std::uint64_t>(i)));
  }
};
/// Stochastic rounding of a part of a parameter, matrices of rows x cols within some of whole_rows x whole_cols: an
/// element uses the word of its number in the whole, in which the part begins at number `first`.
template <class T, class Next>
struct move_part_at_random {
  T* __restrict value;
  Next next;
  Random random;
  Index first, rows, cols, whole_rows, whole_cols;
  HEADMIX_HD void operator()(Index i) const {
    Index const row = i / cols, number = first + (row / rows * whole_rows + row % rows) * whole_cols + i % cols;
    value[i] = stochastically_rounded(next(i, static_cast<accumulator_t<T>>(value[i])),
                                      random.word(static_cast<std::uint64_t>(number)));
  }
};
/// to[i] = from[i].
template <class To, class From>
struct copy_element {
  To* to;
  From const* from;
  HEADMIX_HD void operator()(Index i) const { to[i] = static_cast<To>(from[i]); }
};

/// The parameters of an optimiser, and their master weights if it keeps some.
template <class T, class Backend>
class moved_parameters {
 public:
  using wide = accumulator_t<T>;

  moved_parameters(std::vector<parameter<T>> all, narrow_parameters narrow, std::uint64_t seed, Backend backend)
      : backend_(std::move(backend)), all_(std::move(all)), narrow_(narrow) {
    if (narrow != narrow_parameters::master_weights && narrow != narrow_parameters::stochastic_rounding) {
      fail("narrow_parameters: expected one of its enumerators, found ", static_cast<int>(narrow));
    }
    checked size = 0;
    for (auto const& p : all_) size += checked_size(p.value);
    size_ = size.value;
    if (rounds_at_random()) find_seeds(seed);
    if (has_masters()) weights_ = headmix::backend_memory<Backend>(checked_bytes(size_, sizeof(wide)));
    changed();
  }

  [[nodiscard]] std::vector<parameter<T>> const& all() const { return all_; }
  [[nodiscard]] Backend const& backend() const { return backend_; }
  [[nodiscard]] Backend& backend() { return backend_; }
  /// The number of elements of all parameters.
  [[nodiscard]] Index size() const { return size_; }

  /// Copies the current parameters to the master weights.
  void changed() {
    if (!has_masters()) return;
    each([&](parameter<T> const& p, Index first) {
      backend_.for_each(p.value.size(), copy_element<wide, T>{weight(first), p.value.data});
    });
  }
  /// Calls f(parameter, the number of its first element).
  template <class F>
  void each(F f) const {
    Index first = 0;
    for (auto const& p : all_) {
      f(p, first);
      first += p.value.size();
    }
  }
  /// Updates one of all() in step number `step`.
  template <class Next>
  void move(parameter<T> const& p, Index first, Index step, Next const& next) {
    if constexpr (std::is_same_v<T, wide>) {
      backend_.for_each(p.value.size(), move_values<T, Next>{p.value.data, next});
    } else if (has_masters()) {
      backend_.for_each(p.value.size(), move_masters<T, Next>{p.value.data, weight(first), next});
    } else {
      Random const random(seeds_[static_cast<std::size_t>(&p - all_.data())], static_cast<std::uint64_t>(step),
                          random_stream::stochastic_rounding);
      if (p.part.divided) {
        backend_.for_each(p.value.size(),
                          move_part_at_random<T, Next>{p.value.data, next, random, p.part.number(0, 0, 0), p.value.rows,
                                                       p.value.cols, p.part.whole[1], p.part.whole[2]});
      } else {
        backend_.for_each(p.value.size(), move_at_random<T, Next>{p.value.data, next, random});
      }
    }
  }
  /// Adds a parameter's master weights, if any, to the state of its optimiser.
  void add_state(std::vector<state_tensor<wide>>& state, parameter<T> const& p, Index first) const {
    if (has_masters())
      state.push_back(
          {"weight." + std::string(p.name), {weight(first), p.value.count, p.value.rows, p.value.cols}, p.part});
  }

 private:
  [[nodiscard]] bool has_masters() const {
    return !std::is_same_v<T, wide> && narrow_ == narrow_parameters::master_weights;
  }
  [[nodiscard]] bool rounds_at_random() const {
    return !std::is_same_v<T, wide> && narrow_ == narrow_parameters::stochastic_rounding;
  }
  /// Seeds by the parameters' names: draws do not depend on the grouping into optimisers and ranks.
  void find_seeds(std::uint64_t seed) {
    std::map<std::string_view, std::uint64_t> same_name;
    for (auto const& p : all_) {
      seeds_.push_back(named_seed(named_seed(seed, p.name), std::to_string(same_name[p.name]++)));
    }
  }
  [[nodiscard]] wide* weight(Index first) const { return weights_.template as<wide>() + first; }

  [[no_unique_address]] Backend backend_;
  std::vector<parameter<T>> all_;
  narrow_parameters narrow_;
  std::vector<std::uint64_t> seeds_;  // of stochastic rounding, by parameter; empty without it
  Index size_ = 0;
  headmix::backend_memory<Backend> weights_;  // of all parameters, concatenated
};

}  // namespace detail

}  // namespace headmix
