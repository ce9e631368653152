#pragma once
// SPDX-License-Identifier: MIT
// Any layer as a function of JAX on the CPU, with gradients, under jit: jax_layer, and headmix_jax.py beside this
// header. Handlers of XLA's foreign function interface, in headers of jaxlib (jax.ffi.include_dir()); not in the
// umbrella header.

#include <xla/ffi/api/ffi.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/backend/eigen_pool.hpp"
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

/// XLA's threads as an Executor; the thread of the call is one of them. Its concurrency is the machine's, which is
/// known when JAX asks for the bytes of the workspace, before there is a pool.
class jax_threads {
 public:
  explicit jax_threads(xla::ffi::ThreadPool* pool = nullptr) : pool_(pool), executor_(pool_) {}
  [[nodiscard]] Index concurrency() const { return executor_.concurrency(); }
  template <class F>
  void parallel_for(Index n, F&& f) {
    executor_.parallel_for(n, std::forward<F>(f));
  }

 private:
  struct adapter final : Eigen::ThreadPoolInterface {
    explicit adapter(xla::ffi::ThreadPool* p) : pool(p) {}
    void Schedule(std::function<void()> f) override { pool->Schedule(std::move(f)); }
    [[nodiscard]] int NumThreads() const override {
      return (std::max)(0, static_cast<int>(std::thread::hardware_concurrency()) - 1);
    }
    [[nodiscard]] int CurrentThreadId() const override { return -1; }
    xla::ffi::ThreadPool* pool;
  };
  adapter pool_;
  eigen_pool executor_;
};
static_assert(Executor<jax_threads>, "headmix: jax_threads is no Executor");

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
}  // namespace detail

/// A layer as a function of JAX:
///
///   using Layer = Moh<64, 16, TwoStage<1, 3, 1>, causal>;
///   HEADMIX_JAX_LAYER(moh, headmix::jax_layer<Layer>)        // headmix_jax.Layer("./libmine.so", "moh") in Python
///
/// x is [sequences, tokens, D], or [tokens, D]: one sequence, or those of `offsets`. The results are y, with the
/// leading extents of x, and the layer's losses, one number each, all with gradients. First derivatives only. Instead
/// of the option `padded`, use offsets. The forward pass returns its workspace as an array, which the backward pass
/// reads.
/// @tparam Scalars the supported scalar types: any of float, double and bfloat16; x has one of them
template <LayerPolicy L, class Scalars = type_list<float>>
class jax_layer {
  template <class Scalar>
  using backend = Cpu<Scalar, detail::jax_threads>;
  template <class Scalar>
  using program_of = typename Module<L, backend<Scalar>>::program_type;
  using leaves = typename program_of<nth<0, Scalars>>::leaves;
  using parameter_list = typename Module<L, Cpu<nth<0, Scalars>>>::parameter_leaves;
  using losses = detail::filter<typename L::losses, detail::has_gradient>;
  using y_type = std::remove_cvref_t<decltype(L::y)>;
  using arrays = std::vector<detail::jax_array>;
  template <class... Leaf>
  static constexpr bool has_context(type_list<Leaf...>*) {
    return (detail::is_context_of<L, Leaf> || ...);
  }
  static constexpr bool draws = detail::contains<leaves, random_key>;

