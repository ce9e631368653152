// SPDX-License-Identifier: MIT
// A checkpoint with the names and shapes of DiT's code, with MoH in its blocks, against loops over the file's numbers.

#include <filesystem>

#include "definition/definition.hpp"
#include "error_of.hpp"
#include "io/named.hpp"
#include "model.hpp"

namespace diffusion_names_test {

using namespace diffusion;
using namespace headmix::test;

namespace {

constexpr std::size_t d = width::value, hidden = 4 * d, blocks = 2, images = 2;
using numbers = std::vector<double>;

NamedFile dit_file() {
  NamedFile f;
  auto const linear_layer = [&f](std::string const& name, Index out, Index in, double s) {
    f.add(name + ".weight", {out, in}, 1 / std::sqrt(static_cast<double>(in)), s);
    f.add(name + ".bias", {out}, 0.3, s + 0.1);
  };
  f.add("pos_embed", {1, places, d}, 1, 1);
  f.add("x_embedder.proj.weight", {d, 1, patch, patch}, 0.5, 0.7);
  f.add("x_embedder.proj.bias", {d}, 0.5, 0.9);
  linear_layer("t_embedder.mlp.0", d, time_features, 1.1);
  linear_layer("t_embedder.mlp.2", d, d, 1.3);
  f.add("y_embedder.embedding_table.weight", {classes + 1, d}, 0.4, 1.7);
  for (std::size_t b = 0; b < blocks; ++b) {
    std::string const at = headmix::message("blocks.", b, ".");
    double const s = 1 + 0.017 * static_cast<double>(b);
    linear_layer(at + "adaLN_modulation.1", 6 * d, d, 1.9 * s);
    linear_layer(at + "attn.qkv", 3 * d, d, 2.1 * s);
    linear_layer(at + "attn.proj", d, d, 2.3 * s);
    f.add(at + "attn.wg.weight", {6, d}, 0.3, 2.9 * s);
    f.add(at + "attn.wg_0.weight", {2, d}, 0.3, 3.1 * s);
    f.add(at + "attn.wg_1.weight", {2, d}, 0.3, 3.7 * s);
    linear_layer(at + "mlp.fc1", hidden, d, 4.1 * s);
    linear_layer(at + "mlp.fc2", d, hidden, 4.3 * s);
  }
  linear_layer("final_layer.adaLN_modulation.1", 2 * d, d, 4.7);
  linear_layer("final_layer.linear", patch_values, d, 5.3);
  return f;
}

struct Loops {
  NamedFile const& f;

