#pragma once
// SPDX-License-Identifier: MIT
// Any layer as a function of JAX, with gradients, under jit: jax_layer, on the devices of jax.hpp and jax.cuh, and
// headmix_jax.py beside this header. Handlers of XLA's foreign function interface, in headers of jaxlib
// (jax.ffi.include_dir()).

#include <xla/ffi/api/ffi.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <exception>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "headmix/contract/lowered_tree.hpp"
#include "headmix/contract/memory.hpp"
#include "headmix/interop/c.h"
#include "headmix/layer/use.hpp"
#include "headmix/program/module.hpp"

namespace headmix {

namespace detail {

/// XLA's type of a scalar.
template <class T>
inline constexpr xla::ffi::DataType jax_type = xla::ffi::DataType::INVALID;
template <>
inline constexpr xla::ffi::DataType jax_type<float> = xla::ffi::DataType::F32;
template <>
inline constexpr xla::ffi::DataType jax_type<double> = xla::ffi::DataType::F64;
template <>
inline constexpr xla::ffi::DataType jax_type<bfloat16> = xla::ffi::DataType::BF16;
template <>
inline constexpr xla::ffi::DataType jax_type<Int> = xla::ffi::DataType::S32;
template <>
inline constexpr xla::ffi::DataType jax_type<std::uint32_t> = xla::ffi::DataType::U32;
template <>
inline constexpr xla::ffi::DataType jax_type<std::byte> = xla::ffi::DataType::U8;

/// XLA's name of a type: F32.
inline std::string jax_type_name(xla::ffi::DataType type) {
  std::ostringstream name;
  name << type;
  return name.str();
}

/// An array of JAX, row-major; without memory where only extents count.
struct jax_array {
  void* data = nullptr;
  xla::ffi::DataType type = xla::ffi::DataType::INVALID;
  std::vector<std::int64_t> extents;

