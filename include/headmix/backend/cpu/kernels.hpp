#pragma once
// SPDX-License-Identifier: MIT
// The list of the kernels of Cpu, functions of headmix::cpu_kernels, with the signatures that are compiled ahead: a
// kernel_table holds pointers to them. With HEADMIX_COMPILED, Cpu calls them through the table of a cpu_level, chosen
// at run time. Other instances, and all without HEADMIX_COMPILED, are compiled where they are used, for the instruction
// set of the unit.
//
// The CMake target headmix::compiled has the tables of all levels. Without CMake, compile all units with
// -DHEADMIX_COMPILED, one of them with
//
//   #define HEADMIX_IMPLEMENTATION
//   #include <headmix/headmix.hpp>
//   HEADMIX_COMPILE_REFERENCE
//   HEADMIX_COMPILE_MODULES(headmix::Reference<double>)
//   HEADMIX_COMPILE_MODULES(headmix::Cpu<float>)
//
// and the last line for double and headmix::bfloat16, too, and another one with
//
//   #include <headmix/backend/cpu/kernels.hpp>
//   HEADMIX_COMPILE_CPU(float)
//
// and such a line for each further scalar. That is the level `baseline`, the flags of the program. For higher levels,
// compile all units with the highest one, -DHEADMIX_HIGHEST_CPU_LEVEL=avx512 for instance, and this unit once more for
// each level, with -O2 or -O3, the flags of the program, and behind them
//
//   for AVX2          -DHEADMIX_CPU_LEVEL=avx2 -mavx2 -mfma
//   for AVX-512       -DHEADMIX_CPU_LEVEL=avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma
//
// and, with the line for headmix::bfloat16 alone, the flags of AVX-512 and
//
//   for dot products  -DHEADMIX_CPU_LEVEL=avx512_bf16 -mavx512bf16
//   for tiles         -DHEADMIX_CPU_LEVEL=amx -mavx512bf16 -mamx-tile -mamx-bf16 -mamx-int8
//
// Link these units in this order, behind the program's own units: of an inline function in several units the linker
// takes the first, which every machine must run. The flags of the program are in the name of Cpu (simd/isa.hpp): a unit
// with another -march than that of the modules does not link. Compile it without HEADMIX_COMPILED.

#include <array>
#include <concepts>
#include <span>
#include <string_view>

#include "headmix/backend/cpu/attention/attention.hpp"
#include "headmix/backend/cpu/attention/backward.hpp"
#include "headmix/backend/cpu/attention/bias.hpp"
#include "headmix/backend/cpu/attention/cached.hpp"
#include "headmix/backend/cpu/attention/operands.hpp"
#include "headmix/backend/cpu/experts/grouped_gemm.hpp"
#include "headmix/backend/cpu/experts/grouped_outer.hpp"
#include "headmix/backend/cpu/experts/grouped_sum.hpp"
#include "headmix/backend/cpu/experts/ternary_gemm.hpp"
#include "headmix/backend/cpu/products/gemm.hpp"
#include "headmix/backend/cpu/products/packed_b.hpp"
#include "headmix/backend/cpu/rows/map_reduce.hpp"
#include "headmix/backend/cpu/rows/quantize.hpp"
#include "headmix/backend/cpu/rows/sequence.hpp"
#include "headmix/backend/cpu/rows/softmax.hpp"
#include "headmix/backend/cpu_level.hpp"
#include "headmix/backend/reference.hpp"
#include "headmix/contract/mask.hpp"

