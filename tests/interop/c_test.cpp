// SPDX-License-Identifier: MIT
// The C interface of a layer without losses and dynamic sizes, in double, on the calling thread; examples/c_interface
// has a layer with both, on threads.
#include "headmix/interop/c.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "headmix/layer/multi_head.hpp"

namespace c_test {

HEADMIX_C_DECLARE(heads, double)
namespace {
using Layer = headmix::MultiHead<8, 4, 2, headmix::causal>;
using Backend = headmix::Cpu<double>;
}  // namespace
HEADMIX_C_LAYER(heads, Layer, Backend)

namespace {
std::string error() { return heads_last_error(); }
}  // namespace

TEST_CASE("C interface: a layer, its parameters and passes are those of a module") {
  heads* layer = nullptr;
  REQUIRE(heads_create(&layer, 3, 1, nullptr, 0) == HEADMIX_OK);
  headmix::Module<Layer, Backend> m(3);
  CHECK((heads_input_width(layer) == 8 && heads_output_width(layer) == 8 && heads_loss_count(layer) == 0));
  REQUIRE(heads_parameter_count(layer) == m.parameters().size());
  std::vector<double> x(7 * 8), dy(7 * 8), y(7 * 8), dx(7 * 8);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = headmix::Random(1).normal(i);
    dy[i] = headmix::Random(2).normal(i);
  }
  std::int32_t const offsets[] = {0, 5, 7};
  CHECK(heads_forward(layer, x.data(), 7, 2, offsets, y.data()) == HEADMIX_OK);
  auto const expected = m.forward({x.data(), 7, 8}, headmix::ragged(offsets, 2));
  CHECK(y == std::vector<double>(expected.data, expected.data + 56));
  CHECK(heads_backward(layer, dy.data(), nullptr, 0, dx.data()) == HEADMIX_OK);
  CHECK(heads_backward(layer, dy.data(), nullptr, 0, nullptr) == HEADMIX_OK);
  m.backward({dy.data(), 7, 8});
  m.backward({dy.data(), 7, 8});
  CHECK(dx == std::vector<double>(m.input_gradient().data, m.input_gradient().data + 56));
  for (std::size_t i = 0; i < m.parameters().size(); ++i) {
    heads_parameter p;
    REQUIRE(heads_get_parameter(layer, i, &p) == HEADMIX_OK);
    auto const& q = m.parameters()[i];
    CHECK((p.name == q.name && p.count == q.value.count && p.rows == q.value.rows && p.cols == q.value.cols));
    auto const n = q.value.size();
    CHECK(std::vector<double>(p.value, p.value + n) == std::vector<double>(q.value.data, q.value.data + n));
    CHECK(std::vector<double>(p.gradient, p.gradient + n) == std::vector<double>(q.gradient.data, q.gradient.data + n));
  }
  CHECK(heads_zero_gradients(layer) == HEADMIX_OK);
  heads_parameter p;
  heads_get_parameter(layer, 0, &p);
  CHECK(p.gradient[0] == 0);
  heads_destroy(layer);
}