  [[nodiscard]] Index size() const {
    Index n = 1;
    for (std::int64_t const e : extents) n *= e;
    return n;
  }
  /// The numbers, after a check of their type.
  template <class T>
  [[nodiscard]] T* numbers(std::string_view name) const {
    constexpr auto expected = jax_type<std::remove_const_t<T>>;
    if (type != expected) {
      fail(name, ": expected numbers of type ", jax_type_name(expected), ", found ", jax_type_name(type));
    }
    return static_cast<T*>(data);
  }
  /// [..., columns] as a matrix.
  template <class T>
  [[nodiscard]] view<T> rows(std::string_view name) const {
    if (extents.empty()) fail(name, ": expected at least 1 dimension, found 0");
    Index const columns = extents.back();
    Index n = 1;
    for (std::size_t i = 0; i + 1 < extents.size(); ++i) n *= extents[i];
    return {numbers<T>(name), n, columns};
  }
  /// [columns], [rows, columns] or [count, rows, columns].
  template <class T>
  [[nodiscard]] view<T> stack(std::string_view name) const {
    if (extents.size() != 3) {
      if (extents.empty() || extents.size() > 3) {
        fail(name, ": expected 1 to 3 dimensions, found ", extents.size());
      }
      return rows<T>(name);
    }
    return {numbers<T>(name), extents[0], extents[1], extents[2]};
  }
};
inline jax_array jax_array_of(xla::ffi::AnyBuffer const& b) {
  return {b.untyped_data(), b.element_type(), {b.dimensions().begin(), b.dimensions().end()}};
}
inline std::vector<jax_array> jax_arrays(xla::ffi::RemainingArgs const& args) {
  std::vector<jax_array> all;
  for (std::size_t i = 0; i < args.size(); ++i) all.push_back(jax_array_of(*args.get<xla::ffi::AnyBuffer>(i)));
  return all;
}
inline std::vector<jax_array> jax_arrays(xla::ffi::RemainingRets const& rets) {
  std::vector<jax_array> all;
  for (std::size_t i = 0; i < rets.size(); ++i) all.push_back(jax_array_of(**rets.get<xla::ffi::AnyBuffer>(i)));
  return all;
}

/// The optional operands of a call, in their order behind the parameters; bits of the handlers' attribute `operands`.
struct jax_operands {
  bool context, offsets, context_offsets, key;
  explicit jax_operands(std::int64_t bits)
      : context((bits & 1) != 0), offsets((bits & 2) != 0), context_offsets((bits & 4) != 0), key((bits & 8) != 0) {}
  [[nodiscard]] std::size_t count() const {
    return std::size_t{context} + std::size_t{offsets} + std::size_t{context_offsets} + std::size_t{key};
  }
};

/// Calls f; the text of an exception is kept until the thread's next call, and returned.
template <class F>
char const* jax_error_of(F f) noexcept {
#ifdef HEADMIX_NO_EXCEPTIONS
  f();
#else
  try {
    f();
  } catch (std::exception const& e) {
    thread_local char text[1024];
    std::strncpy(text, e.what(), sizeof text - 1);
    return text;
  }
#endif
  return nullptr;
}
/// The words of a `randomness` from the data of a key; without one, those of randomness::off().
struct jax_key_words {
  Int* words;
  std::uint32_t const* key;
  Index count;
  HEADMIX_HD void operator()(Index) const {
    std::uint32_t seed[2] = {};
    for (Index i = 0; i < count; ++i) seed[i % 2] ^= key[i];
    for (Index i = 0; i < 6; ++i) words[i] = i < 2 ? static_cast<Int>(seed[i]) : i == 5 && count > 0 ? 1 : 0;
  }
};
}  // namespace detail

struct jax_cpu;  // jax.hpp

/// A device of jax_layer: jax_cpu, jax_cuda (jax.cuh), or one of a backend of your own. A place holds the backend of a
/// pass; it is made from nothing for planning, and from the context that XLA decodes for a call.
template <class D, class Place = typename D::template place<float>>
concept JaxDevice = std::default_initializable<Place> && std::constructible_from<Place, typename D::call&> &&
    requires(Place place) {
  { D::platform } -> std::convertible_to<char const*>;  // XLA's name
  requires BackendPolicy<std::remove_cvref_t<decltype(place.backend)>>;
};

/// A layer as a function of JAX:
///
///   using Layer = Moh<64, 16, TwoStage<1, 3, 1>, causal>;
///   HEADMIX_JAX_LAYER(moh, headmix::jax_layer<Layer>)        // headmix_jax.Layer("./libmine.so", "moh") in Python
///
/// x is [sequences, tokens, D], or [tokens, D]: one sequence, or those of `offsets`. The results are y, with the
/// leading extents of x, and the layer's losses, one number each, all with gradients. First derivatives only. Instead
/// of the option `padded`, use offsets. The forward pass returns an array of bytes which the backward pass reads: the
/// words of the random key, the layer's constants and the kept part of the workspace. The rest of the workspace is a
/// further result of both passes, which nobody reads.
/// @tparam Scalars the supported scalar types: any of float, double and bfloat16; x has one of them
/// @tparam Device of the arrays
template <LayerPolicy L, class Scalars = type_list<float>, class Device = jax_cpu>
class jax_layer {
  static_assert(JaxDevice<Device>, "headmix: Device is jax_cpu (interop/jax.hpp) or jax_cuda (interop/jax.cuh)");
  template <class Scalar>
  using place_of = typename Device::template place<Scalar>;
  template <class Scalar>
  using module_of = Module<L, std::remove_cvref_t<decltype(std::declval<place_of<Scalar>&>().backend)>>;
  template <class Scalar>
  using program_of = typename module_of<Scalar>::program_type;
  using leaves = typename program_of<nth<0, Scalars>>::leaves;
  using parameter_list = typename module_of<nth<0, Scalars>>::parameter_leaves;
  using losses = detail::filter<typename L::losses, detail::has_gradient>;
  using y_type = std::remove_cvref_t<decltype(L::y)>;
  static constexpr bool keeps_width = std::is_same_v<cols<y_type>, cols<typename L::x>>;
  static_assert(keeps_width || cols<y_type>::value != dynamic, "headmix: y has the width of x, or a static one");
  using arrays = std::vector<detail::jax_array>;
  template <class... Leaf>
  static constexpr bool has_context(type_list<Leaf...>*) {
    return (detail::is_context_of<L, Leaf> || ...);
  }
  static constexpr bool draws = detail::contains<leaves, random_key>;

