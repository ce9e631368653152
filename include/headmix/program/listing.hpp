#pragma once
// SPDX-License-Identifier: MIT
// The listing of a program: its calls in the order in which they run.
//
//   std::puts(listing(module).text().c_str());   // or .json(), .dot()
//
// Names and operations are in further tables, program_words, which are instantiated for listed programs alone.

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "headmix/expr/macs.hpp"
#include "headmix/expr/random.hpp"
#include "headmix/program/listed_program.hpp"
#include "headmix/program/program.hpp"

namespace headmix {

namespace detail {

// ---- names ----

/// "Moa::q": the name of a type and that of the class that it is in, without template arguments. A member of a router's
/// `route` or an expert's `experts` is one of the router or the expert.
inline std::string name_in_class(char const* name_source) {
  std::string_view const whole = name_in(name_source, true);
  if (whole == name_source) return std::string(whole);  // given by the class, not cut out of a signature
  std::vector<std::string> parts(1);
  int depth = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    char const c = whole[i];
    if (c == '<' || c == '(' || c == '{') ++depth;
    if (depth == 0 && c == ':') {
      if (!parts.back().empty()) parts.emplace_back();
    } else if (depth == 0) {
      parts.back() += c;
    }
    if (c == '>' || c == ')' || c == '}') --depth;
  }
  std::size_t in = parts.size() - 1;
  if (in > 0) --in;
  if (in > 0 && (parts[in] == "route" || parts[in] == "experts")) --in;
  return in + 1 == parts.size() || parts[in] == "headmix" ? parts.back() : parts[in] + "::" + parts.back();
}

/// The name of a let. Where its layer is used under a name it begins with that, as the names of parameters do.
template <class E>
struct let_name {
  static std::string text() { return name_in_class(name_source<E>()); }
  static std::string short_text() { return std::string(type_name<E>()); }
};
template <class Leaves, class E>
requires requires { Leaves::prefix; }
struct let_name<let_in<Leaves, E>> {
  static std::string text() { return std::string(Leaves::prefix.text) + "." + let_name<E>::short_text(); }
  static std::string short_text() { return text(); }
};
template <class E>
struct number_text {
  static std::string text() { return std::string(type_name<E>()); }
};
template <class E>
struct number_text<number_in<E>> : number_text<E> {};
template <class E>
requires requires { typename E::counted; }
struct number_text<E> {
  using counted = typename E::counted;
  static std::string text() {
    return counted::value == dynamic ? std::string(type_name<counted>()) : message(counted::value);
  }
};
template <long long Num, long long Den>
struct number_text<number<Num, Den>> {
  static std::string text() { return Den == 1 ? message(Num) : message(Num, "/", Den); }
};

/// The words of a value: a name, or the operation that makes it.
struct value_words {
  enum class by { name, operation, output, gradient } what;
  char const* group;                  ///< Listing::value::kind
  kind kind_of;                       ///< of its elements
  char const* name_source = nullptr;  ///< of the operation
  std::string (*name)() = nullptr;
  int of = -1;  ///< the value that it is another output of, or the gradient by
};

template <class Values, class E>
constexpr int number_or_none() {
  if constexpr (contains<Values, E>) {
    return position_in<Values, E>::value;
  } else {
    return -1;
  }
}
template <class E>
struct leaf_of_gradient;
template <class L>
struct leaf_of_gradient<gradient_of_leaf<L>> {
  using type = L;
};
template <class Values, class E>
constexpr value_words make_value_words() {
  using by = value_words::by;
  if constexpr (requires { typename leaf_of_gradient<E>::type; }) {
    using L = typename leaf_of_gradient<E>::type;
    return {by::gradient, "gradient", L::kind_of, nullptr, nullptr, number_or_none<Values, L>()};
  } else if constexpr (requires { typename E::gradient_of; }) {
    using R = typename memory_below<typename E::gradient_of>::type;
    return {by::gradient, "gradient", E::kind_of, nullptr, nullptr, number_or_none<Values, R>()};
  } else if constexpr (E::form_of == form::leaf) {
    return {by::name, text_of(kind_of_leaf<E>()), E::kind_of};
  } else if constexpr (E::form_of == form::scalar_constant) {
    return {by::name, "number", kind::real, nullptr, &number_text<E>::text};
  } else if constexpr (E::form_of == form::output) {
    using Node = operand_of<E>;
    return {by::output, "value", E::kind_of, name_source<typename Node::op>(), nullptr, number_or_none<Values, Node>()};
  } else if constexpr (E::form_of == form::let && requires { typename E::of; }) {
    using of = memory_of<typename E::of>;
    return {by::gradient, "gradient", E::kind_of, nullptr, nullptr, number_or_none<Values, of>()};
  } else if constexpr (E::form_of == form::let) {
    return {by::name, "value", E::kind_of, nullptr, &let_name<E>::text};
  } else {
    return {by::operation, E::form_of == form::view ? "view" : "value", E::kind_of, name_source<typename E::op>()};
  }
}
template <class P, class... E>
constexpr auto words_of_values(type_list<E...>*) {
  using values = values_in<P>;
  return std::array<value_words, sizeof...(E)>{make_value_words<values, E>()...};
}
/// A let without a buffer names the value of its expression.
struct value_name {
  int value;
  std::string (*name)();
};
struct is_let {
  template <class E>
  static constexpr bool value = E::form_of == form::let;
};
template <class P, class... E>
constexpr auto names_of_lets(type_list<E...>*) {
  using values = values_in<P>;
  return std::array<value_name, sizeof...(E)>{
      value_name{number_or_none<values, memory_of<E>>(), &let_name<E>::text}...};
}

// ---- calls ----

/// The operation of a call in words, operands in the order of `reader`.
class call_words {
 public:
  call_words(std::vector<Listing::value> const& values, int const* operands, Listing::call& call)
      : values_(&values), next_(operands), call_(&call) {}

