#pragma once
// SPDX-License-Identifier: MIT
// The sizes and numbers of config.json for a program.

#include <array>

#include "headmix/core/scalar.hpp"
#include "network.hpp"
#include "programs.hpp"

namespace llama {

using headmix::at;

template <class A>
struct router_of;
template <class Router>
struct router_of<MohOf<Router>> {
  using type = Router;
};

/// Calls make(sizes...) with the value of every dynamic size of a network of attention A.
template <class A, class Make>
auto with_sizes(Config const& c, Make make) {
  auto const with = [&](auto... heads) {
    return make(at<width>(c.width), at<hidden>(c.hidden), at<vocabulary>(c.vocabulary), at<depth>(c.depth),
                at<typename A::model_dim>(c.width), at<typename A::head_dim>(c.head_dim),
                at<typename A::kv_heads>(c.kv_heads), heads...);
  };
  if constexpr (std::is_same_v<A, Dense>) {
    return with(at<typename A::heads>(c.heads));
  } else {
    using Router = typename router_of<A>::type;
    return with(at<typename Router::shared_heads>(c.shared_heads),
                at<typename Router::routed_heads>(c.heads - c.shared_heads),
                at<typename Router::routed_top_k>(c.top_k));
  }
}

/// The numbers of config.json in the scalar type of a program, as sums of three.
template <class T>
class Numbers {
 public:
  explicit Numbers(Config const& c) : eps_(parts(c.eps)), theta_(parts(c.theta)) {
    rope_scaling::numbers = c.rope_scaling;
  }
  /// Binds them to all leaves that are such sums.
  void bind(auto& program) const {
    for (headmix::named_leaf const& l : program.named_leaves()) {
      if (l.kind != headmix::leaf_kind::constant) continue;
      auto const& numbers = l.name.ends_with("theta") ? theta_ : eps_;
      program.bind(l.name, headmix::view<T const>(numbers.data(), 1, 3));
    }
  }

 private:
  static std::array<T, 3> parts(double x) {
    std::array<T, 3> all;
    for (T& part : all) {
      part = static_cast<T>(static_cast<float>(x));
      x -= static_cast<double>(static_cast<float>(part));
    }
    return all;
  }
  std::array<T, 3> eps_, theta_;
};

}  // namespace llama