 public:
  /// The context of a call, of which the handlers are functions.
  using call = typename Device::call;
  /// The operands of both handlers.
  static auto binding() {
    return xla::ffi::Ffi::Bind().template Ctx<call>().RemainingArgs().RemainingRets().template Attr<std::int64_t>(
        "operands");
  }
  /// The handler of the forward pass. Operands: x, the parameters, then the optional ones; results: y, the losses, the
  /// kept bytes, the rest.
  static xla::ffi::Error forward(call context, xla::ffi::RemainingArgs args, xla::ffi::RemainingRets rets,
                                 std::int64_t operands) {
    return status_of([&] {
      auto const in = detail::jax_arrays(args), out = detail::jax_arrays(rets);
      check_count("operands", 1 + names().size() + detail::jax_operands(operands).count(), in.size());
      check_count("results", 3 + std::size_t{losses::size}, out.size());
      with_scalar(in[0].type, [&]<class Scalar>() {
        pass<Scalar> p(context, in, detail::jax_operands(operands), {}, out[out.size() - 2]);
        auto const y = out[0].rows<Scalar>("y");
        p.bind_result(y);
        p.bind_workspace(out.back());
        auto const found = p.program.forward();
        if (found.data != y.data) p.copy(y, found);
        std::size_t n = 1;
        for_each(losses{}, [&]<class Loss>() {
          using number = typename program_of<Scalar>::template type<Loss>;
          using given = accumulator_t<Scalar>;
          p.copy(view<given>(out[n].numbers<given>("a loss"), 1, 1), view<number const>(p.program.get(Loss{})));
          ++n;
        });
      });
    });
  }
  /// The handler of the backward pass. Operands: the kept bytes, dy, a number for each loss, then those of the forward
  /// pass; results: the rest, and gradients of x, the parameters and the context.
  static xla::ffi::Error backward(call context, xla::ffi::RemainingArgs args, xla::ffi::RemainingRets rets,
                                  std::int64_t operands) {
    return status_of([&] {
      auto const all = detail::jax_arrays(args), out = detail::jax_arrays(rets);
      std::size_t const first = 2 + std::size_t{losses::size};
      check_count("operands", first + 1 + names().size() + detail::jax_operands(operands).count(), all.size());
      check_count("results", 2 + names().size() + std::size_t{detail::jax_operands(operands).context}, out.size());
      arrays const in(all.begin() + static_cast<std::ptrdiff_t>(first), all.end());
      with_scalar(in[0].type, [&]<class Scalar>() {
        pass<Scalar> p(context, in, detail::jax_operands(operands), arrays(out.begin() + 1, out.end()), all[0]);
        auto const dy = all[1].rows<Scalar>("dy");
        p.bind_result(dy);  // a result that was not copied is not read: other memory stands in
        p.bind_workspace(out[0]);
        for (std::size_t i = 1; i < out.size(); ++i) {
          p.clear(view<Scalar>(out[i].numbers<Scalar>("a gradient"), 1, out[i].size()));
        }
        p.program.resume();
        using weight = accumulator_t<Scalar>;
        std::vector<view<weight const>> weights;
        for (std::size_t i = 0; i < std::size_t{losses::size}; ++i) {
          weights.emplace_back(all[2 + i].numbers<weight const>("a loss's gradient"), 1, 1);
        }
        p.program.backward(view<Scalar const>(dy), std::span<view<weight const> const>(weights));
      });
    });
  }
  /// Bytes of both arrays that the forward pass returns: what is kept, and the rest.
  /// @param type  XLA's number of the type of x
  /// @param extents  of all operands of the forward pass, of each its rank and its extents
  static void workspace(int type, std::int64_t const* extents, std::int64_t operands, std::int64_t* bytes) {
    arrays in;
    auto const further = detail::jax_operands(operands);
    std::size_t const numbers = 1 + names().size() + std::size_t{further.context};
    std::size_t const all = 1 + names().size() + further.count();
    for (std::size_t i = 0; i < all; ++i) {
      auto const rank = *extents++;
      auto const t = i < numbers                   ? static_cast<xla::ffi::DataType>(type)
                     : further.key && i + 1 == all ? detail::jax_type<std::uint32_t>
                                                   : detail::jax_type<Int>;
      in.push_back({nullptr, t, {extents, extents + rank}});
      extents += rank;
    }
    with_scalar(static_cast<xla::ffi::DataType>(type), [&]<class Scalar>() {
      pass<Scalar> p(in, further);
      auto const x = in[0].rows<Scalar>("x");
      alignas(alignment) std::byte stand_in[alignment];
      p.bind_result({reinterpret_cast<Scalar*>(stand_in), x.rows, keeps_width ? x.cols : cols<y_type>::value});
      std::size_t const all_bytes = p.program.workspace_bytes(), kept = p.program.kept_bytes();
      bytes[0] = static_cast<std::int64_t>(p.used + kept);
      bytes[1] = static_cast<std::int64_t>(all_bytes - kept);
    });
  }
  /// Writes the initial parameters of a Module of this seed, in order.
  static void initialize(int type, std::uint64_t seed, void* const* to) {
    with_scalar(static_cast<xla::ffi::DataType>(type), [&]<class Scalar>() {
      place_of<Scalar> place;
      module_of<Scalar> const m(seed, place.backend);
      for (auto const& p : m.parameters()) {
        download(place.backend, static_cast<Scalar*>(*to++), p.value.data, static_cast<std::size_t>(p.value.size()));
      }
    });
  }
  /// The layer as JSON: names and shapes of its parameters, names of its losses, its further inputs, and the width of y
  /// (0: that of x).
  static std::string const& description() {
    static std::string const text = describe();
    return text;
  }