  void begin(char const* name_source) {
    separate();
    text() += operation_name(name_source) + "(";
    first_ = true;
  }
  void end() {
    text() += ')';
    first_ = false;
  }
  /// The steps of a kernel of several calls.
  void group(std::string const& kernel) { text() += kernel + ": "; }
  void next_call(bool accumulates = false) {
    if (!first_) text() += "; ";
    if (accumulates) text() += "+= ";
    first_ = true;
  }
  void memory() {
    int const n = *next_++;
    separate();
    text() += (*values_)[static_cast<std::size_t>(n)].name;
    call_->operands.push_back(n);
  }
  void extents(int n = 1) { next_ += n; }
  void word(std::string const& w) {
    separate();
    text() += w;
  }

  /// "matmul" of matmul<...>.
  static std::string operation_name(char const* name_source) {
    std::string name(unqualified(name_source));
    name.resize((std::min)(name.find('<'), name.size()));
    return name;
  }

 private:
  std::string& text() { return call_->text; }
  void separate() {
    if (!first_) text() += ", ";
    first_ = false;
  }
  std::vector<Listing::value> const* values_;
  int const* next_;
  Listing::call* call_;
  bool first_ = true;
};

/// An operand in words, of the values that `reader` reads for it.
template <class Operand>
struct operand_words;
template <class T>
struct operand_words<view<T>> {
  static void add(call_words& to) { to.memory(); }
};
template <>
struct operand_words<unread> {
  static void add(call_words& to) { to.extents(); }
};
template <class T, bool OneRow, bool OneCol>
struct operand_words<tree_leaf<T, OneRow, OneCol>> {
  static void add(call_words& to) { to.memory(); }
};
template <class W>
struct operand_words<tree_number<W>> {
  static void add(call_words& to) { to.memory(); }
};
template <class W, class Op, class... A>
struct operand_words<tree_node<W, Op, A...>> {
  static void add(call_words& to) {
    to.begin(name_source<Op>());
    (operand_words<A>::add(to), ...);
    to.end();
  }
};
template <class A>
struct operand_words<tree_repeat<A>> {
  static void add(call_words& to) {
    to.extents(2);
    to.begin("repeat_rows");
    operand_words<A>::add(to);
    to.end();
  }
};
template <int Number>
struct operand_words<tree_product<Number>> {
  static void add(call_words& to) { to.word(message("product ", Number)); }
};
template <class Distribution, random_stream Stream>
struct operand_words<tree_random<Distribution, Stream>> {
  static void add(call_words& to) {
    to.extents();
    to.begin(name_source<Distribution>());
    to.memory();
    to.end();
  }
};
template <class Tree>
struct operand_words<lazy<Tree>> {
  static void add(call_words& to) {
    to.extents();
    operand_words<Tree>::add(to);
  }
};

/// The operation of a kernel in words.
template <class Kernel>
struct kernel_words;
template <class Op, class... Out, class... In>
struct kernel_words<kernel<Op, type_list<Out...>, type_list<In...>>> {
  static std::string name() { return call_words::operation_name(name_source<Op>()); }
  static void add(call_words& to) {
    to.begin(name_source<Op>());
    (operand_words<In>::add(to), ...);
    to.end();
  }
};
template <class T, class Tree>
struct kernel_words<map_kernel<T, Tree>> {
  static std::string name() { return "map"; }
  static void add(call_words& to) { operand_words<Tree>::add(to); }
};
template <class Rows, class... Kernel, bool... Accumulate>
struct kernel_words<row_kernel<Rows, row_part<Kernel, Accumulate>...>> {
  static std::string name() { return "each_row"; }
  static void add(call_words& to) {
    to.group(name());
    ((to.next_call(Accumulate), kernel_words<Kernel>::add(to)), ...);
  }
};
template <class T, class A, class B, bool Accumulate, std::size_t Count>
struct kernel_words<stacked_product<T, A, B, Accumulate, Count>> {
  static std::string name() { return "gemm_stack"; }
  static void add(call_words& to) {
    to.group(name());
    for (std::size_t i = 0; i < Count; ++i) {
      to.next_call();
      to.begin("matmul");
      to.memory();
      to.memory();
      to.end();
    }
  }
};

/// Extents, as operations ask for them; some may be unknown.
template <class Sizes>
class known_extents {
 public:
  explicit known_extents(bound_sizes const& sizes) : sizes_(&sizes) {}
  template <Extent X>
  [[nodiscard]] Index extent() const {
    if constexpr (X::value == dynamic) {
      if (unknown_size(*formula_for<Sizes, X>, sizes_->value.data()) != nullptr) {
        complete_ = false;
        return 0;
      }
    }
    return extent_in<Sizes, X>(*sizes_);
  }
  template <Extent X>
  [[nodiscard]] segments segments_of() const {
    Index const rows = extent<X>();
    segments const s = complete_ ? segments_in<Sizes, X>(*sizes_) : uniform(1, rows);
    if (s.offsets == nullptr) return s;
    complete_ = false;  // offsets may lie in memory of a device
    return uniform(1, rows);
  }
  /// False if an unknown extent, or lengths of ragged sequences, were read.
  [[nodiscard]] bool complete() const { return complete_; }