 public:
  /// The handler of the forward pass. Operands: x, the parameters, then the optional ones; results: y, the
  /// losses, the workspace.
  static xla::ffi::Error forward(xla::ffi::ThreadPool pool, xla::ffi::RemainingArgs args, xla::ffi::RemainingRets rets,
                                 std::int64_t operands) {
    return status_of([&] {
      auto const in = detail::jax_arrays(args), out = detail::jax_arrays(rets);
      check_count("operands", 1 + names().size() + detail::jax_operands(operands).count(), in.size());
      check_count("results", 2 + std::size_t{losses::size}, out.size());
      with_scalar(in[0].type, [&]<class Scalar>() {
        detail::jax_threads threads(&pool);
        pass<Scalar> p(threads, in, detail::jax_operands(operands), {});
        p.place(out.back());
        auto const y = p.program.forward();
        auto const to = out[0].rows<Scalar>("y");
        if (to.rows != y.rows || to.cols != y.cols) {
          fail("y: expected [", y.rows, ", ", y.cols, "], found [", to.rows, ", ", to.cols, "]");
        }
        for (Index i = 0; i < y.rows; ++i) {
          for (Index j = 0; j < y.cols; ++j) to(i, j) = y(i, j);
        }
        std::size_t n = 1;
        for_each(losses{}, [&]<class Loss>() {
          *out[n].numbers<accumulator_t<Scalar>>("a loss") = p.program.get(Loss{})(0, 0);
          ++n;
        });
      });
    });
  }
  /// The handler of the backward pass. Operands: the workspace, dy, a number for each loss, then those of the forward
  /// pass; results: the workspace, which is its operand, and gradients of x, the parameters and the context.
  static xla::ffi::Error backward(xla::ffi::ThreadPool pool, xla::ffi::RemainingArgs args, xla::ffi::RemainingRets rets,
                                  std::int64_t operands) {
    return status_of([&] {
      auto const all = detail::jax_arrays(args), out = detail::jax_arrays(rets);
      std::size_t const first = 2 + std::size_t{losses::size};
      check_count("operands", first + 1 + names().size() + detail::jax_operands(operands).count(), all.size());
      check_count("results", 2 + names().size() + std::size_t{detail::jax_operands(operands).context}, out.size());
      if (out[0].data != all[0].data) fail("the workspace: expected one array as operand and result, found two");
      arrays const in(all.begin() + static_cast<std::ptrdiff_t>(first), all.end());
      with_scalar(in[0].type, [&]<class Scalar>() {
        detail::jax_threads threads(&pool);
        for (std::size_t i = 1; i < out.size(); ++i) {
          std::memset(out[i].data, 0, static_cast<std::size_t>(out[i].size()) * sizeof(Scalar));
        }
        pass<Scalar> p(threads, in, detail::jax_operands(operands), arrays(out.begin() + 1, out.end()));
        p.place(out[0]);
        p.program.resume();
        std::vector<double> weights;
        for (std::size_t i = 0; i < std::size_t{losses::size}; ++i) {
          weights.push_back(static_cast<double>(*all[2 + i].numbers<accumulator_t<Scalar>>("a loss's gradient")));
        }
        p.program.backward(all[1].rows<Scalar const>("dy"), std::span<double const>(weights));
      });
    });
  }
  /// Bytes of the workspace.
  /// @param type  XLA's number of the type of x
  /// @param extents  of all operands of the forward pass, of each its rank and its extents
  static std::int64_t workspace(int type, std::int64_t const* extents, std::int64_t operands) {
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
    std::int64_t bytes = 0;
    with_scalar(static_cast<xla::ffi::DataType>(type), [&]<class Scalar>() {
      detail::jax_threads threads;
      pass<Scalar> p(threads, in, further, {});
      bytes = static_cast<std::int64_t>(p.program.workspace_bytes());
    });
    return bytes;
  }
  /// Writes the initial parameters of a Module of this seed, in order.
  static void initialize(int type, std::uint64_t seed, void* const* to) {
    with_scalar(static_cast<xla::ffi::DataType>(type), [&]<class Scalar>() {
      Module<L, Cpu<Scalar>> const m(seed);
      for (auto const& p : m.parameters()) {
        std::memcpy(*to++, p.value.data, static_cast<std::size_t>(p.value.size()) * sizeof(Scalar));
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
    for (auto const& name : Module<L, Cpu<nth<0, Scalars>>>::loss_names()) {
      text += (first ? "\"" : ", \"") + std::string(name) + "\"";
      first = false;
    }
    text += std::string("], \"context\": ") + (has_context(static_cast<leaves*>(nullptr)) ? "true" : "false") +
            ", \"draws\": " + (draws ? "true" : "false");
    constexpr bool same = std::is_same_v<cols<y_type>, cols<typename L::x>>;
    static_assert(same || cols<y_type>::value != dynamic, "headmix: y has the width of x, or a static one");
    return text + ", \"width\": " + std::to_string(same ? 0 : cols<y_type>::value) + "}";
  }

  /// A program over the arrays of a call.
  template <class Scalar>
  struct pass {
    detail::jax_threads& threads;
    backend<Scalar> on{threads};
    program_of<Scalar> program{on};
    std::vector<std::vector<std::byte>> known;  ///< constants of the layer
    randomness random;
    std::vector<std::vector<Int>> stand_ins;  ///< for offsets that are not known yet: all rows in one sequence

    /// @param in  x, parameters, further operands
    /// @param gradients  of x, the parameters and the context, or none
    pass(detail::jax_threads& t, arrays const& in, detail::jax_operands further, arrays const& gradients) : threads(t) {
      auto next = in.begin() + static_cast<std::ptrdiff_t>(1 + names().size());
      detail::jax_array const* const context = further.context ? &*next++ : nullptr;
      detail::jax_array const* const offsets = further.offsets ? &*next++ : nullptr;
      detail::jax_array const* const context_offsets = further.context_offsets ? &*next++ : nullptr;
      if (further.key) set_key(*next);
      bind(in, context, gradients);
      program.bind_tokens(sequences(in[0], "x", offsets));
      if (context != nullptr) program.bind_context(sequences(*context, "context", context_offsets));
    }
    void place(detail::jax_array const& a) {
      program.bind_workspace({a.numbers<std::byte>("the workspace"), static_cast<std::size_t>(a.size())});
    }

   private:
    void set_key(detail::jax_array const& key) {
      if (key.size() < 2) fail("key: expected the data of a key, at least 2 numbers, found ", key.size());
      if (auto const* const word = key.numbers<std::uint32_t const>("key")) {
        std::uint64_t seed = 0;
        for (Index i = 0; i < key.size(); ++i) seed ^= std::uint64_t{word[i]} << (32 * (i % 2));
        random = randomness(seed);
      }
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
    void bind(arrays const& in, detail::jax_array const* context, arrays const& gradients) {
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
          program.bind(Leaf{}, {random.word, 1, 6});
        } else if constexpr (detail::is_known::value<Leaf>) {
          Index const n = program.template extent<rows<Leaf>>(), m = program.template extent<cols<Leaf>>();
          auto& bytes = known.emplace_back(static_cast<std::size_t>(n * m) * sizeof(number));
          view<number> const v(reinterpret_cast<number*>(bytes.data()), n, m);
          detail::write_known<Leaf>(v.data, n, m);
          program.bind(Leaf{}, v);
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
  XLA_FFI_DEFINE_HANDLER_SYMBOL(                                                                             \
      prefix##_forward, (__VA_ARGS__::forward),                                                              \
      xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>().RemainingArgs().RemainingRets().Attr<std::int64_t>(  \
          "operands"));                                                                                      \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(                                                                             \
      prefix##_backward, (__VA_ARGS__::backward),                                                            \
      xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>().RemainingArgs().RemainingRets().Attr<std::int64_t>(  \
          "operands"));                                                                                      \
  HEADMIX_C_API char const* prefix##_description() { return __VA_ARGS__::description().c_str(); }            \
  HEADMIX_C_API char const* prefix##_workspace(int type, std::int64_t const* extents, std::int64_t operands, \
                                               std::int64_t* bytes) {                                        \
    return headmix::detail::jax_error_of([&] { *bytes = __VA_ARGS__::workspace(type, extents, operands); }); \
  }                                                                                                          \
  HEADMIX_C_API char const* prefix##_initialize(int type, std::uint64_t seed, void* const* parameters) {     \
    return headmix::detail::jax_error_of([&] { __VA_ARGS__::initialize(type, seed, parameters); });          \
  }