/// KERNEL(name, signatures...) for every kernel headmix::cpu_kernels::name. The signatures are those of its instances
/// in a kernel_table<T>, none for a kernel that depends on the layer; W is accumulator_t<T>.
// clang-format off
#define HEADMIX_CPU_KERNELS(KERNEL)                                                                                   \
  KERNEL(map, void(executor_ref, view<T>, tree_number<W> const&, bool),                                               \
              void(executor_ref, view<T>, tree_numbers<W> const&, bool),                                              \
              void(executor_ref, view<T>, leaf const&, bool))                                                         \
  KERNEL(row_sum, void(executor_ref, view<T>, lazy<leaf> const&, bool))                                               \
  KERNEL(col_sum, void(executor_ref, view<T>, lazy<leaf> const&, bool))                                               \
  KERNEL(group_sum)                                                                                                   \
  KERNEL(gemm, product<T, T, T>, product<W, W, W>, product<W, T, T>, product<T, W, T>, product<T, T, W>)              \
  KERNEL(softmax, void(executor_ref, view<W>, view<W const>))                                                         \
  KERNEL(log_sum_exp, void(executor_ref, view<W>, view<W const>))                                                     \
  KERNEL(window_mean, void(executor_ref, view<T>, view<T const>, segments, Index, bool))                              \
  KERNEL(packed_b_size, Index(view<T const>))                                                                         \
  KERNEL(pack_b, void(executor_ref, view<T const>, W*))                                                               \
  KERNEL(grouped_gemm_scratch_bytes, Index(view<T const>, Index))                                                     \
  KERNEL(grouped_gemm, void(exact, executor_ref, view<T>, view<T const>, view<T const>, slots, slots, Index, bytes,   \
                            W*))                                                                                      \
  KERNEL(grouped_outer_scratch_bytes, Index(view<T>, Index, Index))                                                   \
  KERNEL(grouped_outer, void(exact, executor_ref, view<T>, view<T const>, view<T const>, slots, slots, Index, Index,  \
                             bool, bytes))                                                                            \
  KERNEL(grouped_sum_scratch_bytes, Index(view<T>, view<T const>, view<T const>, Index))                              \
  KERNEL(grouped_sum, void(exact, executor_ref, view<T>, view<T const>, view<T const>, slots, slots, Index, bool,     \
                           bytes, W*))                                                                                \
  KERNEL(absmax_int8, void(executor_ref, view<T>, view<T const>))                                                     \
  KERNEL(absmean_ternary, void(executor_ref, view<T>, view<T const>))                                                 \
  KERNEL(packed_gemm_scratch_bytes, Index(view<T const>, Index))                                                      \
  KERNEL(packed_gemm, void(executor_ref, view<T>, view<T const>, view<Int const>, slots, slots, Index, bytes))        \
  KERNEL(attention_scratch_bytes, Index(exact, forward const&, Index))                                                \
  KERNEL(attention, void(mask<full>, exact, executor_ref, forward const&, bytes),                                     \
                    void(mask<causal>, exact, executor_ref, forward const&, bytes))                                   \
  KERNEL(attention_gradient_scratch_bytes, Index(exact, backward const&, Index))                                      \
  KERNEL(attention_gradient, void(mask<full>, exact, executor_ref, backward const&, bytes),                           \
                             void(mask<causal>, exact, executor_ref, backward const&, bytes))                         \
  KERNEL(attention_bias_gradient_scratch_bytes, Index(backward const&, Index))                                        \
  KERNEL(attention_bias_gradient, void(mask<full>, executor_ref, view<T>, backward const&, bytes),                    \
                                  void(mask<causal>, executor_ref, view<T>, backward const&, bytes))                  \
  KERNEL(attention_operand_gradient_scratch_bytes)                                                                    \
  KERNEL(attention_operand_gradient)                                                                                  \
  KERNEL(cached_attention_scratch_bytes, Index(forward const&, attention_cache<T> const&, Index))                     \
  KERNEL(cached_attention, void(mask<full>, executor_ref, forward const&, attention_cache<T> const&, bytes),          \
                           void(mask<causal>, executor_ref, forward const&, attention_cache<T> const&, bytes))
// clang-format on

namespace headmix::cpu_kernels {

/// A pointer to the instance of a kernel with the signature F.
template <class F>
class kernel_pointer;
template <class R, class... A>
class kernel_pointer<R(A...)> {
 public:
  template <class Kernel>
  constexpr explicit kernel_pointer(Kernel) : call_(&run<Kernel>) {}
  R operator()(A... a) const { return call_(a...); }

 private:
  template <class Kernel>
  static R run(A... a) {
    return Kernel{}(a...);
  }
  R (*call_)(A...);
};

/// Instances of a kernel, called as overloads.
template <class... F>
struct kernel_instances : kernel_pointer<F>... {
  template <class Kernel>
  constexpr explicit kernel_instances(Kernel k) : kernel_pointer<F>(k)... {}
  using kernel_pointer<F>::operator()...;
};
template <>
struct kernel_instances<> {
  template <class Kernel>
  constexpr explicit kernel_instances(Kernel) {}
};
/// Equal signatures, as those of all products for T = W, are one instance.
template <class F, class... Same>
struct kernel_instances<F, F, Same...> : kernel_instances<F> {
  using kernel_instances<F>::kernel_instances;
};

/// The kernels of an instruction set for numbers of T. Scratch is in bytes, for a concurrency.
template <class T>
struct kernel_table {
 private:
  using W = accumulator_t<T>;
  using exact = products::exact;
  using leaf = tree_leaf<T, false, false>;
  using slots = view<Int const>;
  using bytes = std::span<std::byte>;
  using forward = attention_forward<T>;
  using backward = attention_backward<T>;
  template <class Y, class A, class B>
  using product = void(exact, executor_ref, view<Y>, view<A const>, view<B const>, bool);