 private:
  bound_sizes const* sizes_;
  mutable bool complete_ = true;
};

/// Multiply-adds of an operation.
template <class Node, class Sizes>
Index macs_of(known_extents<Sizes> const& sizes) {
  checked n = 0;
  if constexpr (requires { macs(Node{}, sizes); }) n += macs(Node{}, sizes);
  if constexpr (requires { attention_macs(Node{}, sizes); }) n += attention_macs(Node{}, sizes);
  return n.value;
}
/// The nodes that a call computes: its outputs, or the terms that it adds.
template <class Op, class E>
inline constexpr bool is_node_of = false;
template <class Op, class... A>
inline constexpr bool is_node_of<Op, node<Op, A...>> = true;
struct is_node {
  template <class E>
  static constexpr bool value = requires {
    typename E::op;
  };
};
template <class Kernel, class Outputs, class Operands>
struct nodes_of_call {
  using type = filter<Outputs, is_node>;
};
template <class Op, class... Out, class... In, class Y, class... More, class... V>
requires(Op::accumulates && sizeof...(In) == sizeof...(V) && !is_node_of<Op, Y>)  //
    struct nodes_of_call<kernel<Op, type_list<Out...>, type_list<In...>>, type_list<Y, More...>, type_list<V...>> {
  using type = type_list<node<Op, V...>>;
};
template <class T, class A, class B, bool Accumulate, std::size_t Count, class... Y, class... V>
struct nodes_of_call<stacked_product<T, A, B, Accumulate, Count>, type_list<Y...>, type_list<V...>> {
  template <std::size_t... I>
  static auto products(std::index_sequence<I...>)
      -> type_list<node<ops::matmul<kind::real>, nth<2 * I, type_list<V...>>, nth<2 * I + 1, type_list<V...>>>...>;
  using type = decltype(products(std::make_index_sequence<Count>{}));
};

template <class Sizes, class... Node>
Index macs_of_nodes(bound_sizes const& sizes, type_list<Node...>*) {
  known_extents<Sizes> const known(sizes);
  checked n = 0;
  ((n += macs_of<Node>(known)), ...);
  return known.complete() ? n.value : -1;
}
/// A call in words.
struct call_description {
  void (*words)(call_words&);
  std::string (*kernel)();
  Index (*macs)(bound_sizes const&);
};
template <class Sizes, class Call>
Index macs_of_call(bound_sizes const& sizes) {
  using nodes = typename nodes_of_call<kernel_of_call<Call>, outputs_of_call<Call>, operands_of_call<Call>>::type;
  return detail::macs_of_nodes<Sizes>(sizes, static_cast<nodes*>(nullptr));
}
template <class P, class... C>
constexpr auto descriptions_of_calls(type_list<C...>*) {
  return std::array<call_description, sizeof...(C)>{call_description{&kernel_words<kernel_of_call<C>>::add,
                                                                     &kernel_words<kernel_of_call<C>>::name,
                                                                     &macs_of_call<typename P::sizes, C>}...};
}

/// Names and operations of a program, in the order of its values and calls.
template <class Roots, class Backend, class Mode>
struct program_words {
  using program = detail::program<Roots, Backend, Mode>;
  using parts = program_parts<Roots, Backend, Mode>;
  static constexpr auto values = detail::words_of_values<parts>(static_cast<values_in<parts>*>(nullptr));
  static constexpr auto names =
      detail::names_of_lets<parts>(static_cast<filter<nodes_in<typename parts::graph_of>, is_let>*>(nullptr));
  static constexpr auto calls = detail::descriptions_of_calls<parts>(static_cast<made_calls_in<parts>*>(nullptr));
};

// ---- the listing, compiled once for all programs ----

/// A formula of sizes, with the numbers that are known: "2 * tokens".
inline std::string formula_text(formula const& f, bound_sizes const& sizes, bool in_product = false) {
  if (unknown_size(f, sizes.value.data()) == nullptr) return std::to_string(evaluate(f, sizes.value.data()));
  if (f.what == formula::op::size) return std::string(unqualified(f.name_source));
  bool const product = f.what == formula::op::product || f.what == formula::op::quotient;
  char const* const sign = f.what == formula::op::product    ? " * "
                           : f.what == formula::op::quotient ? " / "
                           : f.what == formula::op::sum      ? " + "
                                                             : " - ";
  std::string const both = formula_text(*f.a, sizes, product) + sign + formula_text(*f.b, sizes, product);
  return in_product ? "(" + both + ")" : both;
}

struct element_type {
  std::string_view name;
  std::size_t bytes;
};
template <class T>
constexpr element_type element_type_of() {
  return {type_name<T>(), sizeof(T)};
}
/// Makes the listing of a program from its tables and their words.
class listing_maker {
 public:
  listing_maker(program_table const& table, Plan const& plan, Binding const& binding, bool planned,
                std::vector<value_origin> origins, std::array<element_type, 3> const& elements)
      : table_(&table),
        plan_(&plan),
        binding_(&binding),
        sizes_(binding.certain_sizes()),
        planned_(planned),
        origins_(std::move(origins)),
        elements_(elements) {}

