// SPDX-License-Identifier: MIT
// Mixtures of published models, loaded from files with their names and shapes, and errors of files and tables.

#include <doctest/doctest.h>

#include "files.hpp"
#include "headmix/layer/mh_moe.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/layer/smoe.hpp"
#include "named.hpp"

using namespace headmix;
using namespace headmix::test;
using doctest::Contains;

TEST_CASE("names: the mixture of MH-MoE's code, a tensor for each expert") {
  NamedFile f;
  f.add("multi_heads.weight", {6, 6}, 0.5, 0.7);
  f.add("multi_heads.bias", {6}, 0.1, 1.1);
  f.add("gate.wg.weight", {4, 2}, 1, 1.9);
  f.add("out_proj.weight", {6, 6}, 0.5, 1.3);
  f.add("out_proj.bias", {6}, 0.1, 1.7);
  for (auto const& [name, out, in, s] : {std::tuple("fc1", 5, 2, 0.9), {"fc3", 5, 2, 1.2}, {"fc2", 2, 5, 1.5}}) {
    for (std::size_t e = 0; e < 4; ++e) {
      auto const all = sines(40, s);
      f.add(message("experts.", e, ".", name, ".weight"), {out, in},
            std::vector<double>(all.begin() + static_cast<std::ptrdiff_t>(e * 10),
                                all.begin() + static_cast<std::ptrdiff_t>(e * 10 + 10)));
    }
  }
  using L =
      MhMoe<6, 3, SoftmaxTopK<4, 2, gating::raw, loss::first_choice_balance>, FeedForward<5>, head_bias, merge_bias>;
  Loaded<L> m(1);
  load(m, f.tensors, "f", published::mh_moe());
  auto const x = sines(24, 2.3);
  is_published(m.forward({x.data(), 4, 6}), {.1050749938, -.0241852909, -.0983422706, .0474208628}, .2026012900,
               .1915562229);
  Folder const folder;
  save(folder / "a", m, published::mh_moe());
  CHECK(same(Safetensors::read(folder / "a").tensors(), f.tensors));
  // One surplus expert is left over; a missing one is named.
  f.add("experts.4.fc1.weight", {5, 2}, 1, 1);
  CHECK_THROWS_WITH_AS(
      load(m, f.tensors, "f", published::mh_moe()),
      Contains("f: \"experts.4.fc1.weight\", which is for W_up: expected a tensor that the module needs"), Error);
  f.tensors.erase("experts.4.fc1.weight");
  f.tensors.erase("experts.2.fc1.weight");
  CHECK_THROWS_WITH_AS(load(m, f.tensors, "f", published::mh_moe()),
                       Contains("f: \"experts.2.fc1.weight\" for W_up: expected F64 [5, 2], found no such tensor"),
                       Error);
}

TEST_CASE("names: two matrices in one tensor for each expert are saved and loaded") {
  using L = Smoe<4, SoftmaxTopK<3, 2>, FeedForward<5>>;
  Module<L, Reference<double>> from(1), to(2);
  TensorNames const names{{"W_g", "g"}, {"W_gate W_up", "experts.*.gate_up"}, {"W_down", "experts.*.down"}};
  Folder const folder;
  save(folder / "a", from, names);
  CHECK(Safetensors::read(folder / "a").tensors().at("experts.2.gate_up").shape == std::vector<Index>{10, 4});
  load(to, folder / "a", names);
  for (std::size_t i = 0; i < from.parameters().size(); ++i) {
    auto const a = from.parameters()[i].value, b = to.parameters()[i].value;
    CHECK(std::equal(a.data, a.data + a.size(), b.data));
  }
}

