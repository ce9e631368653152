#pragma once
// SPDX-License-Identifier: MIT
// Kernels that replace several calls, for backends that have them.

#include "headmix/contract/optional_kernels.hpp"
#include "headmix/expr/pointwise.hpp"
#include "headmix/testing/conformance/bench.hpp"

namespace headmix::detail::conformance {

/// Gates of the chosen columns, as in a router: every step reads the results of earlier steps.
template <class B>
void check_each_row(bench<B>& b) {
  if constexpr (FusedRows<B>) {
    using W = accumulator_t<typename B::scalar>;
    struct sizes {
      Index rows, experts, k;
    };
    for (auto const& size : {sizes{0, 5, 2}, sizes{1, 1, 1}, sizes{1, 37, 3}, sizes{33, 4, 4}, sizes{65, 41, 3},
                             sizes{7, 200, 2}, sizes{3, 1000, 8}}) {
      Index const rows = size.rows, experts = size.experts, k = size.k;  // lambdas read them
      for (layout const form : {layout::plain, layout::gaps}) {
        b.begin("each_row", rows, " rows, ", k, " of ", experts, " columns");
        operand<B, W> z(b, rows, experts, form), p(b, rows, experts), taken(b, rows, k, form), total(b, rows, 1),
            bias(b, 1, k), gate(b, rows, k, form), put(b, rows, experts), hot(b, rows, experts), both(b, rows, k + 1);
        int_operand<B> index(b, distinct_choices(rows, k, experts), rows, k), all(b, rows, k), numbers(b, rows, 2 * k);
        view<Int const> const none(nullptr, rows, k);
        // gate += taken / total + bias
        auto const tree_of = [](auto a, auto sum, auto row) {
          using T = std::remove_cv_t<std::remove_reference_t<decltype(*a.data)>>;
          using quotient = tree_node<T, ops::divide, tree_leaf<T, false, false>, tree_leaf<T, false, true>>;
          return tree_node<T, ops::add, quotient, tree_leaf<T, true, false>>{{{a}, {sum}}, {row}};
        };
        auto const leaf_of = [](auto a) {
          using T = std::remove_cv_t<std::remove_reference_t<decltype(*a.data)>>;
          return lazy<tree_leaf<T, false, false>>{{a}, a.rows, a.cols};
        };
        auto const map = tree_of(taken.in(), total.in(), bias.in());
        auto const sum = leaf_of(taken.in());
        b.run([&] {
          b.backend.each_row(rows, row_step::softmax<W, W>{p.device(), z.in()},
                             row_step::gather<W>{taken.device(), p.in(), index.in()},
                             row_step::sum<W, decltype(sum.tree)>{total.device(), sum, false},
                             row_step::map<W, std::remove_cv_t<decltype(map)>>{gate.device(), map, true},
                             row_step::scatter<W>{put.device(), gate.in(), index.in()},
                             row_step::scatter<W>{hot.device(), {}, index.in()},
                             row_step::concat<W, W, W>{both.device(), total.in(), gate.in()},
                             row_step::renumber{all.device(), none, 3, 0},
                             row_step::concat<Int, Int, Int>{numbers.device(), all.in(), index.in()},
                             row_step::renumber{all.device(), index.in(), 5, experts, 2});
        });
        auto const read = [](auto& operand) { return view<double const>(operand.host()); };
        view<Int const> const chosen = index.host();
        b.reference.softmax(p.host(), read(z));
        b.reference.gather_cols(taken.host(), read(p), chosen);
        b.reference.row_sum(total.host(), leaf_of(read(taken)), false);
        b.reference.map(gate.host(), tree_of(read(taken), read(total), read(bias)), true);
        b.reference.scatter_cols(put.host(), read(gate), chosen);
        b.reference.one_hot(hot.host(), chosen);
        auto const copy = [&](view<double> to, view<double const> from) {
          b.reference.map(to, leaf_of(from).tree, false);
        };
        copy(both.host().middle_cols(0, 1), read(total));
        copy(both.host().middle_cols(1, k), read(gate));
        b.reference.renumber(numbers.host().middle_cols(0, k), none, 3, 0);
        b.reference.renumber(numbers.host().middle_cols(k, k), chosen, 0, 0);
        b.reference.renumber(all.host(), chosen, 5, experts, 2);
        p.check("p");
        taken.check("taken");
        total.check("total");
        gate.check("gate");
        put.check("put");
        hot.check_exact("hot");
        both.check("both");
        numbers.check("numbers");
        all.check("all");
      }
    }
  }
}

/// Products of one left operand with a stack.
template <class B>
void check_gemm_stack(bench<B>& b) {
  if constexpr (StackedProducts<B>) {
    using T = typename B::scalar;
    struct sizes {
      Index rows, inner, cols;
    };
    for (auto const [rows, inner, cols] : {sizes{0, 5, 2}, sizes{1, 1, 1}, sizes{33, 19, 7}, sizes{65, 40, 72}}) {
      for (layout const form : {layout::plain, layout::gaps}) {
        for (bool const accumulate : {false, true}) {
          b.begin("gemm_stack", "[", rows, ", ", inner, "] times 3 of [", inner, ", ", cols, "]");
          operand<B, T> y(b, rows, cols, form, 3), x(b, rows, inner, form), w(b, inner, cols, form, 3);
          b.run([&] { b.backend.gemm_stack(y.device(), x.in(), w.in(), accumulate); });
          for (Index e = 0; e < 3; ++e) {
            b.reference.gemm(y.host()[e], view<double const>(x.host()), view<double const>(w.host()[e]), accumulate);
          }
          y.check("y");
        }
      }
    }
  }
}

}  // namespace headmix::detail::conformance
