#pragma once
// SPDX-License-Identifier: MIT
// Parts of torch_layer.hpp: tensors of PyTorch as views, and a forward pass in the memory of a tensor. Needs LibTorch.

#include <ATen/autocast_mode.h>
#include <torch/types.h>
#include <torch/version.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "headmix/core/error.hpp"
#include "headmix/core/view.hpp"
#include "headmix/expr/extent.hpp"
#include "headmix/program/run/checks.hpp"

namespace headmix {

namespace detail {
/// PyTorch's type of a scalar.
template <class T>
inline constexpr at::ScalarType torch_type = c10::CppTypeToScalarType<T>::value;
template <>
inline constexpr at::ScalarType torch_type<bfloat16> = at::kBFloat16;
}  // namespace detail

/// A tensor of 1 (a row), 2 or 3 (a stack) dimensions as a view. The tensor must outlive the view.
/// @tparam T the scalar type, const for read-only access
/// @param name the tensor's name in errors
/// @param device  of the tensor; another one is an error
template <class T>
[[nodiscard]] view<T> from_torch(at::Tensor const& t, std::string_view name = "the tensor",
                                 at::Device device = at::kCPU) {
  using number = std::remove_const_t<T>;
  constexpr auto type = detail::torch_type<number>;
  if (!t.defined()) fail(name, ": expected a tensor, found an undefined one");
  if (t.scalar_type() != type || t.device() != device) {
    fail(name, ": expected numbers of type ", c10::toString(type), " on ", device.is_cpu() ? "the CPU" : device.str(),
         ", found ", c10::toString(t.scalar_type()), " on ", t.device().str());
  }
  if (t.dim() < 1 || t.dim() > 3) fail(name, ": expected 1 to 3 dimensions, found ", t.dim());
  view<T> v(static_cast<number*>(t.data_ptr()), t.dim() == 3 ? t.size(0) : 1, t.dim() == 1 ? 1 : t.size(-2),
            t.size(-1));
  if (t.dim() == 3) v.stack_stride = t.stride(0);
  if (t.dim() > 1) v.row_stride = t.stride(-2);
  v.col_stride = t.stride(-1);
  return v;
}

namespace detail {

/// The type of autocast on a device.
inline at::ScalarType torch_autocast_type(at::DeviceType device) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  return at::autocast::get_autocast_dtype(device);
#else
  return device == at::kCPU ? at::autocast::get_autocast_cpu_dtype() : at::autocast::get_autocast_gpu_dtype();
#endif
}

using torch_tensors = std::vector<at::Tensor>;
using torch_optional = c10::optional<at::Tensor>;

/// A forward pass, kept for its backward passes.
struct torch_pass {
  virtual ~torch_pass() = default;
  /// Gradients of x, the parameters and the context: those i with needed[i] != 0, in this order.
  virtual torch_tensors backward(at::TensorList dy, at::Tensor const& x, at::TensorList parameters,
                                 torch_optional const& context, at::IntArrayRef needed) = 0;
};
/// The content of the tensor that represents a pass, so that autograd and the compiler can keep it.
struct torch_state {
  torch_state const* self;
  void const* layer;
  std::unique_ptr<torch_pass> pass;

  static at::Tensor tensor_of(void const* layer, std::unique_ptr<torch_pass> pass) {
    auto* const s = new torch_state{nullptr, layer, std::move(pass)};
    s->self = s;
    return at::from_blob(
        s, {sizeof(torch_state)}, [](void* p) { delete static_cast<torch_state*>(p); }, at::kByte);
  }
  static torch_pass& in(void const* layer, at::Tensor const& t) {
    auto const* const s = t.scalar_type() == at::kByte && t.numel() == sizeof(torch_state)
                              ? static_cast<torch_state const*>(t.data_ptr())
                              : nullptr;
    if (s == nullptr || s->self != s || s->layer != layer) {
      fail("state: expected the tensor that the forward operator of this layer returned, found another one or a copy");
    }
    return *s->pass;
  }
};

/// x [B, T, D] or [T, D] as rows; a copy if they are not at equal distances.
inline at::Tensor torch_rows(at::Tensor const& x, char const* name) {
  if (x.dim() != 2 && x.dim() != 3)
    fail(name, ": expected [tokens, D] or [sequences, tokens, D], found ", x.dim(), " dimensions");
  return x.dim() == 2 ? x : x.reshape({-1, x.size(2)});
}
/// A copy of the offsets of x [tokens, D] on the device of x: the caller may overwrite them before the backward pass.
inline at::Tensor torch_offsets(at::Tensor const& offsets, at::Tensor const& x, char const* name) {
  if (x.dim() == 3) fail(name, ": expected [tokens, D] with offsets, found [sequences, tokens, D]");
  auto const v = from_torch<Int const>(offsets, "offsets", offsets.device());
  if (offsets.dim() != 1 || v.cols < 2) fail("offsets: expected a tensor [sequences + 1] of at least 2 numbers");
  at::Tensor const copy = offsets.clone(at::MemoryFormat::Contiguous);
  if (!copy.is_cpu() || x.is_cpu()) return copy.to(x.device());
  check_segments(name, ragged(copy.data_ptr<Int>(), v.cols - 1, x.size(0)), true);
  return copy.to(x.device());
}
inline segments torch_segments(at::Tensor const& x, at::Tensor const& offsets) {
  if (offsets.defined()) return ragged(offsets.data_ptr<Int>(), offsets.size(0) - 1, x.size(0));
  return x.dim() == 3 ? uniform(x.size(0), x.size(1)) : uniform(1, x.size(0));
}
/// The words of a `randomness` whose seed is the number in `random`; without one, those of randomness::off(). On a
/// device nothing waits, so that a graph draws anew.
inline at::Tensor torch_key(torch_optional const& random, at::Device device) {
  at::Tensor const words = at::zeros({6}, at::TensorOptions(device).dtype(at::kInt));
  if (random) {
    words.narrow(0, 0, 2).copy_(random->view(at::kInt));
    words.narrow(0, 5, 1).fill_(1);
  }
  return words;
}
inline at::Tensor torch_empty_like(at::Tensor const& x, Index cols) {
  if (cols == dynamic) return at::empty_like(x, x.options(), at::MemoryFormat::Contiguous);
  auto sizes = x.sym_sizes().vec();
  sizes.back() = cols;
  return at::empty_symint(sizes, x.options());
}

}  // namespace detail

}  // namespace headmix