TEST_CASE("names: the feed-forward mixture of JetMoE, two matrices in one") {
  NamedFile f;
  auto const &router = f.add("mlp.router.layer.weight", {3, 4}, 1, 0.7),
             &in = f.add("mlp.input_linear.weight", {3, 10, 4}, 0.5, 1.1),
             &out = f.add("mlp.output_linear.weight", {3, 4, 5}, 0.5, 1.3), &bias = f.add("mlp.bias", {4}, 0.5, 1.7);
  Loaded<Smoe<4, SoftmaxTopK<3, 2, gating::renormalized>, FeedForward<5>, output_bias>> m(1);
  load(m, f.tensors, "f", published::jetmoe_feed_forward().below("mlp."));
  auto const x = sines(6 * 4, 2.3), logits = linear(x, router.data(), 3, 4);
  std::vector<double> expected(6 * 4);
  for (std::size_t e = 0; e < 3; ++e) {
    auto const h = linear(x, in.data() + e * 40, 10, 4);
    std::vector<double> hidden(6 * 5);
    for (std::size_t t = 0; t < 6; ++t) {
      for (std::size_t i = 0; i < 5; ++i)
        hidden[t * 5 + i] = h[t * 10 + i] / (1 + std::exp(-h[t * 10 + i])) * h[t * 10 + 5 + i];
    }
    auto const y = linear(hidden, out.data() + e * 20, 4, 5);
    for (std::size_t t = 0; t < 6; ++t) {
      double const* const z = logits.data() + t * 3;
      double const least = std::min({z[0], z[1], z[2]}), sum = std::exp(z[0]) + std::exp(z[1]) + std::exp(z[2]);
      double const gate = z[e] > least ? std::exp(z[e]) / (sum - std::exp(least)) : 0;
      for (std::size_t j = 0; j < 4; ++j) expected[t * 4 + j] += gate * y[t * 4 + j] + (e == 0 ? bias[j] : 0);
    }
  }
  agree(m.forward({x.data(), 6, 4}), expected);

  // Writing restores the file.
  Folder const folder;
  save(folder / "a", m, published::jetmoe_feed_forward().below("mlp."));
  CHECK(same(Safetensors::read(folder / "a").tensors(), f.tensors));
}

namespace {
using Attention = MultiHead<2, 2, 2, causal, output_bias>;

/// A file for this layer, with names of no framework.
struct Small {
  NamedFile f;
  Module<Attention, Reference<float>, inference> m{1};
  TensorNames names{{"W_q W_k W_v", "qkv"}, {"W_o", "out"}, {"b_o", "bias"}};

  Small() {
    f.add("qkv", {12, 2}, 1, 0.7);
    f.add("out", {2, 4}, 1, 0.9);
    f.add("bias", {2}, 1, 1.1);
  }
  [[nodiscard]] std::vector<float> values() const {
    std::vector<float> all;
    for (auto const& p : m.parameters()) all.insert(all.end(), p.value.data, p.value.data + p.value.size());
    return all;
  }
  void refused(std::string const& error) { refused(names, error); }
  void refused(TensorNames const& by, std::string const& error, load_options const& options = {}) {
    auto const before = values();
    CHECK_THROWS_WITH_AS(load(m, f.tensors, "f", by, options), Contains(error.c_str()), Error);
    CHECK(values() == before);
  }
};
}  // namespace