 public:
#define HEADMIX_KERNEL(name, ...) kernel_instances<__VA_ARGS__> name;
  HEADMIX_CPU_KERNELS(HEADMIX_KERNEL)
#undef HEADMIX_KERNEL
};

/// The names of the kernels.
inline constexpr std::array kernel_names{
#define HEADMIX_KERNEL(name, ...) std::string_view(#name),
    HEADMIX_CPU_KERNELS(HEADMIX_KERNEL)
#undef HEADMIX_KERNEL
};

/// The kernels of a level, defined by its unit with HEADMIX_COMPILE_CPU.
template <class T, cpu_level Level>
[[nodiscard]] kernel_table<T> const& table_of();

}  // namespace headmix::cpu_kernels

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

/// The kernels of this unit as function objects.
namespace compiled_here {
#define HEADMIX_KERNEL(name, ...)          \
  struct name {                            \
    template <class... A>                  \
    auto operator()(A const&... a) const { \
      return cpu_kernels::name(a...);      \
    }                                      \
  };
HEADMIX_CPU_KERNELS(HEADMIX_KERNEL)
#undef HEADMIX_KERNEL
}  // namespace compiled_here

/// The table of this unit's kernels.
template <class T>
inline constexpr kernel_table<T> table_here{
#define HEADMIX_KERNEL(name, ...) decltype(kernel_table<T>::name)(compiled_here::name{}),
    HEADMIX_CPU_KERNELS(HEADMIX_KERNEL)
#undef HEADMIX_KERNEL
};

#ifdef HEADMIX_COMPILED

/// The kernels of a level up to default_cpu_level(), chosen at run time.
template <class T>
[[nodiscard]] kernel_table<T> const& table_of(cpu_level level) {
  constexpr cpu_level most = highest_compiled_level;
  if constexpr (most >= cpu_level::amx && std::same_as<T, bfloat16>)
    if (level == cpu_level::amx) return cpu_kernels::table_of<T, cpu_level::amx>();
  if constexpr (most >= cpu_level::avx512_bf16 && std::same_as<T, bfloat16>)
    if (level == cpu_level::avx512_bf16) return cpu_kernels::table_of<T, cpu_level::avx512_bf16>();
  if constexpr (most >= cpu_level::avx512)
    if (level >= cpu_level::avx512) return cpu_kernels::table_of<T, cpu_level::avx512>();
  if constexpr (most >= cpu_level::avx2)
    if (level == cpu_level::avx2) return cpu_kernels::table_of<T, cpu_level::avx2>();
  return cpu_kernels::table_of<T, cpu_level::baseline>();
}

/// The kernels of a Cpu: those of a level's table, and of this unit for signatures that the table lacks.
template <class T>
class kernels {
 public:
  explicit kernels(cpu_level level) : table_(&cpu_kernels::table_of<T>(level)), level_(level) {}
  [[nodiscard]] cpu_level level() const { return level_; }

#define HEADMIX_KERNEL(name, ...)                     \
  template <class... A>                               \
  auto name(A const&... a) const {                    \
    if constexpr (requires { table_->name(a...); }) { \
      return table_->name(a...);                      \
    } else {                                          \
      return cpu_kernels::name(a...);                 \
    }                                                 \
  }
  HEADMIX_CPU_KERNELS(HEADMIX_KERNEL)
#undef HEADMIX_KERNEL

 private:
  kernel_table<T> const* table_;
  cpu_level level_;
};

#else

/// The kernels of a Cpu without tables: those of this unit.
template <class T>
class kernels {
 public:
  explicit kernels(cpu_level) {}
  [[nodiscard]] static cpu_level level() { return cpu_level::baseline; }

#define HEADMIX_KERNEL(name, ...)   \
  template <class... A>             \
  static auto name(A const&... a) { \
    return cpu_kernels::name(a...); \
  }
  HEADMIX_CPU_KERNELS(HEADMIX_KERNEL)
#undef HEADMIX_KERNEL
};

#endif

