// SPDX-License-Identifier: MIT
// DLPack by structs with the layouts of dlpack.h 0.6 and of 1.x, which are different types.
#include "headmix/interop/dlpack.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "../error_of.hpp"
#include "headmix/core/aligned_buffer.hpp"

namespace dlpack_test {

using namespace headmix;
using headmix::test::error_of;

namespace {

namespace v0_6 {
enum DLDeviceType { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLMetal = 8 };
struct DLDevice {
  DLDeviceType device_type;
  int device_id;
};
struct DLDataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int ndim;
  DLDataType dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};
}  // namespace v0_6
namespace v1 {
enum DLDeviceType : std::int32_t { kDLCPU = 1, kDLCUDA = 2 };
struct DLPackVersion {
  std::uint32_t major, minor;
};
struct DLDevice {
  DLDeviceType device_type;
  std::int32_t device_id;
};
struct DLDataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t const *shape, *strides;  // const in PyTorch's copy
  std::uint64_t byte_offset;
};
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};
}  // namespace v1

using Extents = std::vector<std::int64_t>;

v0_6::DLTensor tensor_of(float* data, Extents& shape, Extents* strides = nullptr) {
  v0_6::DLTensor t{};
  t.data = data;
  t.device.device_type = v0_6::kDLCPU;
  t.ndim = static_cast<int>(shape.size());
  t.dtype = {2, 32, 1};
  t.shape = shape.data();
  t.strides = strides ? strides->data() : nullptr;
  return t;
}

/// Counts its live objects.
struct alive_count {
  int* alive;
  explicit alive_count(int& n) : alive(&n) { ++n; }
  alive_count(alive_count&& other) noexcept : alive(std::exchange(other.alive, nullptr)) {}
  ~alive_count() {
    if (alive) --*alive;
  }
};

}  // namespace

TEST_CASE("DLPack in: leading dimensions are rows, null strides are contiguous") {
  std::vector<float> numbers(24);
  for (std::size_t i = 0; i < 24; ++i) numbers[i] = static_cast<float>(i);
  Extents shape{2, 3, 4};
  auto t = tensor_of(numbers.data(), shape);
  auto const v = from_dlpack<float>(t);
  CHECK((v.count == 1 && v.rows == 6 && v.cols == 4 && v.contiguous() && v(5, 3) == 23));
  auto const stack = stack_from_dlpack<float const>(t);
  CHECK((stack.count == 2 && stack.rows == 3 && stack.cols == 4 && stack[1](2, 3) == 23));
  t.byte_offset = 4;
  shape = {5, 1, 4};
  CHECK((from_dlpack<float>(t).rows == 5 && from_dlpack<float>(t)(0, 0) == 1));
  shape = {7};
  t.ndim = 1;
  CHECK((from_dlpack<float>(t).rows == 1 && from_dlpack<float>(t).cols == 7));
  shape = {2, 3, 1, 2};
  t = tensor_of(numbers.data() + 1, shape);
  CHECK((from_dlpack<float>(t).rows == 6 && from_dlpack<float>(t)(5, 1) == 12));
}