TEST_CASE("names: what is wrong is named, and nothing changes") {
  Small s;
  SUBCASE("right") {
    load(s.m, s.f.tensors, "f", s.names);
    CHECK(s.m.get<Attention::W_v>().value(1, 3) == static_cast<float>(s.f.values["qkv"][23]));
    CHECK(s.m.get<Attention::W_k>().value(0, 1) == static_cast<float>(s.f.values["qkv"][10]));
  }
  SUBCASE("missing tensor") {
    s.f.tensors.erase("bias");
    s.refused("f: parameter b_o F32 [2]: expected tensor \"bias\", found none; the file has \"out\", \"qkv\"");
    load(s.m, s.f.tensors, "f", s.names.keeping("b_x b_o"));
  }
  SUBCASE("a parameter that the table does not have") {
    s.refused({{"W_q W_k W_v", "qkv"}, {"b_o", "bias"}},
              "f: parameter W_o F32 [4, 2]: expected tensor in the table of names, found none");
  }
  SUBCASE("a misspelt parameter") {
    s.refused({{"W_q W_k W_v", "qkv"}, {"W_0", "out"}, {"b_o", "bias"}},
              "f: parameter W_o F32 [4, 2]: expected tensor in the table of names, found none; the table names W_0, "
              "which the module lacks");
  }
  SUBCASE("a table below another layer") {
    Small deep;
    deep.f.tensors.clear();
    for (int layer = 0; layer < 5; ++layer) {
      auto const at = "layers." + std::to_string(layer) + ".";
      deep.f.add(at + "qkv", {12, 2}, 1, 0.7);
      deep.f.add(at + "bias", {2}, 1, 1.1);
      deep.f.add(at + "out", {2, 4}, 1, 0.9);
    }
    load(deep.m, deep.f.tensors, "f", deep.names.below("layers.4."));
    deep.refused(deep.names.below("layers.5."),
                 "f: parameter W_k F32 [2, 4]: expected tensor \"layers.5.qkv\", found none; the file has "
                 "\"layers.0.qkv\", \"layers.1.qkv\", \"layers.2.qkv\" and 2 more");
    deep.f.tensors.clear();
    deep.refused("found none; the file has no tensors");
  }
  SUBCASE("left over") {
    s.f.add("head.norm", {2}, 1, 1);
    s.refused("f: \"head.norm\": expected a tensor that the module needs, or one that is ignored, found F64 [2]");
    s.refused(s.names.ignoring("nor*m *norm.x"), "f: \"head.norm\": expected");
    load(s.m, s.f.tensors, "f", s.names.ignoring("x").ignoring("y head.*"));
  }
  SUBCASE("swapped shapes") {
    s.f.tensors["out"].shape = {4, 2};
    s.refused("f: \"out\" for W_o: expected F64 [2, 4], found F64 [4, 2]");
    load(s.m, s.f.tensors, "f", {{"W_q W_k W_v", "qkv"}, {"W_o", "out", tensor_name::in_out}, {"b_o", "bias"}});
    CHECK(s.m.get<Attention::W_o>().value(1, 0) == static_cast<float>(s.f.values["out"][2]));
  }
  SUBCASE("no floating-point numbers") {
    s.f.tensors["out"].type = dtype::i64;
    s.refused("f: \"out\" for W_o: expected F64, F32, BF16 or F16, found I64 [2, 4]");
  }
  SUBCASE("NaN") {
    s.f.values["qkv"][13] = std::nan("");
    s.refused("f: \"qkv\" for W_q W_k W_v: element 13: expected a finite number in the range of F32, found nan");
    load(s.m, s.f.tensors, "f", s.names, {.allow_non_finite = true});
    CHECK(std::isnan(s.m.get<Attention::W_k>().value(1, 2)));
  }
  SUBCASE("too large for the type") {
    s.f.values["bias"][1] = -1e39;
    s.refused("f: \"bias\" for b_o: element 1: expected a finite number in the range of F32, found -1e+39");
  }
  SUBCASE("two tensors for a parameter") {
    s.f.add("b", {2}, 1, 1);
    s.refused({{"W_q W_k W_v", "qkv"}, {"W_o", "out"}, {"b_o", "bias"}, {"b_o", "b"}},
              "f: parameter b_o: expected one tensor, found \"bias\" and \"b\"");
    s.refused(s.names.keeping("b_o").ignoring("b"),
              "f: parameter b_o: expected no tensor, since it is kept, found \"bias\"");
  }
  SUBCASE("a part that the module lacks, or that does not fit beside the others") {
    s.refused({{"W_q W_k W_x", "qkv"}}, "f: \"qkv\": expected parameters W_q W_k W_x, found no W_x in the module");
    s.refused({{"W_q W_o", "qkv"}},
              "expected parameters that differ in their columns, found W_q F32 [2, 4] and W_o F32 [4, 2]");
    s.refused({{"W_q W_k W_v", "qkv", tensor_name::out_in, tensor_name::whole, 3}},
              "f: \"qkv\": expected columns of W_q in 3 equal groups, found 4");
  }
}

