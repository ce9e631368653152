// expect first of 40 lines: headmix: a loss is a single number, \[1, 1\]; see 'is_one_number<name, rows, columns>'
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/expr/loss.hpp"
#include "headmix/program/module.hpp"

using namespace headmix;

/// A layer without gradients.
struct layer {
  struct x : input<tokens, size<3>> {};
  struct W : param<size<3>, size<3>> {};
  static constexpr auto y = x{} % W{};
#ifdef MUST_FAIL
  static constexpr auto sparse = named_loss<"sparsity">(abs(y));
#else
  static constexpr auto sparse = named_loss<"sparsity">(mean(abs(y)));
#endif
  using losses = type_list<std::remove_cv_t<decltype(sparse)>>;
  using observed = type_list<>;
};
double use(Module<layer, Reference<float>, inference>& m) { return m.loss<0>(); }
