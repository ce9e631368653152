#pragma once
// SPDX-License-Identifier: MIT
// Tensors of other libraries by DLPack, without a copy. Everything is a template over the structs DLTensor,
// DLManagedTensor and DLManagedTensorVersioned, so this header needs no dlpack.h, and works with yours (0.5 or newer).

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "headmix/core/checked.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix {

/// Concept: a DLTensor.
template <class D>
concept DlpackTensor = requires(D const& t) {
  t.data;
  t.device.device_type;
  t.ndim;
  t.dtype.lanes;
  t.shape;
  t.strides;
  t.byte_offset;
};
/// Concept: a DLManagedTensor or a DLManagedTensorVersioned.
template <class D>
concept DlpackManagedTensor = requires(D& m) {
  requires DlpackTensor<std::remove_cvref_t<decltype(m.dl_tensor)>>;
  m.deleter(&m);
};

/// The device of a tensor, numbered as DLDeviceType. Memory that both sides reach (3 and 11, pinned; 13, managed) is
/// accepted for either.
enum class dlpack_device { cpu = 1, cuda = 2 };

namespace detail {

struct dlpack_type {
  unsigned code, bits;
};
template <class T>
constexpr dlpack_type dlpack_type_of() {
  constexpr unsigned bits = 8 * sizeof(T);
  if constexpr (std::is_same_v<T, bfloat16>) {
    return {4, bits};
  } else {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>, "headmix: DLPack has no such numbers");
    return {std::is_floating_point_v<T> ? 2u : std::is_signed_v<T> ? 0u : 1u, bits};
  }
}
inline std::string dlpack_name(dlpack_type t, unsigned lanes) {
  constexpr char const* names[] = {"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
  std::string name =
      t.code < 7 ? message(names[t.code], t.bits) : message("type code ", t.code, " of ", t.bits, " bits");
  if (lanes != 1) name += message(" in ", lanes, " lanes");
  return name;
}
inline std::string dlpack_device_name(int type) {
  char const* const name = type == 1    ? " (CPU)"
                           : type == 2  ? " (CUDA)"
                           : type == 8  ? " (Metal)"
                           : type == 10 ? " (ROCm)"
                                        : "";
  return message("device type ", type, name);
}
constexpr bool dlpack_reachable(int type, dlpack_device on) {
  return type == static_cast<int>(on) || type == 3 || type == 11 || type == 13;
}

/// The extents and strides of a tensor, independent of the types of its members.
template <class Tensor>
struct dlpack_extents {
  Tensor const& t;
  char const* name;

  [[nodiscard]] Index rank() const { return static_cast<Index>(t.ndim); }
  [[nodiscard]] Index shape(Index i) const { return static_cast<Index>(t.shape[i]); }
  /// Without strides the elements are contiguous, in row-major order.
  [[nodiscard]] Index stride(Index i) const {
    if (t.strides != nullptr) return static_cast<Index>(t.strides[i]);
    auto n = checked(1);
    for (Index j = i + 1; j < rank(); ++j) n = n * shape(j);
    return n.value;
  }
  /// Merges dimensions first .. last - 1: returns the extent, and the stride in `step`.
  [[nodiscard]] Index folded(Index first, Index last, Index& step) const {
    auto n = checked(1);
    for (Index i = first; i < last; ++i) n = n * shape(i);
    Index inner = -1;
    for (Index i = last; n.value > 0 && i-- > first;) {
      if (shape(i) == 1) continue;
      Index const one = inner < 0 ? 0 : (checked(stride(inner)) * shape(inner)).value;
      if (inner >= 0 && stride(i) != one) {
        fail(name, ": dimensions ", first, " to ", last - 1, " are not one dimension of rows: expected a stride of ",
             one, " in dimension ", i, ", found ", stride(i), "; make the tensor contiguous");
      }
      if (inner < 0) step = stride(i);
      inner = i;
    }
    return n.value;
  }
};

/// Checks that do not depend on the form of the view; returns the first element.
template <class T, class Tensor>
T* dlpack_data(Tensor const& t, char const* name, dlpack_device on) {
  if (!dlpack_reachable(static_cast<int>(t.device.device_type), on)) {
    fail(name, ": expected a tensor on ", dlpack_device_name(static_cast<int>(on)), ", found one on ",
         dlpack_device_name(static_cast<int>(t.device.device_type)));
  }
  constexpr dlpack_type expected = dlpack_type_of<std::remove_const_t<T>>();
  dlpack_type const found{t.dtype.code, t.dtype.bits};
  if (found.code != expected.code || found.bits != expected.bits || t.dtype.lanes != 1) {
    fail(name, ": expected numbers of type ", dlpack_name(expected, 1), ", found ", dlpack_name(found, t.dtype.lanes));
  }
  bool empty = false;
  for (Index i = 0; i < static_cast<Index>(t.ndim); ++i) {
    if (t.shape[i] < 0) fail(name, ": expected extents of at least 0, found ", t.shape[i], " in dimension ", i);
    empty |= t.shape[i] == 0;
  }
  if (t.data == nullptr) {
    if (!empty) fail(name, ": expected a pointer to its numbers, found a null pointer");
    return nullptr;
  }
  auto* const p = static_cast<char*>(t.data) + t.byte_offset;
  if (!empty && reinterpret_cast<std::uintptr_t>(p) % alignof(T) != 0) {
    fail(name, ": expected numbers aligned to ", alignof(T), " bytes; they begin with byte_offset ", t.byte_offset);
  }
  return reinterpret_cast<T*>(p);
}

/// The tensor in a managed one, after checks of its version and its read-only flag.
template <class T, class D>
auto const& dlpack_tensor(D const& d, char const* name) {
  if constexpr (requires { d.dl_tensor; }) {
    if constexpr (requires { d.version.major; }) {
      if (d.version.major != 1) fail(name, ": expected a tensor of DLPack 1.x, found one of ", d.version.major, ".x");
      if (!std::is_const_v<T> && (d.flags & 1u) != 0) {
        fail(name, ": it is read-only; expected one to write to, or read it as numbers of const type");
      }
    }
    return d.dl_tensor;
  } else {
    return d;
  }
}

}  // namespace detail