 private:
  static std::vector<std::string> const& names() {
    static std::vector<std::string> const all = [] {
      std::vector<std::string> n;
      for_each(parameter_list{}, [&]<class P>() { n.emplace_back(type_name<P>()); });
      return n;
    }();
    return all;
  }
  static void check_count(char const* what, std::size_t expected, std::size_t found) {
    if (expected != found) fail(what, ": expected ", expected, ", found ", found);
  }
  template <class F>
  static xla::ffi::Error status_of(F f) {
    if (char const* const error = detail::jax_error_of(f)) return xla::ffi::Error::InvalidArgument(error);
    return xla::ffi::Error::Success();
  }
  template <class F>
  static void with_scalar(xla::ffi::DataType type, F f) {
    bool found = false;
    for_each(Scalars{}, [&]<class Scalar>() {
      if (detail::jax_type<Scalar> == type) found = true, f.template operator()<Scalar>();
    });
    if (!found)
      fail("x: expected numbers of a type that the layer was compiled for, found ", detail::jax_type_name(type));
  }

  static std::string describe() {
    std::string text = "{\"parameters\": [";
    for (std::size_t i = 0; i < names().size(); ++i) text += (i == 0 ? "\"" : ", \"") + names()[i] + "\"";
    text += "], \"shapes\": [";
    bool first = true;
    for_each(parameter_list{}, [&]<class P>() {
      auto const number = [](Index n) { return n == dynamic ? std::string("null") : std::to_string(n); };
      text += first ? "[" : ", [";
      if (count<P>::value != 1) text += number(count<P>::value) + ", ";
      text += number(rows<P>::value) + ", " + number(cols<P>::value) + "]";
      first = false;
    });
    text += "], \"losses\": [";
    first = true;
    for (auto const& name : module_of<nth<0, Scalars>>::loss_names()) {
      text += (first ? "\"" : ", \"") + std::string(name) + "\"";
      first = false;
    }
    text += std::string("], \"context\": ") + (has_context(static_cast<leaves*>(nullptr)) ? "true" : "false") +
            ", \"draws\": " + (draws ? "true" : "false");
    return text + ", \"width\": " + std::to_string(keeps_width ? 0 : cols<y_type>::value) + ", \"platform\": \"" +
           Device::platform + "\"}";
  }

