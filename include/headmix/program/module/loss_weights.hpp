#pragma once
// SPDX-License-Identifier: MIT
// Weights of losses by name.

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headmix/core/error.hpp"
#include "headmix/core/type_name.hpp"

namespace headmix {

/// The weight of all losses whose name is `name`, "0.attn.load_balance", or ends with it after a dot, "load_balance".
struct loss_weight {
  std::string_view name;  ///< of one loss or of several
  double weight;          ///< of each of them
};

/// A list of weights by name, `{{"load_balance", 0.01}, {"z", 0.001}}`, or a span.
class loss_weights {
 public:
  /// For the length of a call.
  loss_weights(std::initializer_list<loss_weight> list) : list_(std::data(list), list.size()) {}
  /// Of the caller's memory.
  loss_weights(std::span<loss_weight const> list) : list_(list) {}
  /// All of them.
  [[nodiscard]] std::span<loss_weight const> list() const { return list_; }

 private:
  std::span<loss_weight const> list_;
};

namespace detail {

inline std::string_view loss_name_of(char const* source) {
  return source == nullptr ? std::string_view("(a loss without a name)") : unqualified(source);
}
inline bool is_called(std::string_view name, std::string_view wanted) {
  if (!name.ends_with(wanted)) return false;
  return name.size() == wanted.size() || name[name.size() - wanted.size() - 1] == '.';
}
inline std::string listed_losses(std::span<char const* const> sources) {
  std::string all;
  for (char const* const s : sources) all += message(all.empty() ? "" : ", ", loss_name_of(s));
  return all.empty() ? "none" : all;
}
/// The weights in the order of the losses. Fails unless every loss has exactly one weight and every weight a loss.
inline void weigh_losses(std::vector<double>& weights, std::span<char const* const> sources,
                         loss_weights const& given) {
  weights.assign(sources.size(), 0);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    loss_weight const* found = nullptr;
    std::string_view const name = loss_name_of(sources[i]);
    for (auto const& w : given.list()) {
      if (sources[i] == nullptr || !is_called(name, w.name)) continue;
      if (found != nullptr) {
        fail("backward(): expected one weight for the loss ", name, ", found two: ", found->name, " and ", w.name);
      }
      found = &w;
    }
    if (found == nullptr) {
      fail("backward(): expected a weight for the loss ", name, ", found none; the losses are ", listed_losses(sources),
           sources[i] != nullptr ? ""
                                 : "; name it in the layer, named_loss<\"name\">(loss), or give weights in this order");
    }
    weights[i] = found->weight;
  }
  for (auto const& w : given.list()) {
    bool used = false;
    for (char const* const s : sources) used = used || (s != nullptr && is_called(unqualified(s), w.name));
    if (!used) {
      fail("backward(): expected the name of a loss, found ", w.name, "; the losses are ", listed_losses(sources));
    }
  }
}

}  // namespace detail
}  // namespace headmix