/// The tensor's numbers as a matrix: the last dimension is the columns, all others are rows (one row, if there are
/// none). Any strides, also null ones, with rows at equal distances. Nothing is copied.
/// @tparam T float, double, bfloat16 or an integer, const for read-only access
/// @param tensor a DLTensor, DLManagedTensor or DLManagedTensorVersioned
/// @param name the tensor's name in errors
template <class T, class D>
requires(DlpackTensor<D> || DlpackManagedTensor<D>)
    [[nodiscard]] view<T> from_dlpack(D const& tensor, char const* name = "the tensor",
                                      dlpack_device on = dlpack_device::cpu) {
  auto const& t = detail::dlpack_tensor<T>(tensor, name);
  if (t.ndim < 1) fail(name, ": expected at least 1 dimension, found ", t.ndim);
  view<T> v;
  v.data = detail::dlpack_data<T>(t, name, on);
  detail::dlpack_extents<std::remove_cvref_t<decltype(t)>> const e{t, name};
  v.cols = e.shape(e.rank() - 1);
  v.col_stride = e.stride(e.rank() - 1);
  v.row_stride = v.cols;
  v.rows = e.folded(0, e.rank() - 1, v.row_stride);
  v.stack_stride = detail::extent_product(v.rows, v.row_stride < 0 ? v.cols : v.row_stride);
  static_cast<void>(detail::extent_product(v.rows, v.cols));
  return v;
}