TEST_CASE("DLPack in: strides of any sign, extents of 1 with any stride") {
  std::vector<float> numbers(64);
  for (std::size_t i = 0; i < 64; ++i) numbers[i] = static_cast<float>(i);
  Extents shape{2, 3, 4}, strides{30, 10, 1};
  auto const v = from_dlpack<float>(tensor_of(numbers.data(), shape, &strides));
  CHECK((v.rows == 6 && v.row_stride == 10 && v(4, 2) == 42));
  strides = {1, 8, 2};  // rows at unequal distances
  CHECK(error_of([&] { (void)from_dlpack<float>(tensor_of(numbers.data(), shape, &strides), "x"); }) ==
        "headmix: x: dimensions 0 to 1 are not one dimension of rows: expected a stride of 24 in dimension 0, found 1; "
        "make the tensor contiguous");
  auto const stack = stack_from_dlpack<float>(tensor_of(numbers.data(), shape, &strides));
  CHECK(stack[1](2, 3) == 1 + 16 + 6);
  shape = {1, 3, 4};
  strides = {-77, -4, 1};
  auto const reversed = from_dlpack<float>(tensor_of(numbers.data() + 8, shape, &strides));
  CHECK((reversed.rows == 3 && reversed(2, 1) == 1));
  shape = {4, 3};
  strides = {1, 4};  // a transposed matrix
  CHECK(from_dlpack<float>(tensor_of(numbers.data(), shape, &strides)).transposed()(2, 3) == 11);
  shape = {2, 3, 4};
  strides = {0, 0, 1};  // one row, repeated
  CHECK(from_dlpack<float const>(tensor_of(numbers.data(), shape, &strides))(5, 3) == 3);
}

TEST_CASE("DLPack in: no elements") {
  for (Extents shape : {Extents{0, 4}, Extents{4, 0}, Extents{2, 0, 4}, Extents{0}}) {
    auto const v = from_dlpack<float>(tensor_of(nullptr, shape));
    CHECK((v.size() == 0 && v.cols == shape.back()));
  }
  Extents shape{3, 0, 4};
  CHECK(stack_from_dlpack<float>(tensor_of(nullptr, shape)).rows == 0);
}

TEST_CASE("DLPack in: what is refused, and how") {
  std::vector<float> numbers(24);
  Extents shape{6, 4};
  auto const refused = [&](auto change) {
    auto t = tensor_of(numbers.data(), shape);
    change(t);
    return error_of([&] { (void)from_dlpack<float>(t, "x"); });
  };
  CHECK(refused([](auto& t) { t.device.device_type = v0_6::kDLCUDA; }) ==
        "headmix: x: expected a tensor on device type 1 (CPU), found one on device type 2 (CUDA)");
  CHECK(refused([](auto& t) { t.device.device_type = v0_6::kDLCUDAHost; }).empty());
  CHECK(refused([](auto& t) {
          t.dtype = {2, 64, 1};
        }) == "headmix: x: expected numbers of type float32, found float64");
  CHECK(refused([](auto& t) {
          t.dtype = {4, 16, 1};
        }) == "headmix: x: expected numbers of type float32, found bfloat16");
  CHECK(refused([](auto& t) {
          t.dtype = {2, 32, 4};
        }) == "headmix: x: expected numbers of type float32, found float32 in 4 lanes");
  CHECK(refused([](auto& t) {
          t.dtype = {9, 8, 1};
        }) == "headmix: x: expected numbers of type float32, found type code 9 of 8 bits");
  CHECK(refused([](auto& t) { t.ndim = 0; }) == "headmix: x: expected at least 1 dimension, found 0");
  CHECK(refused([](auto& t) { t.data = nullptr; }) ==
        "headmix: x: expected a pointer to its numbers, found a null pointer");
  CHECK(refused([](auto& t) { t.byte_offset = 2; }) ==
        "headmix: x: expected numbers aligned to 4 bytes; they begin with byte_offset 2");
  CHECK(refused([](auto& t) { t.shape[0] = -6; }) ==
        "headmix: x: expected extents of at least 0, found -6 in dimension 0");
  shape = {Extents::value_type{1} << 40, Extents::value_type{1} << 40};
  CHECK(!refused([](auto&) {}).empty());
  shape = {2, 2, 2, 3};
  CHECK(error_of([&] { (void)stack_from_dlpack<float>(tensor_of(numbers.data(), shape), "W_q"); }) ==
        "headmix: W_q: expected 2 or 3 dimensions, found 4");
}