TEST_CASE("C interface: what is refused, and how") {
  heads* layer = nullptr;
  CHECK(heads_create(nullptr, 3, 1, nullptr, 0) == HEADMIX_BAD_INPUT);
  CHECK(error() == "headmix: layer: expected a pointer, found NULL");
  CHECK(heads_create(&layer, 3, 2, nullptr, 0) == HEADMIX_BAD_INPUT);
  CHECK(error() == "headmix: threads: this layer runs on the thread that calls it; expected 1, found 2");
  std::ptrdiff_t const size = 8;
  CHECK(heads_create(&layer, 3, 1, &size, 1) == HEADMIX_BAD_INPUT);
  CHECK((layer == nullptr && error() == "headmix: sizes: expected 0, found 1"));
  REQUIRE(heads_create(&layer, 3, 1, nullptr, 0) == HEADMIX_OK);
  double numbers[16] = {}, loss = 0;
  CHECK(heads_backward(layer, numbers, nullptr, 0, nullptr) == HEADMIX_BAD_INPUT);
  CHECK(heads_forward(layer, nullptr, 2, 1, nullptr, numbers) == HEADMIX_BAD_INPUT);
  CHECK(error() == "headmix: x: expected a pointer, found NULL");
  CHECK(heads_forward(layer, numbers, -1, 1, nullptr, numbers) == HEADMIX_BAD_INPUT);
  CHECK(error() == "headmix: tokens: expected at least 0, found -1");
  CHECK(heads_forward(layer, numbers, 2, 0, nullptr, numbers) == HEADMIX_BAD_INPUT);
  CHECK(error() == "headmix: sequences: expected at least 1, found 0");
  std::int32_t const offsets[] = {0, 3};
  CHECK(heads_forward(layer, numbers, 2, 1, offsets, numbers) == HEADMIX_BAD_INPUT);
  double y[16];
  CHECK(heads_forward(layer, numbers, 2, 1, nullptr, y) == HEADMIX_OK);
  double const weight = 1;
  CHECK(heads_backward(layer, numbers, &weight, 1, nullptr) == HEADMIX_BAD_INPUT);
  CHECK(error() == "headmix: loss_weights: expected 0 or one per loss, 0; found 1");
  CHECK(heads_loss(layer, 0, &loss) == HEADMIX_BAD_INPUT);
  CHECK(error() == "headmix: which: the layer has 0 losses, found number 0");
  heads_parameter p;
  CHECK(heads_get_parameter(layer, 99, &p) == HEADMIX_BAD_INPUT);
  CHECK(heads_run(
            layer, 0, 1, [](void*) { return HEADMIX_OK; }, nullptr) == HEADMIX_BAD_INPUT);
  CHECK(heads_run(layer, 0, 1, nullptr, nullptr) == HEADMIX_BAD_INPUT);
  CHECK(heads_forward(layer, numbers, std::numeric_limits<std::ptrdiff_t>::max(), 1, nullptr, y) != HEADMIX_OK);
  CHECK(heads_forward(layer, numbers, 2, 1, nullptr, y) == HEADMIX_OK);
  CHECK((heads_input_width(nullptr) == 0 && heads_parameter_count(nullptr) == 0));
  heads_destroy(nullptr);
  heads_destroy(layer);
}

TEST_CASE("C interface: exceptions become statuses") {
  using headmix::detail::c_status_of;
  CHECK(c_status_of([] { throw std::bad_alloc(); }) == HEADMIX_NO_MEMORY);
  CHECK(error() == "headmix: out of memory");
  CHECK(c_status_of([] { throw std::runtime_error("another"); }) == HEADMIX_FAILED);
  CHECK(error() == "another");
  CHECK(c_status_of([] { throw 1; }) == HEADMIX_FAILED);
  CHECK(c_status_of([] { throw headmix::Error(std::string(5000, 'a')); }) == HEADMIX_BAD_INPUT);
  CHECK(error().size() == 1023);
}

TEST_CASE("C interface: memory that is not aligned to its numbers") {
  heads* layer = nullptr;
  REQUIRE(heads_create(&layer, 3, 1, nullptr, 0) == HEADMIX_OK);
  alignas(8) unsigned char memory[600] = {};
  auto const at = [&](std::size_t bytes) { return reinterpret_cast<double*>(memory + bytes); };
  auto const refused = [](headmix_status status, char const* name) {
    return status == HEADMIX_BAD_INPUT &&
           error().find(std::string(name) + ": expected memory aligned to 8 bytes") != error().npos;
  };
  CHECK(refused(heads_forward(layer, at(4), 2, 1, nullptr, at(128)), "x"));
  CHECK(refused(heads_forward(layer, at(0), 2, 1, nullptr, at(129)), "y"));
  CHECK(heads_forward(layer, at(0), 2, 1, nullptr, at(128)) == HEADMIX_OK);
  CHECK(refused(heads_backward(layer, at(1), nullptr, 0, nullptr), "dy"));
  CHECK(refused(heads_backward(layer, at(0), nullptr, 0, at(260)), "dx"));
  CHECK(heads_backward(layer, at(0), nullptr, 0, at(256)) == HEADMIX_OK);
  heads_destroy(layer);
}

}  // namespace c_test