  /// @param call_of  the call of the original tables that a call is
  Listing made(std::string name, std::span<value_words const> words, std::span<value_name const> names,
               std::span<call_description const> calls, std::function<std::size_t(std::size_t)> const& call_of) {
    words_ = words;
    names_ = names;
    list_.name = std::move(name);
    list_.leaves = table_->binding.leaves.size();
    list_.forward_calls = table_->forward_calls;
    if (planned_) list_.workspace = static_cast<Index>(plan_->bytes());
    list_.values.resize(table_->values());
    find_calls();
    name_values();
    describe_values();
    for (std::size_t c = 0; c < table_->calls.size(); ++c) add_call(c, calls[call_of(c)]);
    add_sizes();
    add_checks();
    return std::move(list_);
  }

 private:
  static std::size_t index(int n) { return static_cast<std::size_t>(n); }
  [[nodiscard]] value_words const& words_of(std::size_t v) const { return words_[index(origins_[v].value)]; }
  [[nodiscard]] int source_of(std::size_t v) const {
    return v < table_->first_derived() ? -1 : table_->sources[v - table_->first_derived()];
  }

  /// The calls that use each value, and its writer.
  void find_calls() {
    writer_.assign(table_->values(), -1);
    for (std::size_t c = 0; c < table_->calls.size(); ++c) {
      auto const values = plan_->values_of_call(c);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i] < 0) continue;
        auto v = index(values[i]);
        if (i < index(table_->calls[c].outputs) && writer_[v] < 0) writer_[v] = static_cast<int>(c);
        while (source_of(v) >= 0) v = index(source_of(v));
        Listing::value& used = list_.values[v];
        used.last = static_cast<Index>(c);
        if (used.first < 0) used.first = used.last;
      }
    }
    auto const buffers = plan_->buffers();
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      list_.values[table_->first_buffer() + b].kept = buffers[b].last == table_->calls.size();
    }
  }

  void name_values() {
    std::size_t const all = table_->values();
    instances_.resize(words_.size());
    for (std::size_t v = 0; v < all; ++v) {
      if (!origins_[v].again) instances_[index(origins_[v].value)].push_back(static_cast<int>(v));
    }
    text_.assign(all, {});
    for (std::size_t v = 0; v < all; ++v) list_.values[v].name = name_of(v);
    // Two layers have one name.
    std::map<std::string, int> found;
    for (Listing::value const& v : list_.values) ++found[v.name];
    for (std::size_t v = table_->first_buffer(); v < table_->first_derived(); ++v) {
      std::string& name = list_.values[v].name;
      if (found[name] > 1) name += message("#", writer_[v]);
    }
  }
  std::string name_of(std::size_t v) {
    if (text_[v].empty()) text_[v] = made_name(v);
    return text_[v];
  }
  std::string made_name(std::size_t v) {
    value_origin const& origin = origins_[v];
    value_words const& w = words_of(v);
    if (v < list_.leaves) return std::string(binding_->leaf_text(v));
    if (int const source = source_of(v); source >= 0) {
      return call_words::operation_name(w.name_source) + "(" + name_of(index(source)) + ")";
    }
    std::string const given = given_name(origin.value, w, origin.instance);
    if (!given.empty()) return origin.again ? "again(" + given + ")" : given;
    if (w.what == value_words::by::gradient) return w.of < 0 ? "gradient" : "d(" + name_of(at_time(w.of, origin)) + ")";
    std::string const operation = call_words::operation_name(w.name_source);
    if (writer_[v] < 0) return operation;
    auto const values = plan_->values_of_call(index(writer_[v]));
    auto const place = std::find(values.begin(), values.end(), static_cast<int>(v)) - values.begin();
    std::string const of = w.of < 0 ? "" : given_name(w.of, words_[index(w.of)], origin.instance);
    std::string const node = of.empty() ? message(operation, "#", writer_[v]) : of;
    return place == 0 ? node : message(node, ".", place);
  }
  /// The name of value n of the original tables, if it has one.
  std::string given_name(int n, value_words const& w, Index instance) {
    std::string name;
    if (w.name != nullptr) name = w.name();
    for (value_name const& let : names_) {
      if (let.value == n && name.empty()) name = let.name();
    }
    if (auto const star = name.find('*'); star != std::string::npos) name.replace(star, 1, std::to_string(instance));
    return name;
  }
  /// The value n of the original tables of the same instance as another value.
  [[nodiscard]] std::size_t at_time(int n, value_origin const& of) const {
    auto const& times = instances_[index(n)];
    return index(times[(std::min)(static_cast<std::size_t>(of.instance), times.size() - 1)]);
  }

  [[nodiscard]] shape_formula const& shape_of(std::size_t v) const {
    std::size_t const leaves = list_.leaves;
    return v < 2 * leaves ? table_->binding.leaves[v % leaves].shape
                          : table_->shapes[v - table_->first_output_gradient()];
  }
  void describe_values() {
    auto const buffers = plan_->buffers();
    for (std::size_t v = 0; v < list_.values.size(); ++v) {
      Listing::value& value = list_.values[v];
      value_words const& w = words_of(v);
      value.kind = w.group;
      value.source = source_of(v);
      if (value.kind != "number") value.type = elements_[static_cast<std::size_t>(w.kind_of)].name;
      untyped_view const& bound = binding_->values()[v];
      auto const& extent = shape_of(v).extent;
      bool known = true;
      checked elements = 1;
      for (std::size_t i = 0; i < 3; ++i) {
        Index const n = i == 0 ? bound.count : i == 1 ? bound.rows : bound.cols;
        value.extents[i] = planned_ ? std::to_string(n) : formula_text(*extent[i], sizes_);
        known = known && (planned_ || unknown_size(*extent[i], sizes_.value.data()) == nullptr);
        if (known) elements = elements * (planned_ ? n : evaluate(*extent[i], sizes_.value.data()));
      }
      std::size_t const buffer = v - table_->first_buffer();
      if (v < list_.leaves && known) {
        value.bytes = static_cast<Index>(checked_bytes(elements, element_of(v)));
      } else if (v >= table_->first_buffer() && v < table_->first_derived()) {
        if (known) value.bytes = static_cast<Index>(checked_bytes(elements, table_->buffers[buffer].element));
        if (planned_ && buffers[buffer].used && !buffers[buffer].outside)
          value.offset = static_cast<Index>(buffers[buffer].offset);
      } else if (v >= list_.leaves && v < 2 * list_.leaves && known) {
        value.bytes = static_cast<Index>(checked_bytes(elements, element_of(v - list_.leaves)));
      }
    }
  }
  [[nodiscard]] std::size_t element_of(std::size_t leaf) const {
    return elements_[static_cast<std::size_t>(table_->binding.leaves[leaf].kind_of)].bytes;
  }

  void add_call(std::size_t c, call_description const& description) {
    call_row const& row = table_->calls[c];
    auto const values = plan_->values_of_call(c);
    Listing::call& call = list_.calls.emplace_back();
    call.kernel = description.kernel();
    call.outputs.assign(values.begin(), values.begin() + row.outputs);
    call_words words(list_.values, values.data() + row.outputs, call);
    description.words(words);
    if (row.edge != repeat_edge::none) call.text += edge_text(row);
    for (int const n : call.outputs) {
      value_words const& w = words_of(index(n));
      if (w.what != value_words::by::operation) continue;
      call.makes.push_back(call_words::operation_name(w.name_source));
    }
    bool const is_group = call.text.starts_with(call.kernel + ": ");
    bool const is_one = call.makes.size() == 1 && (call.makes[0] == call.kernel || call.kernel == "map");
    if (is_group || is_one) call.makes.clear();
    call.accumulates = row.accumulate;
    call.macs = description.macs(sizes_);
    if (planned_) call.scratch = static_cast<Index>(plan_->scratch_bytes(c));
  }
  [[nodiscard]] std::string edge_text(call_row const& row) const {
    char const* const name = table_->repeats[index(row.repeat)].name;
    char const* const edge = row.edge == repeat_edge::begin            ? "begins"
                             : row.edge == repeat_edge::end            ? "ends"
                             : row.edge == repeat_edge::gradient_begin ? "gradient begins"
                             : row.edge == repeat_edge::gradient_end   ? "gradient ends"
                             : row.edge == repeat_edge::gradient_total ? "gradient total"
                                                                       : "total";
    return message(" [", name, ": ", edge, "]");
  }

  void add_sizes() {
    for (std::size_t s = 0; s < table_->binding.sizes.size(); ++s) {
      bool mentioned = false;
      auto const look = [&](shape_formula const& shape) {
        for (formula const* const f : shape.extent) mentioned = mentioned || mentions(*f, static_cast<Index>(s));
      };
      for (leaf_row const& l : table_->binding.leaves) look(l.shape);
      for (shape_formula const& shape : table_->shapes) look(shape);
      if (mentioned) list_.sizes.push_back({std::string(unqualified(table_->binding.sizes[s])), sizes_.value[s]});
    }
  }
  void add_checks() {
    auto const names = [](char const* source) { return unqualified(source); };
    for (check_row const& c : table_->binding.checks) {
      list_.checks.push_back(describe(*c.node, names) + ": " + describe(c.x_side, names) + " " + c.text + " " +
                             describe(c.y_side, names));
    }
  }

  program_table const* table_;
  Plan const* plan_;
  Binding const* binding_;
  bound_sizes sizes_;
  bool planned_;
  std::vector<value_origin> origins_;
  std::array<element_type, 3> elements_;
  std::span<value_words const> words_;
  std::span<value_name const> names_;
  std::vector<std::vector<int>> instances_;  // by original value: its instances
  std::vector<int> writer_;
  std::vector<std::string> text_;
  Listing list_;
};

