// expect: headmix: a layer is repeated as often as this size says, which the constructor gets
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/layer/repeat.hpp"
#include "headmix/program/program.hpp"

using namespace headmix;

struct width : size<dynamic> {};
struct depth : size<dynamic> {};
struct Linear {
  struct x : input<tokens, width> {};
  struct W : param<width, width> {};
  static constexpr auto y = x{} % W{};
  using losses = type_list<>;
  using observed = type_list<>;
};
constexpr auto blocks = repeat<depth, Linear, "blocks">(Linear::x{});

void set(Reference<double> backend) {
  Program<roots<std::remove_cv_t<decltype(blocks.y)>>, Reference<double>> program(backend, at<depth>(3));
#ifdef MUST_FAIL
  program.set(depth{}, 4);
#else
  program.set(width{}, 4);
#endif
}