TEST_CASE("DLPack out and in again: the owner lives until the deleter is called") {
  int alive = 0;
  std::vector<double> numbers{1, 2, 3, 4, 5, 6};
  view<double> const v(numbers.data(), 2, 3);
  {
    auto m = to_dlpack<v0_6::DLManagedTensor>(v.transposed(), alive_count(alive));
    CHECK((alive == 1 && m->dl_tensor.ndim == 2 && m->dl_tensor.shape[0] == 3 && m->dl_tensor.strides[1] == 3));
    auto const back = from_dlpack<double>(*m);
    CHECK((back.data == numbers.data() && back.rows == 3 && back(2, 1) == 6));
    v0_6::DLManagedTensor* const given = m.release();  // to a C consumer
    CHECK(alive == 1);
    given->deleter(given);
    CHECK(alive == 0);
  }
  {
    auto const m = to_dlpack<v1::DLManagedTensorVersioned>(v, alive_count(alive));
    CHECK((alive == 1 && m->version.major == 1 && m->flags == 0));
  }
  CHECK(alive == 0);
  AlignedBuffer buffer(12 * sizeof(Int));
  view<Int> const stack(buffer.as<Int>(), 2, 2, 3);
  stack[1](1, 2) = 7;
  auto const m = to_dlpack<v1::DLManagedTensorVersioned>(view<Int const>(stack), std::move(buffer));
  CHECK((m->flags == 1 && m->dl_tensor.ndim == 3 && m->dl_tensor.dtype.code == 0 && m->dl_tensor.dtype.bits == 32));
  CHECK(stack_from_dlpack<Int const>(*m)[1](1, 2) == 7);
  CHECK(error_of([&] { (void)stack_from_dlpack<Int>(*m, "x"); }) ==
        "headmix: x: it is read-only; expected one to write to, or read it as numbers of const type");
  m->version.major = 2;
  CHECK(error_of([&] { (void)from_dlpack<Int const>(*m, "x"); }) ==
        "headmix: x: expected a tensor of DLPack 1.x, found one of 2.x");
  bfloat16 halves[2] = {bfloat16(1.f), bfloat16(2.f)};
  auto const half = to_dlpack<v0_6::DLManagedTensor>(view<bfloat16>(halves, 1, 2));
  CHECK((half->dl_tensor.dtype.code == 4 && from_dlpack<bfloat16>(*half)(0, 1) == bfloat16(2.f)));
}

TEST_CASE("DLPack out: an owner that cannot be moved loses nothing") {
  struct throws {
    alive_count inside;
    explicit throws(int& n) : inside(n) {}
    throws(throws&& other) : inside(std::move(other.inside)) {
      if (inside.alive && *inside.alive > 0 && --moves == 0) throw std::runtime_error("moved once too often");
    }
    int moves = 1;
  };
  int alive = 0;
  float number = 1;
  CHECK_THROWS_AS((void)to_dlpack<v0_6::DLManagedTensor>(view<float>(&number, 1, 1), throws(alive)),
                  std::runtime_error);
  CHECK(alive == 0);
}

TEST_CASE("DLPack in: extents and strides whose products no Index can hold") {
  float one = 0;
  std::int64_t const large = std::int64_t{1} << 32, most = (std::int64_t{1} << 62);
  Extents shape{large, large}, none{0, 0};
  auto t = tensor_of(&one, shape, &none);
  auto const refused = [](std::string const& error) {
    return error.find("sizes are too large: ") != std::string::npos;
  };
  CHECK(refused(error_of([&] { static_cast<void>(from_dlpack<float>(t)); })));
  CHECK(refused(error_of([&] { static_cast<void>(stack_from_dlpack<float>(t)); })));
  t.strides = nullptr;
  CHECK(refused(error_of([&] { static_cast<void>(from_dlpack<float>(t)); })));
  shape = {2, 4, 1};
  Extents far{1, most, 1};
  t = tensor_of(&one, shape, &far);
  CHECK(refused(error_of([&] { static_cast<void>(from_dlpack<float>(t)); })));
}

}  // namespace dlpack_test