TEST_CASE("names: queries, keys and values of each group side by side") {
  Small s;
  load(s.m, s.f.tensors, "f",
       {{"W_q W_k W_v", "qkv", tensor_name::out_in, tensor_name::whole, 2}, {"W_o", "out"}, {"b_o", "bias"}});
  auto const& qkv = s.f.values["qkv"];
  for (std::size_t head = 0; head < 2; ++head) {
    for (std::size_t j = 0; j < 2; ++j) {
      for (std::size_t i = 0; i < 2; ++i) {
        auto const at = [&](auto const& p) { return p.value(static_cast<Index>(i), static_cast<Index>(head * 2 + j)); };
        CHECK(at(s.m.get<Attention::W_q>()) == static_cast<float>(qkv[(head * 6 + j) * 2 + i]));
        CHECK(at(s.m.get<Attention::W_k>()) == static_cast<float>(qkv[(head * 6 + 2 + j) * 2 + i]));
        CHECK(at(s.m.get<Attention::W_v>()) == static_cast<float>(qkv[(head * 6 + 4 + j) * 2 + i]));
      }
    }
  }
}

TEST_CASE("names: numbers of every floating-point type") {
  Small s;
  auto const put = [&s](auto const& numbers, dtype type) {
    s.f.tensors["bias"] = {type, {2}, std::as_bytes(std::span(numbers))};
  };
  auto const is = [&s](float a, float b) {
    load(s.m, s.f.tensors, "f", s.names);
    auto const v = s.m.get<Attention::b_o>().value;
    CHECK(v.data[0] == a);
    CHECK(v.data[1] == b);
  };
  // 1.5, -2^-24 (subnormal), 65504, -0.1 rounded.
  std::uint16_t const half[] = {0x3E00, 0x8001}, half_2[] = {0x7BFF, 0xAE66}, infinite[] = {0x3C00, 0xFC00};
  put(half, dtype::f16);
  is(1.5f, -0x1p-24f);
  put(half_2, dtype::f16);
  is(65504, -0.0999755859375f);
  put(infinite, dtype::f16);
  s.refused("f: \"bias\" for b_o: element 1: expected a finite number in the range of F32, found -inf");
  std::uint16_t const brain[] = {0x3FC0, 0xC2F7};
  put(brain, dtype::bf16);
  is(1.5f, -123.5f);
  float const single[] = {0.1f, -3e38f};
  put(single, dtype::f32);
  is(0.1f, -3e38f);
  double const wide[] = {0.1, 1 + 0x1p-24 + 0x1p-40};
  put(wide, dtype::f64);
  is(0.1f, 1 + 0x1p-23f);
}

TEST_CASE("names: into bfloat16, and of a pattern") {
  std::vector<std::byte> to(4);
  double const wide[] = {1 + 0x1p-8, 1 + 0x1p-8 + 0x1p-20};
  tensor_view const from{dtype::f64, {2}, std::as_bytes(std::span(wide))};
  std::vector<Index> const columns{0, 1};
  CHECK(detail::copy_elements(to.data(), dtype::bf16, from, {0, 1, 2, columns}) == -1);
  CHECK(std::to_integer<int>(to[0]) == 0x80);  // to even
  CHECK(std::to_integer<int>(to[2]) == 0x81);
  for (auto const& [pattern, text, is_match] : {std::tuple("a*c", "abbc", true),
                                                {"*", "", true},
                                                {"a*", "ba", false},
                                                {"*.b.*", "x.a.b.c", true},
                                                {"a*a", "a", false}}) {
    CHECK(detail::matches(pattern, text) == is_match);
  }
}