  [[nodiscard]] numbers apply(std::string const& name, numbers const& x) const {
    auto const& bias = f.values.at(name + ".bias");
    auto const& weight = f.values.at(name + ".weight");
    return linear(x, weight.data(), bias.size(), weight.size() / bias.size(), bias.data());
  }
  static numbers silu(numbers x) {
    for (double& a : x) a /= 1 + std::exp(-a);
    return x;
  }
  /// (x - mean) / deviation (1 + scale) + shift of each row; m has a row for each image.
  static numbers modulate(numbers x, numbers const& m, std::size_t parts, std::size_t shift) {
    for (std::size_t t = 0; t < x.size() / d; ++t) {
      double mean = 0, square = 0;
      for (std::size_t j = 0; j < d; ++j) mean += x[t * d + j] / d;
      for (std::size_t j = 0; j < d; ++j) square += std::pow(x[t * d + j] - mean, 2) / d;
      for (std::size_t j = 0; j < d; ++j) {
        double const* const of_image = m.data() + t / places * parts * d + j;
        x[t * d + j] =
            (x[t * d + j] - mean) / std::sqrt(square + 1e-6) * (1 + of_image[(shift + 1) * d]) + of_image[shift * d];
      }
    }
    return x;
  }
  static void add_gated(numbers& x, numbers const& m, std::size_t gate, numbers const& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += m[i / d / places * 6 * d + gate * d + i % d] * y[i];
  }
  /// The mixture of heads by its definition.
  [[nodiscard]] numbers heads_of(std::string const& at, numbers const& x) const {
    auto const transposed = [](double const* w, std::size_t out, std::size_t in) {
      numbers y(out * in);
      for (std::size_t i = 0; i < out * in; ++i) y[i % in * out + i / in] = w[i];
      return y;
    };
    auto const& qkv = f.values.at(at + "attn.qkv.weight");
    auto const& b = f.values.at(at + "attn.qkv.bias");
    definition::Arrays arrays{{"x", x},
                              {"W_q", transposed(qkv.data(), d, d)},
                              {"W_k", transposed(qkv.data() + d * d, d, d)},
                              {"W_v", transposed(qkv.data() + 2 * d * d, d, d)},
                              {"b_q", {b.begin(), b.begin() + d}},
                              {"b_k", {b.begin() + d, b.begin() + 2 * d}},
                              {"b_v", {b.begin() + 2 * d, b.end()}},
                              {"W_o", transposed(f.values.at(at + "attn.proj.weight").data(), d, d)},
                              {"b_o", f.values.at(at + "attn.proj.bias")},
                              {"W_r", transposed(f.values.at(at + "attn.wg.weight").data(), 6, d)},
                              {"W_h", transposed(f.values.at(at + "attn.wg_0.weight").data(), 2, d)},
                              {"W_s", transposed(f.values.at(at + "attn.wg_1.weight").data(), 2, d)}};
    definition::layer_options const options{.family = definition::family::moh,
                                            .width = d,
                                            .heads = heads,
                                            .head_dim = head_width,
                                            .query_bias = true,
                                            .key_bias = true,
                                            .value_bias = true,
                                            .output_bias = true,
                                            .router = definition::router_kind::two_stage,
                                            .experts = heads,
                                            .top_k = 4,
                                            .shared = 2,
                                            .routed = 6};
    definition::Values v;
    definition::Inputs in;
    std::map<std::string, definition::Row> rows;
    for (auto const& [name, values] : arrays) rows[name] = definition::Row(values.begin(), values.end());
    definition::detail::bind(options, rows, v, in);
    for (std::size_t b_ = 0; b_ < images; ++b_) {
      definition::Sequence s;
      for (Index t = 0; t < places; ++t) s.queries.push_back(static_cast<Index>(b_) * places + t);
      s.keys = s.queries;
      in.sequences.push_back(s);
    }
    numbers y;
    for (auto const& row : definition::results(options, v, in).y) {
      for (auto const& a : row) y.push_back(a.value);
    }
    return y;
  }
  [[nodiscard]] numbers network(numbers const& patches, numbers const& features, std::vector<Int> const& labels) const {
    numbers c = apply("t_embedder.mlp.2", silu(apply("t_embedder.mlp.0", features)));
    auto const& table = f.values.at("y_embedder.embedding_table.weight");
    for (std::size_t i = 0; i < c.size(); ++i) c[i] += table[static_cast<std::size_t>(labels[i / d]) * d + i % d];
    numbers x = apply("x_embedder.proj", patches);
    for (std::size_t i = 0; i < x.size(); ++i) {
      auto const place = static_cast<Index>(i / d) % places;
      x[i] += Dit<Mixed>::position::element(place, static_cast<Index>(i % d));
    }
    for (std::size_t b = 0; b < blocks; ++b) {
      std::string const at = headmix::message("blocks.", b, ".");
      numbers const m = apply(at + "adaLN_modulation.1", silu(c));
      add_gated(x, m, 2, heads_of(at, modulate(x, m, 6, 0)));
      numbers h = apply(at + "mlp.fc1", modulate(x, m, 6, 3));
      for (double& a : h) a *= 0.5 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (a + 0.044715 * a * a * a)));
      add_gated(x, m, 5, apply(at + "mlp.fc2", h));
    }
    return apply("final_layer.linear", modulate(x, apply("final_layer.adaLN_modulation.1", silu(c)), 2, 0));
  }
};

}  // namespace

TEST_CASE("DiT's names: MoH's diffusion transformer from a file") {
  NamedFile f = dit_file();
  using L = Dit<Mixed>;
  Module<L, Reference<double>, inference> m(1, {}, at<depth>(blocks));
  load(m, f.tensors, "f", published::dit());

  numbers const x = sines(images * pixels, 0.37), features = sines(images * time_features, 0.53);
  std::vector<Int> place(images * places), labels = {3, classes};
  for (std::size_t i = 0; i < place.size(); ++i) place[i] = static_cast<Int>(i % places);
  m.program().bind(L::place{}, {place.data(), images * places, 1});
  m.program().bind(L::time{}, {features.data(), images, time_features});
  m.program().bind(L::label{}, {labels.data(), images, 1});
  auto const y = m.forward({x.data(), images * places, patch_values}, uniform(images, places));
  auto const expected = Loops{f}.network(x, features, labels);
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) worst = std::max(worst, std::abs(y.data[i] - expected[i]));
  CHECK(worst < 1e-11);

  f.tensors.at("x_embedder.proj.weight").shape = {d, patch, 1, patch + 1};
  CHECK(says(error_of([&] { load(m, f.tensors, "f", published::dit()); }),
             "\"x_embedder.proj.weight\" for W_patch: expected F64 [64, 4], found F64 [64, 2, 1, 3]"));
}

}  // namespace diffusion_names_test