  /// A program over the arrays of a call.
  template <class Scalar>
  struct pass {
    place_of<Scalar> place;
    program_of<Scalar> program{place.backend};
    detail::jax_array const* memory = nullptr;  ///< the kept bytes; null while the pass is planned
    std::size_t used = 0;                       ///< its bytes before those of the workspace
    bool resumes = false;                       ///< the kept bytes are those of a forward pass, and are not written
    std::vector<std::vector<Int>> stand_ins;    ///< for offsets that are not known yet: all rows in one sequence

    pass(arrays const& in, detail::jax_operands further) { bind_all(in, further, {}); }
    /// @param in  x, parameters, further operands
    /// @param gradients  of x, the parameters and the context, or none
    pass(call& context, arrays const& in, detail::jax_operands further, arrays const& gradients,
         detail::jax_array const& given)
        : place(context), memory(&given), resumes(!gradients.empty()) {
      bind_all(in, further, gradients);
    }
    void bind_workspace(detail::jax_array const& rest) {
      auto const bytes_of = [](detail::jax_array const& a) {
        return std::span(a.template numbers<std::byte>("the workspace"), static_cast<std::size_t>(a.size()));
      };
      program.bind_workspace(bytes_of(*memory).subspan(used), bytes_of(rest));
    }
    /// The memory of y, unless y is made in the workspace: a view, or what the backward pass reads.
    void bind_result(view<Scalar> y) {
      if constexpr (detail::is_reshaped<detail::memory_of<typename program_of<Scalar>::result>>) {
        if (!program.backward_reads_result()) program.bind_result(y);
      }
    }
    template <class T, class U>
    void copy(view<T> to, view<U const> from) {
      place.backend.map(to, tree_leaf<U, false, false>{from}, false);
    }
    void clear(view<Scalar> to) { place.backend.map(to, tree_number<accumulator_t<Scalar>>{0}, false); }