template <class T>
inline constexpr bool can_be_listed = false;
}  // namespace detail

/// The calls of a program in their order, with operands and outputs. Sizes that were set by set() or the constructor
/// are numbers; other sizes are names, and offsets are unknown, until workspace_bytes() or a pass has planned the
/// program.
template <class Roots, class Backend, class Mode>
[[nodiscard]] Listing listing(Program<Roots, Backend, Mode> const& program, std::string_view name = "program") {
  using words = detail::program_words<Roots, Backend, Mode>;
  using scalar = typename Backend::scalar;
  auto const& unrolled = detail::program_access::unrolled(program);
  detail::listing_maker maker(unrolled.table(), detail::program_access::runner(program).memory_plan(),
                              detail::program_access::binding(program), program.state() >= program_stage::planned,
                              unrolled.origins(),
                              {detail::element_type_of<storage_t<kind::real, scalar>>(),
                               detail::element_type_of<storage_t<kind::accumulator, scalar>>(),
                               detail::element_type_of<storage_t<kind::integer, scalar>>()});
  std::string const backend = detail::call_words::operation_name(detail::name_source<Backend>());
  return maker.made(message(name, ", ", type_name<Mode>(), " on ", backend, " of ", type_name<scalar>()), words::values,
                    words::names, words::calls, [&](std::size_t c) { return unrolled.call_of(c); });
}
/// The listing of a module's program.
template <class M>
requires requires(M& m) {
  typename M::layer;
  m.program();
}
[[nodiscard]] Listing listing(M& m) {
  return listing(m.program(), detail::call_words::operation_name(detail::name_source<typename M::layer>()));
}
/// For the message.
template <class T>
Listing listing(T const&) {
  static_assert(detail::can_be_listed<T>, "headmix: listing() takes a Program, or a Module that is not const");
  return {};
}

}  // namespace headmix
