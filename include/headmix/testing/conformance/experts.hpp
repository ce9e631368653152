#pragma once
// SPDX-License-Identifier: MIT
// Kernels of experts and routers against the reference.

#include <array>
#include <utility>

#include "headmix/contract/optional_kernels.hpp"
#include "headmix/core/ternary.hpp"
#include "headmix/expr/pointwise.hpp"
#include "headmix/testing/conformance/bench.hpp"

namespace headmix::detail::conformance {

template <class B>
void check_order(bench<B>& b, std::vector<Int> const& chosen, Index rows, Index cols, Index experts, layout form,
                 std::vector<Int> const& sequences) {
  auto const count = static_cast<Index>(sequences.size()) - 1;
  b.begin("sort_by_expert", "[", rows, ", ", cols, "], ", experts, " experts, ", count, " sequences");
  sequences_of<B> s(b, sequences);
  int_operand<B> index(b, chosen, rows, cols, form), perm(b, 1, rows * cols), offsets(b, 1, count * experts + 1);
  b.run([&] { b.backend.sort_by_expert(perm.device(), offsets.device(), index.in(), s.device()); });
  b.reference.sort_by_expert(perm.host(), offsets.host(), view<Int const>(index.host()), s.host());
  offsets.check("offsets");
  perm.check("perm");
}
template <class B>
void check_orders(bench<B>& b) {
  for (Index const experts : {1, 5, 32, 300}) {
    for (Index const rows : {0, 1, 40, 77}) {
      for (Index const cols : {1, 3}) {
        std::vector<Int> const all{0, static_cast<Int>(rows)};
        auto const n = static_cast<std::size_t>(rows * cols);
        check_order(b, random_choices(rows * cols, experts), rows, cols, experts, layout::plain, all);
        check_order(b, random_choices(rows * cols, experts), rows, cols, experts, layout::transposed, all);
        check_order(b, std::vector<Int>(n, -1), rows, cols, experts, layout::plain, all);
        check_order(b, std::vector<Int>(n, static_cast<Int>(experts / 2)), rows, cols, experts, layout::plain, all);
      }
    }
    check_order(b, random_choices(60 * 2, experts), 60, 2, experts, layout::plain, {0, 0, 1, 40, 40, 47, 60, 60});
    check_order(b, std::vector<Int>(60, -1), 60, 1, experts, layout::transposed, {0, 0, 1, 40, 40, 47, 60, 60});
  }
}

/// A selection and its order, on both sides.
template <class B>
struct routing {
  routing(bench<B>& b, Index rows, Index choices, Index experts)
      : index(b, without_expert_one(rows * choices, experts), rows, choices),
        perm(b, 1, rows * choices),
        offsets(b, 1, experts + 1) {
    b.reference.sort_by_expert(perm.host(), offsets.host(), view<Int const>(index.host()), uniform(1, rows));
    perm.send();
    offsets.send();
  }
  static std::vector<Int> without_expert_one(Index n, Index experts) {
    auto chosen = random_choices(n, experts);
    for (Int& e : chosen) e = e == 1 ? 0 : e;
    return chosen;
  }
  int_operand<B> index, perm, offsets;
};

/// Runs `call(backend, y, x, w, perm, offsets, scratch)` for the backend, and for the reference.
template <class B, class Size, class Call, class Y, class X, class W>
void run_grouped(bench<B>& b, Size size, Call call, Y& y, X& x, W const& w_device, view<double const> w_host,
                 routing<B>& r) {
  auto const scratch = b.scratch(size(b.backend, y.device(), x.in(), w_device));
  b.run([&] { call(b.backend, y.device(), x.in(), w_device, r.perm.in(), r.offsets.in(), scratch); });
  call(b.reference, y.host(), view<double const>(x.host()), w_host, view<Int const>(r.perm.host()),
       view<Int const>(r.offsets.host()), std::span<std::byte>());
}
template <class B>
void check_grouped(bench<B>& b, Index rows, Index choices, Index experts, Index depth, Index width, bool transposed,
                   layout form) {
  using T = typename B::scalar;
  Index const slots = rows * choices;
  auto const text = message(rows, " rows of ", choices, " of ", experts, " experts [", depth, ", ", width, "]",
                            transposed ? ", transposed" : "");
  routing<B> r(b, rows, choices, experts);
  operand<B, T> w = transposed ? operand<B, T>(b, width, depth, layout::plain, experts)
                               : operand<B, T>(b, depth, width, layout::plain, experts);
  // Expert 1 is never chosen, and slots without an expert are not read.
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  if (experts > 1 && w.host().cols > 1) {
    for (Index i = 0; i < w.host().rows; ++i) w.host()[1](i, 1) = nan;
    w.send();
  }
  auto const set_unread = [&](auto& of_slots) {
    for (Index s = 0, first = 1; s < slots && of_slots.host().rows == slots && of_slots.host().cols > 1; ++s) {
      Int const chosen = r.index.host()(s / choices, s % choices);
      if (chosen < 0) of_slots.host()(s, 1) = nan;
      if (chosen >= 2 && std::exchange(first, 0)) of_slots.host()(s, 0) = nan;  // and the sums of one expert see it
    }
    of_slots.send();
  };
  view<T const> const on_device = transposed ? w.in().transposed() : w.in();
  view<double const> const on_host = transposed ? w.host().transposed() : w.host();

  b.begin("grouped_gemm", text);
  auto const gemm_bytes = [](auto& backend, auto y, auto x, auto of) { return backend.grouped_gemm_scratch(y, x, of); };
  for (Index const each : {choices, Index{1}}) {
    operand<B, T> x(b, slots / each, depth, form), y(b, slots, width, form);
    set_unread(x);
    run_grouped(
        b, gemm_bytes,
        [each](auto& backend, auto to, auto from, auto of, auto perm, auto offsets, auto scratch) {
          backend.grouped_gemm(to, from, of, perm, offsets, each, scratch);
        },
        y, x, on_device, on_host, r);
    y.check("y");
  }
  for (bool const accumulate : {false, true}) {
    b.begin("grouped_sum", text, accumulate ? ", added" : "");
    operand<B, T> x(b, slots, depth, form), y(b, rows, width, form);
    set_unread(x);
    run_grouped(
        b, [](auto& backend, auto to, auto from, auto of) { return backend.grouped_sum_scratch(to, from, of); },
        [choices, accumulate](auto& backend, auto to, auto from, auto of, auto perm, auto offsets, auto scratch) {
          backend.grouped_sum(to, from, of, perm, offsets, choices, accumulate, scratch);
        },
        y, x, on_device, on_host, r);
    y.check("y", 2);  // the addends may be rounded, too

    for (bool const alike : {true, false}) {  // the layouts of the weights
      if constexpr (SumsProductPairs<B>) {
        b.begin("grouped_sum_pair", text, accumulate ? ", added" : "", alike ? "" : ", weights of two layouts");
        bool const flips = transposed == alike;
        operand<B, T> x_2(b, slots, depth, form), z(b, rows, width, form);
        operand<B, T> w_2 = flips ? operand<B, T>(b, width, depth, layout::plain, experts)
                                  : operand<B, T>(b, depth, width, layout::plain, experts);
        view<double const> const w_2_host = flips ? w_2.host().transposed() : w_2.host();
        view<T const> const w_2_device = flips ? w_2.in().transposed() : w_2.in();
        auto const scratch = b.scratch((std::max)(b.backend.grouped_sum_scratch(z.device(), x.in(), on_device),
                                                  b.backend.grouped_sum_scratch(z.device(), x_2.in(), w_2_device)));
        b.run([&] {
          b.backend.grouped_sum_pair(z.device(), {x.in(), x_2.in()}, {on_device, w_2_device}, r.perm.in(),
                                     r.offsets.in(), choices, accumulate, scratch);
        });
        auto const add = [&](auto const& from, view<double const> of, bool adds) {
          b.reference.grouped_sum(z.host(), view<double const>(from.host()), of, view<Int const>(r.perm.host()),
                                  view<Int const>(r.offsets.host()), choices, adds, {});
        };
        add(x, on_host, accumulate);
        add(x_2, w_2_host, true);
        z.check("y", 3);
      }
    }

    for (bool const by_row : {true, false}) {
      b.begin("grouped_outer", text, accumulate ? ", added" : "", by_row ? ", x by row" : ", g by row");
      Index const x_slots = by_row ? choices : 1, g_slots = by_row ? 1 : choices;
      operand<B, T> left(b, slots / x_slots, depth, form), right(b, slots / g_slots, width, form);
      set_unread(left);
      if (x_slots > 1) set_unread(right);
      operand<B, T> sums = transposed ? operand<B, T>(b, width, depth, layout::plain, experts)
                                      : operand<B, T>(b, depth, width, layout::plain, experts);
      view<T> const to = transposed ? sums.device().transposed() : sums.device();
      auto const scratch = b.scratch(b.backend.grouped_outer_scratch(to, left.in(), right.in()));
      b.run([&] {
        b.backend.grouped_outer(to, left.in(), right.in(), r.perm.in(), r.offsets.in(), x_slots, g_slots, accumulate,
                                scratch);
      });
      b.reference.grouped_outer(transposed ? sums.host().transposed() : sums.host(), view<double const>(left.host()),
                                view<double const>(right.host()), view<Int const>(r.perm.host()),
                                view<Int const>(r.offsets.host()), x_slots, g_slots, accumulate, {});
      sums.check("y");
    }
  }
  if constexpr (PreparesWeights<B>) {
    b.begin("grouped_gemm", text, ", prepared");
    typename B::prepared_weights prepared;
    prepared.add(w.in());
    operand<B, T> x(b, rows, depth), y(b, slots, width), z(b, rows, width), of_slots(b, slots, depth);
    set_unread(of_slots);
    auto const scratch = b.scratch((std::max)(b.backend.grouped_gemm_scratch(y.device(), x.in(), on_device),
                                              b.backend.grouped_sum_scratch(z.device(), of_slots.in(), on_device)));
    b.backend.grouped_gemm(y.device(), x.in(), on_device, r.perm.in(), r.offsets.in(), choices, scratch, &prepared);
    b.reference.grouped_gemm(y.host(), view<double const>(x.host()), on_host, view<Int const>(r.perm.host()),
                             view<Int const>(r.offsets.host()), choices, {});
    y.check("y");
    b.begin("grouped_sum", text, ", prepared");
    b.backend.grouped_sum(z.device(), of_slots.in(), on_device, r.perm.in(), r.offsets.in(), choices, false, scratch,
                          &prepared);
    b.reference.grouped_sum(z.host(), view<double const>(of_slots.host()), on_host, view<Int const>(r.perm.host()),
                            view<Int const>(r.offsets.host()), choices, false, {});
    z.check("y", 2);
  }
}

template <class B>
void check_capacity(bench<B>& b) {
  for (Index const rows : {0, 1, 37, 201}) {
    for (Index const most : {0, 1, 17, 1000}) {
      b.begin("apply_capacity", rows, " rows of 3 of 4 experts, at most ", most);
      int_operand<B> index(b, random_choices(rows * 3, 4), rows, 3), y(b, rows, 3), perm(b, 1, rows * 3),
          offsets(b, 1, 5);
      view<Int const> const chosen = index.host();
      b.reference.sort_by_expert(perm.host(), offsets.host(), chosen.transposed(), uniform(1, 3));
      perm.send();
      offsets.send();
      b.run([&] { b.backend.apply_capacity(y.device(), index.in(), perm.in(), offsets.in(), most); });
      b.reference.apply_capacity(y.host(), chosen, view<Int const>(perm.host()), view<Int const>(offsets.host()), most);
      y.check("y");
    }
  }
}

template <class B>
requires PackedGemm<B>
void check_packed(bench<B>& b) {
  using T = typename B::scalar;
  Reference<T> const reference;
  for (Index const rows : {0, 1, 9}) {
    for (Index const depth : {1, 35, 130}) {
      for (bool const grouped : {false, true}) {
        Index const experts = grouped ? 4 : 1, choices = grouped ? 2 : 1, width = 21, slots = rows * choices,
                    words = packed_ternary::words(depth, width);
        b.begin("packed_gemm", rows, " rows of ", choices, " of ", experts, " experts [", depth, ", ", width, "]");
        operand<B, T, T> x(b, rows, depth), y(b, slots, width), w(b, depth, width, layout::plain, experts);
        std::vector<Int> packed(static_cast<std::size_t>(experts * words));
        for (Index i = 3; i < rows; i += 3)
          x.set(i, depth - 1, (i % 2 == 0 ? 1 : -1) * std::numeric_limits<double>::infinity());
        if (rows > 1) x.set(1, depth / 2, std::numeric_limits<double>::quiet_NaN());
        if (experts > 2) w.host()[2](depth - 1, 0) = std::numeric_limits<T>::quiet_NaN();
        for (Index e = 0; e < experts; ++e) packed_ternary::pack(packed.data() + e * words, view<T const>(w.host()[e]));
        int_operand<B> of_words(b, packed, experts, words);
        routing<B> r(b, rows, choices, experts);
        auto const stack = [&](Int const* data) { return view<Int const>(data, experts, 1, words); };
        view<Int const> const on_device = stack(of_words.in().data), on_host = stack(of_words.host().data);
        auto const scratch = b.scratch(b.backend.packed_gemm_scratch(y.device(), x.in(), on_device));
        view<Int const> const none;
        b.run([&] {
          b.backend.packed_gemm(y.device(), x.in(), on_device, grouped ? r.perm.in() : none,
                                grouped ? r.offsets.in() : none, choices, scratch);
        });
        reference.packed_gemm(y.host(), view<T const>(x.host()), on_host,
                              grouped ? view<Int const>(r.perm.host()) : none,
                              grouped ? view<Int const>(r.offsets.host()) : none, choices, {});
        y.check("y");
      }
    }
  }
}

/// A router's kernel against the kernels that it replaces: z and p up to rounding, the rest for its own choices.
template <class B>
requires FusedRoute<B>
void check_route(bench<B>& b) {
  using T = typename B::scalar;
  using W = accumulator_t<T>;
  struct sizes {
    Index rows, depth, experts, k;
    Index before, behind;  ///< further columns of z
  };
  for (auto const [rows, depth, experts, k, before, behind] :
       {sizes{0, 8, 5, 2, 0, 0}, sizes{1, 8, 5, 1, 2, 0}, sizes{37, 19, 7, 3, 0, 0}, sizes{37, 24, 7, 3, 2, 3},
        sizes{40, 64, 32, 2, 0, 0}, sizes{40, 64, 20, 2, 5, 0}}) {
    for (bool const wanted : {true, false}) {
      b.begin("route", rows, " rows, ", k, " of ", experts, " experts", wanted ? "" : ", choices alone");
      Index const columns = before + experts + behind;
      operand<B, T> x(b, rows, depth), w(b, depth, columns);
      if (!wanted && rows > 2) x.set(rows / 2, 1, std::numeric_limits<double>::quiet_NaN());
      operand<B, W> z(b, rows, columns), s(b, rows, experts), p(b, rows, experts), log_sum(b, rows, 1),
          squares(b, 1, 1), p_sum(b, 1, experts), chosen(b, rows, experts), chosen_sum(b, 1, experts),
          first(b, rows, experts), first_sum(b, 1, experts);
      int_operand<B> index(b, rows, k), order(b, 1, rows * k), begins(b, 1, experts + 1);
      auto const given = [wanted](auto v) {
        if (!wanted) v.data = nullptr;
        return v;
      };
      route_problem<T> const r{given(z.device()),
                               p.device(),
                               index.device(),
                               given(log_sum.device()),
                               given(squares.device()),
                               given(p_sum.device()),
                               given(chosen.device()),
                               given(chosen_sum.device()),
                               given(first.device()),
                               given(first_sum.device()),
                               given(order.device()),
                               given(begins.device()),
                               x.in(),
                               w.in(),
                               before,
                               given(s.device())};
      auto const scratch = b.scratch(b.backend.route_scratch(r));
      b.run([&] { b.backend.route(r, scratch); });
      std::vector<double> logits(static_cast<std::size_t>(rows * columns));
      view<double> const all(logits.data(), rows, columns);
      b.reference.gemm(all, view<double const>(x.host()), view<double const>(w.host()), false);
      if (wanted) b.reference.map(z.host(), tree_leaf<double, false, false>{view<double const>(all)}, false);
      z.check("z");
      view<double const> const of_experts = view<double const>(all).middle_cols(before, experts);
      if (wanted) b.reference.map(s.host(), tree_leaf<double, false, false>{of_experts}, false);
      s.check("s");
      b.reference.softmax(p.host(), of_experts);
      p.check("p");
      p.receive();  // near ties may round differently: choices must follow the probabilities found
      b.reference.top_k(index.host(), view<double const>(p.host()));
      index.check("index");
      if (wanted) {
        using leaf = tree_leaf<double, false, false>;
        view<Int const> const found = index.host();
        b.reference.log_sum_exp(log_sum.host(), of_experts);
        b.reference.gemm(squares.host(), view<double const>(log_sum.host().transposed()),
                         view<double const>(log_sum.host()), false);
        b.reference.col_sum(p_sum.host(), lazy<leaf>{{p.host()}, rows, experts}, false);
        b.reference.one_hot(chosen.host(), found);
        b.reference.col_sum(chosen_sum.host(), lazy<leaf>{{chosen.host()}, rows, experts}, false);
        b.reference.one_hot(first.host(), found.middle_cols(0, 1));
        b.reference.col_sum(first_sum.host(), lazy<leaf>{{first.host()}, rows, experts}, false);
        b.reference.sort_by_expert(order.host(), begins.host(), found, uniform(1, rows));
      }
      log_sum.check("log_sum");
      squares.check("squares");
      p_sum.check("p_sum");
      chosen.check_exact("chosen");
      chosen_sum.check_exact("chosen_sum");
      first.check_exact("first");
      first_sum.check_exact("first_sum");
      order.check("order");
      begins.check("begins");
    }
  }
}

template <class B>
void check_experts(bench<B>& b) {
  check_orders(b);
  for (bool const transposed : {false, true}) {
    for (layout const form : {layout::plain, layout::gaps}) {
      check_grouped(b, 37, 3, 5, 19, 23, transposed, form);
      check_grouped(b, 1, 1, 3, 4, 4, transposed, form);
      check_grouped(b, 0, 2, 3, 5, 6, transposed, form);
      if (!b.options().large) continue;
      check_grouped(b, 700, 2, 4, 70, 150, transposed, form);
      check_grouped(b, 300, 1, 2, 64, 200, transposed, form);
    }
  }
  check_capacity(b);
  if constexpr (PackedGemm<B>) check_packed(b);
  if constexpr (FusedRoute<B>) check_route(b);
}

/// A tree over products with Stacks stacks of weights: sigmoid(the last) times the first, if there are two, times a
/// gate of the slot, plus a matrix.
template <std::size_t Stacks, class W, class T>
auto hidden_tree(view<W const> gate, view<T const> added) {
  using last = tree_node<W, ops::sigmoid, tree_product<static_cast<int>(Stacks) - 1>>;
  using all = std::conditional_t<Stacks == 1, last, tree_node<W, ops::multiply, tree_product<0>, last>>;
  using gated = tree_node<W, ops::multiply, tree_leaf<W, false, true>, all>;
  return tree_node<W, ops::add, gated, tree_leaf<T, false, false>>{{{gate}, {}}, {added}};
}
/// @param wanted  whether products are stored
template <std::size_t Stacks, class B>
void check_hidden(bench<B>& b, Index rows, Index choices, Index experts, Index depth, Index width, layout form,
                  bool wanted) {
  using T = typename B::scalar;
  using W = accumulator_t<T>;
  Index const slots = rows * choices;
  b.begin("grouped_gemm_map", rows, " rows of ", choices, " of ", experts, " experts ", Stacks, " x [", depth, ", ",
          width, "]", wanted ? ", products wanted" : "");
  routing<B> r(b, rows, choices, experts);
  operand<B, T> x(b, rows, depth, form), y(b, slots, width, form), added(b, slots, width, form);
  operand<B, W> gate(b, slots, 1);
  operand<B, T> w[] = {{b, depth, width, form, experts}, {b, depth, width, form, experts}};
  operand<B, T> product[] = {{b, slots, width, form}, {b, slots, width, form}};
  std::array<view<T>, Stacks> products;
  std::array<view<T const>, Stacks> weights;
  view<double const> made[Stacks];
  for (std::size_t p = 0; p < Stacks; ++p) {
    weights[p] = w[p].in();
    products[p] = product[p].device();
    if (!wanted) products[p].data = nullptr;
  }
  auto const tree = hidden_tree<Stacks>(gate.in(), added.in());
  auto const scratch = b.scratch(b.backend.grouped_gemm_map_scratch(y.device(), tree, products, x.in(), weights));
  b.run([&] {
    b.backend.grouped_gemm_map(y.device(), tree, products, x.in(), weights, r.perm.in(), r.offsets.in(), choices,
                               scratch);
  });
  for (std::size_t p = 0; p < Stacks; ++p) {
    b.reference.grouped_gemm(product[p].host(), view<double const>(x.host()), view<double const>(w[p].host()),
                             view<Int const>(r.perm.host()), view<Int const>(r.offsets.host()), choices, {});
    made[p] = product[p].host();
    if (wanted) product[p].check("product");
  }
  b.reference.map(
      y.host(),
      with_products(hidden_tree<Stacks>(view<double const>(gate.host()), view<double const>(added.host())), made),
      false);
  y.check("y", 3);  // products are rounded, too
}
template <class B>
void check_hidden_layers(bench<B>& b) {
  if constexpr (FusedExperts<B>) {
    struct sizes {
      Index rows, choices, experts, depth, width;
    };
    for (auto const& s : {sizes{0, 2, 3, 64, 8}, sizes{1, 1, 1, 1, 1}, sizes{33, 3, 5, 64, 72}, sizes{17, 2, 3, 40, 24},
                          sizes{300, 2, 3, 128, 136}, sizes{9, 2, 3, 64, 20}}) {
      for (layout const form : {layout::plain, layout::gaps}) {
        for (bool const wanted : {true, false}) {
          check_hidden<1>(b, s.rows, s.choices, s.experts, s.depth, s.width, form, wanted);
          check_hidden<2>(b, s.rows, s.choices, s.experts, s.depth, s.width, form, wanted);
        }
      }
    }
  }
}

}  // namespace headmix::detail::conformance