namespace detail {

/// True if the unit's flags have the instructions of a level.
consteval bool compiled_for(cpu_level level) {
#if defined(HEADMIX_ISA_HAS_TILES)
  return level <= cpu_level::amx;
#elif defined(HEADMIX_ISA_HAS_DOTS)
  return level <= cpu_level::avx512_bf16;
#elif defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && \
    defined(__AVX512VNNI__) && defined(__FMA__)
  return level <= cpu_level::avx512;
#elif defined(__AVX2__) && defined(__FMA__)
  return level <= cpu_level::avx2;
#else
  return level == cpu_level::baseline;
#endif
}

}  // namespace detail

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA

// The kernels of Reference that units with HEADMIX_COMPILED do not instantiate.
// clang-format off
#define HEADMIX_REFERENCE_ATTENTION(PREFIX, T, MASK)                                                                \
  PREFIX template void Reference<T>::attention<MASK>(attention_forward<T> const&, std::span<std::byte>) const;      \
  PREFIX template void Reference<T>::attention_gradient<MASK>(attention_backward<T> const&, std::span<std::byte>)   \
      const;

#define HEADMIX_REFERENCE(PREFIX, T)                                                                                \
  namespace headmix {                                                                                               \
  PREFIX template void Reference<T>::gemm(view<T>, view<T const>, view<T const>, bool) const;                       \
  PREFIX template void Reference<T>::softmax(view<T>, view<T const>) const;                                         \
  PREFIX template void Reference<T>::log_sum_exp(view<T>, view<T const>) const;                                     \
  PREFIX template void Reference<T>::top_k(view<Int>, view<T const>) const;                                         \
  PREFIX template void Reference<T>::gather_cols(view<T>, view<T const>, view<Int const>) const;                    \
  PREFIX template void Reference<T>::scatter_cols(view<T>, view<T const>, view<Int const>) const;                   \
  PREFIX template void Reference<T>::one_hot(view<T>, view<Int const>) const;                                       \
  PREFIX template void Reference<T>::gather_rows(view<T>, view<T const>, view<Int const>) const;                    \
  PREFIX template void Reference<T>::scatter_rows(view<T>, view<T const>, view<Int const>, bool) const;             \
  PREFIX template void Reference<T>::window_mean(view<T>, view<T const>, segments, Index, bool) const;              \
  PREFIX template void Reference<T>::grouped_gemm(view<T>, view<T const>, view<T const>, view<Int const>,           \
                                                  view<Int const>, Index, std::span<std::byte>) const;              \
  PREFIX template void Reference<T>::grouped_sum(view<T>, view<T const>, view<T const>, view<Int const>,            \
                                                 view<Int const>, Index, bool, std::span<std::byte>) const;         \
  PREFIX template void Reference<T>::grouped_outer(view<T>, view<T const>, view<T const>, view<Int const>,          \
                                                   view<Int const>, Index, Index, bool, std::span<std::byte>) const;\
  PREFIX template void Reference<T>::rotary(view<T>, view<T const>, view<accumulator_t<T> const>, row_positions,    \
                                            Index, rotation) const;                                                 \
  HEADMIX_REFERENCE_ATTENTION(PREFIX, T, full)                                                                      \
  HEADMIX_REFERENCE_ATTENTION(PREFIX, T, causal)                                                                    \
  }
// clang-format on

#define HEADMIX_REFERENCES(PREFIX)  \
  HEADMIX_REFERENCE(PREFIX, float)  \
  HEADMIX_REFERENCE(PREFIX, double) \
  HEADMIX_REFERENCE(PREFIX, headmix::bfloat16)

#ifdef HEADMIX_COMPILED
HEADMIX_REFERENCES(extern)
#endif

/// At namespace scope of one unit: the kernels of Reference, for units with HEADMIX_COMPILED.
#define HEADMIX_COMPILE_REFERENCE HEADMIX_REFERENCES()

#ifndef HEADMIX_CPU_LEVEL
#define HEADMIX_CPU_LEVEL baseline  // the level of the unit
#endif

static_assert(headmix::cpu_kernels::detail::compiled_for(headmix::cpu_level::HEADMIX_CPU_LEVEL),
              "headmix: this unit needs the flags of its HEADMIX_CPU_LEVEL: see backend/cpu/kernels.hpp");

/// At namespace scope of one unit for each level: the kernels of Cpu<T>, for units with HEADMIX_COMPILED.
#define HEADMIX_COMPILE_CPU(T)                                                 \
  template <>                                                                  \
  headmix::cpu_kernels::kernel_table<T> const&                                 \
  headmix::cpu_kernels::table_of<T, headmix::cpu_level::HEADMIX_CPU_LEVEL>() { \
    return headmix::cpu_kernels::table_here<T>;                                \
  }
