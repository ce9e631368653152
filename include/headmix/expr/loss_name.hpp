#pragma once
// SPDX-License-Identifier: MIT
// Names of losses, by which they are weighed. Losses of routers are named by their policies; a layer's use prefixes its
// name: `0.attn.load_balance`.

#include "headmix/expr/repeat.hpp"
#include "headmix/expr/view_ops.hpp"

namespace headmix {

namespace ops {
/// A loss with the name of type Named; the number is that of its operand, without a copy.
template <class Named>
struct loss_name : operation {
  static constexpr detail::form form_of = detail::form::view;
  template <class A>
  static constexpr kind kind_of = A::kind_of;
  template <class A>
  using shape_of = typename A::extents;
  template <class T>
  static constexpr view<T> apply(auto const&, view<T> a) {
    return a;
  }
  static constexpr auto vjp(auto dy, auto, auto) { return grads(dy); }
};
}  // namespace ops

namespace detail {
template <name_text Name>
struct named_by_text {
  static constexpr auto text = Name;
  static constexpr char const* name = text.text;
};
template <class Named, name_text Prefix>
struct loss_in {
  static constexpr auto joined = joined_name<Named, Prefix>();
  static constexpr char const* name = joined.data();
};
template <class Named, name_text Prefix>
struct edge_in<ops::loss_name<Named>, Prefix> {
  using type = ops::loss_name<loss_in<Named, Prefix>>;
};

/// Stands for the missing name of a loss.
struct a_loss_without_a_name {};
/// The type that names a loss.
template <class E>
struct name_of_loss {
  using type = a_loss_without_a_name;
};
template <class Named, class A>
struct name_of_loss<node<ops::loss_name<Named>, A>> {
  using type = Named;
};
template <class R, class A>
struct name_of_loss<node<ops::repeat_total<R>, A>> : name_of_loss<A> {};

/// The source of a loss's name (name_source()); null if there is none.
template <class E>
inline constexpr char const* loss_name_source = nullptr;
template <class Named, class A>
inline constexpr char const* loss_name_source<node<ops::loss_name<Named>, A>> = name_source<Named>();
template <class R, class A>
inline constexpr char const* loss_name_source<node<ops::repeat_total<R>, A>> = loss_name_source<A>;

/// The loss renamed by type Named.
template <class Named, Expr A>
constexpr auto named_as(A loss) {
  return make<ops::loss_name<Named>>(loss);
}
template <class Named, class Old, class A>
constexpr auto named_as(node<ops::loss_name<Old>, A>) {
  return make<ops::loss_name<Named>>(A{});
}
}  // namespace detail

/// The loss under a name, which replaces the one that it may have: `using losses =
/// type_list<decltype(named_loss<"sparsity">(sum(abs(h))))>;`.
template <name_text Name, Expr A>
constexpr auto named_loss(A loss) {
  return detail::named_as<detail::named_by_text<Name>>(loss);
}

}  // namespace headmix