   private:
    /// The next n numbers of the memory; null while the pass is planned.
    template <class T>
    T* take(Index n) {
      std::size_t const at = used;
      used += aligned(static_cast<std::size_t>(n) * sizeof(T));
      if (memory == nullptr) return nullptr;
      if (used > static_cast<std::size_t>(memory->size())) {
        fail("the workspace: expected at least ", used, " bytes, found ", memory->size());
      }
      return reinterpret_cast<T*>(memory->template numbers<std::byte>("the workspace") + at);
    }
    void bind_all(arrays const& in, detail::jax_operands further, arrays const& gradients) {
      auto next = in.begin() + static_cast<std::ptrdiff_t>(1 + names().size());
      detail::jax_array const* const context = further.context ? &*next++ : nullptr;
      detail::jax_array const* const offsets = further.offsets ? &*next++ : nullptr;
      detail::jax_array const* const context_offsets = further.context_offsets ? &*next++ : nullptr;
      bind(in, context, gradients, further.key ? &*next : nullptr);
      program.bind_tokens(sequences(in[0], "x", offsets));
      if (context != nullptr) program.bind_context(sequences(*context, "context", context_offsets));
    }
    view<Int const> key_words(detail::jax_array const* key) {
      if (key != nullptr && key->size() < 2) {
        fail("key: expected the data of a key, at least 2 numbers, found ", key->size());
      }
      Int* const words = take<Int>(6);
      std::uint32_t const* const data = key == nullptr ? nullptr : key->numbers<std::uint32_t const>("key");
      Index const n = key == nullptr ? 0 : key->size();
      if (words != nullptr && !resumes) place.backend.for_each(1, detail::jax_key_words{words, data, n});
      return {words, 1, 6};
    }
    template <class Leaf, class T>
    view<T const> constant(Index n, Index m) {
      T* const to = take<T>(n * m);
      if (to != nullptr && !resumes) {
        std::vector<T> numbers(static_cast<std::size_t>(n * m));
        detail::write_known<Leaf>(numbers.data(), n, m);
        upload(place.backend, to, numbers.data(), numbers.size());
      }
      return {to, n, m};
    }
    segments sequences(detail::jax_array const& a, char const* name, detail::jax_array const* offsets) {
      Index const total = a.template rows<Scalar const>(name).rows;
      if (offsets == nullptr) {
        if (a.extents.size() != 2 && a.extents.size() != 3) {
          fail(name, ": expected 2 or 3 dimensions, found ", a.extents.size());
        }
        Index const n = a.extents.size() == 3 ? Index{a.extents[0]} : 1;
        return n == 0 ? uniform(1, 0) : uniform(n, total / n);
      }
      if (a.extents.size() != 2) fail(name, ": expected 2 dimensions beside offsets, found ", a.extents.size());
      if (offsets->extents.size() != 1 || offsets->size() < 2) {
        fail("offsets of ", name, ": expected a row of at least 2 numbers");
      }
      Int const* numbers = offsets->template numbers<Int const>("offsets");
      if (numbers == nullptr) {
        auto& all = stand_ins.emplace_back(static_cast<std::size_t>(offsets->size()), Int{0});
        all.back() = static_cast<Int>(total), numbers = all.data();
      }
      return ragged(numbers, offsets->size() - 1, total);
    }
    void bind(arrays const& in, detail::jax_array const* context, arrays const& gradients,
              detail::jax_array const* key) {
      auto const gradient = [&]<class T>(std::size_t n, view<T> of) {
        if (n < gradients.size()) of.data = gradients[n].template numbers<T>("a gradient");
        return n < gradients.size() ? of : view<T>();
      };
      for_each(leaves{}, [&]<class Leaf>() {
        using number = typename program_of<Scalar>::template type<Leaf>;
        auto const with = [&](view<number> value, std::size_t which) {
          program.bind(Leaf{}, value, gradient(which, value));
        };
        if constexpr (std::is_same_v<Leaf, typename L::x>) {
          with(in[0].template rows<number>("x"), 0);
        } else if constexpr (Parameter<Leaf>) {
          constexpr std::size_t which = detail::position_in<parameter_list, Leaf>::value;
          with(in[1 + which].template stack<number>(names()[which]), 1 + which);
        } else if constexpr (std::is_same_v<Leaf, random_key>) {
          program.bind(Leaf{}, key_words(key));
        } else if constexpr (detail::is_known::value<Leaf>) {
          Index const n = program.template extent<rows<Leaf>>(), m = program.template extent<cols<Leaf>>();
          program.bind(Leaf{}, constant<Leaf, number>(n, m));
        } else {
          static_assert(detail::is_context_of<L, Leaf>, "headmix: jax_layer does not know how to bind this leaf");
          if (context == nullptr) fail("context: expected an array, found none");
          with(context->template rows<number>("context"), 1 + names().size());
        }
      });
    }
  };
};

}  // namespace headmix

/// Exports the functions of a jax_layer, in one unit at global scope; the arguments behind the prefix are its type:
/// prefix_forward and prefix_backward, handlers of XLA, and those that headmix_jax.py calls.
#define HEADMIX_JAX_LAYER(prefix, ...)                                                                       \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(prefix##_forward, (__VA_ARGS__::forward), (__VA_ARGS__::binding()));         \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(prefix##_backward, (__VA_ARGS__::backward), (__VA_ARGS__::binding()));       \
  HEADMIX_C_API char const* prefix##_description() { return __VA_ARGS__::description().c_str(); }            \
  HEADMIX_C_API char const* prefix##_workspace(int type, std::int64_t const* extents, std::int64_t operands, \
                                               std::int64_t* bytes) {                                        \
    return headmix::detail::jax_error_of([&] { __VA_ARGS__::workspace(type, extents, operands, bytes); });   \
  }                                                                                                          \
  HEADMIX_C_API char const* prefix##_initialize(int type, std::uint64_t seed, void* const* parameters) {     \
    return headmix::detail::jax_error_of([&] { __VA_ARGS__::initialize(type, seed, parameters); });          \
  }