/// A tensor of 3 dimensions as a stack of matrices, one per expert; of 2 dimensions as one matrix.
template <class T, class D>
requires(DlpackTensor<D> || DlpackManagedTensor<D>)
    [[nodiscard]] view<T> stack_from_dlpack(D const& tensor, char const* name = "the tensor",
                                            dlpack_device on = dlpack_device::cpu) {
  auto const& t = detail::dlpack_tensor<T>(tensor, name);
  if (t.ndim != 2 && t.ndim != 3) fail(name, ": expected 2 or 3 dimensions, found ", t.ndim);
  view<T> v;
  v.data = detail::dlpack_data<T>(t, name, on);
  detail::dlpack_extents<std::remove_cvref_t<decltype(t)>> const e{t, name};
  Index const r = e.rank();
  v.cols = e.shape(r - 1);
  v.rows = e.shape(r - 2);
  v.col_stride = e.stride(r - 1);
  v.row_stride = e.stride(r - 2);
  if (r == 3) v.count = e.shape(0);
  v.stack_stride = r == 3 ? e.stride(0) : detail::extent_product(v.rows, v.cols);
  static_cast<void>(detail::extent_product(v.count, detail::extent_product(v.rows, v.cols)));
  return v;
}

/// Calls the deleter of a managed tensor.
template <DlpackManagedTensor Managed>
struct dlpack_deleter {
  /// May be called once.
  void operator()(Managed* m) const noexcept {
    if (m->deleter != nullptr) m->deleter(m);
  }
};
/// Owns a managed tensor of any origin; release() hands it to a consumer.
template <DlpackManagedTensor Managed>
using dlpack_ptr = std::unique_ptr<Managed, dlpack_deleter<Managed>>;

/// A managed tensor of a view: [rows, cols], or [count, rows, cols] of a stack.
/// @tparam Managed DLManagedTensor or DLManagedTensorVersioned; only the latter has a read-only flag
/// @param owner kept until the consumer calls the deleter, e.g. the buffer of the view; without one the memory must
///              stay valid until then
template <DlpackManagedTensor Managed, class T, class Owner = std::nullptr_t>
[[nodiscard]] dlpack_ptr<Managed> to_dlpack(view<T> v, Owner owner = {}, dlpack_device on = dlpack_device::cpu,
                                            int device_id = 0) {
  constexpr bool versioned = requires(Managed & m) { m.version.major; };
  static_assert(versioned || !std::is_const_v<T>,
                "headmix: a DLManagedTensor cannot say that it is read-only; give a view of numbers that may be "
                "written, or take DLManagedTensorVersioned");
  using tensor_type = std::remove_cvref_t<decltype(std::declval<Managed&>().dl_tensor)>;
  using extent = std::remove_const_t<std::remove_pointer_t<decltype(tensor_type::shape)>>;  // const in PyTorch
  struct box {
    explicit box(Owner&& o) : owner(std::move(o)) {}
    Managed managed{};
    extent shape[3] = {}, strides[3] = {};
    Owner owner;
  };
  auto made = std::make_unique<box>(std::move(owner));
  Managed& m = made->managed;
  tensor_type& t = m.dl_tensor;
  Index const skipped = v.count == 1 ? 1 : 0;
  Index const shape[] = {v.count, v.rows, v.cols}, strides[] = {v.stack_stride, v.row_stride, v.col_stride};
  for (Index i = 0; i < 3; ++i) {
    made->shape[i] = static_cast<extent>(shape[i]);
    made->strides[i] = static_cast<extent>(strides[i]);
  }
  constexpr detail::dlpack_type type = detail::dlpack_type_of<std::remove_const_t<T>>();
  t.data = const_cast<std::remove_const_t<T>*>(v.data);
  t.device.device_type = static_cast<decltype(t.device.device_type)>(on);
  t.device.device_id = device_id;
  t.ndim = static_cast<decltype(t.ndim)>(3 - skipped);
  t.dtype.code = static_cast<decltype(t.dtype.code)>(type.code);
  t.dtype.bits = static_cast<decltype(t.dtype.bits)>(type.bits);
  t.dtype.lanes = 1;
  t.shape = made->shape + skipped;
  t.strides = made->strides + skipped;
  t.byte_offset = 0;
  if constexpr (versioned) {
    m.version.major = 1;
    m.flags = std::is_const_v<T> ? 1 : 0;
  }
  m.manager_ctx = made.get();
  m.deleter = [](Managed* self) { delete static_cast<box*>(self->manager_ctx); };
  return dlpack_ptr<Managed>(&made.release()->managed);
}

}  // namespace headmix
