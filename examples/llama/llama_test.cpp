// SPDX-License-Identifier: MIT
// headmix-llama on a small model with the names of Hugging Face, in two files with an index: logits against loops in
// double, stages of training, files of the results, and errors.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "../child.hpp"
#include "compute.hpp"
#include "headmix/count/count.hpp"
#include "headmix/layer/papers.hpp"
#include "io/named.hpp"
#include "reader.hpp"
#include "tokens.hpp"
#include "trainer.hpp"

using namespace headmix;
using namespace headmix::test;

namespace {

constexpr std::size_t width = 32, heads = 4, kv = 2, head_dim = 16, hidden = 48, words = 40, layers = 4;
constexpr std::size_t shared = 2, chosen = 1;  // of MoH
constexpr double scale_factor = 8, low = 1, high = 4, trained = 64;

std::string const config_text = R"({
  "architectures": ["LlamaForCausalLM"],
  "attention_bias": false,
  "eos_token_id": [39, 41],
  "head_dim": 16,
  "hidden_act": "silu",
  "hidden_size": 32,
  "intermediate_size": 48,
  "max_position_embeddings": 64,
  "mlp_bias": false,
  "model_type": "llama",
  "num_attention_heads": 4,
  "num_hidden_layers": 4,
  "num_key_value_heads": 2,
  "pretraining_tp": 1,
  "rms_norm_eps": 1e-05,
  "rope_scaling": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                   "original_max_position_embeddings": 64, "rope_type": "llama3"},
  "rope_theta": 500000.0,
  "tie_word_embeddings": false,
  "torch_dtype": "float32",
  "vocab_size": 40
})";
/// config_text with the value of a field replaced.
std::string config_with(std::string const& name, std::string const& value) {
  std::string text = config_text;
  auto const at = text.find(':', text.find(quote(name))) + 2;
  auto const end = text[at] == '{' ? text.find('}', at) + 1 : text.find_first_of(",\n", at);
  return text.replace(at, end - at, value);
}

/// Tensors of bfloat16 numbers, and the same numbers in double.
struct Model {
  std::map<std::string, std::vector<double>> values;
  std::map<std::string, std::vector<bfloat16>> numbers;
  std::map<std::string, std::vector<Index>> shapes;

  void add(std::string const& name, std::vector<Index> shape, double mean, double deviation) {
    std::size_t n = 1;
    for (Index const extent : shape) n *= static_cast<std::size_t>(extent);
    Random const random(1, values.size());
    auto& v = values[name];
    auto& stored = numbers[name];
    for (std::size_t i = 0; i < n; ++i) {
      stored.emplace_back(static_cast<float>(mean + deviation * random.normal(i)));
      v.push_back(static_cast<double>(static_cast<float>(stored.back())));
    }
    shapes[name] = std::move(shape);
  }
  [[nodiscard]] TensorMap tensors() const {
    TensorMap all;
    for (auto const& [name, n] : numbers) all[name] = {dtype::bf16, shapes.at(name), std::as_bytes(std::span(n))};
    return all;
  }

  explicit Model(bool tied = false) {
    constexpr Index d = width, w = words, q = heads * head_dim, k = kv * head_dim, f = hidden;
    add("model.embed_tokens.weight", {w, d}, 0, 1);
    add("model.norm.weight", {d}, 1, 0.1);
    if (!tied) add("lm_head.weight", {w, d}, 0, 0.2);
    for (std::size_t b = 0; b < layers; ++b) {
      std::string const at = message("model.layers.", b, ".");
      add(at + "input_layernorm.weight", {d}, 1, 0.1);
      add(at + "post_attention_layernorm.weight", {d}, 1, 0.1);
      add(at + "self_attn.q_proj.weight", {q, d}, 0, 0.3);
      add(at + "self_attn.k_proj.weight", {k, d}, 0, 0.3);
      add(at + "self_attn.v_proj.weight", {k, d}, 0, 0.3);
      add(at + "self_attn.o_proj.weight", {d, q}, 0, 0.2);
      add(at + "mlp.gate_proj.weight", {f, d}, 0, 0.2);
      add(at + "mlp.up_proj.weight", {f, d}, 0, 0.2);
      add(at + "mlp.down_proj.weight", {d, f}, 0, 0.2);
    }
  }
};

void write_text(std::string const& path, std::string const& text) { std::ofstream(path, std::ios::binary) << text; }

/// The model in two files with an index; one tensor is F32.
void write_sharded(std::string const& folder, Model const& model, std::string const& config = config_text) {
  std::filesystem::create_directories(folder);
  write_text(folder + "/config.json", config);
  std::vector<float> gain;
  for (double const x : model.values.at("model.norm.weight")) gain.push_back(static_cast<float>(x));
  TensorMap first, second;
  std::string map;
  for (auto [name, t] : model.tensors()) {
    if (name == "model.norm.weight") t = {dtype::f32, t.shape, std::as_bytes(std::span(gain))};
    bool const in_first = has(name, "layers.0") || has(name, "layers.2") || has(name, "embed");
    (in_first ? first : second)[name] = t;
    map += message(map.empty() ? "" : ",", quote(name), ":\"model-0000", in_first ? 1 : 2, "-of-00002.safetensors\"");
  }
  write_safetensors(folder + "/model-00001-of-00002.safetensors", first);
  write_safetensors(folder + "/model-00002-of-00002.safetensors", second);
  write_text(folder + "/model.safetensors.index.json", "{\"metadata\":{},\"weight_map\":{" + map + "}}");
}

// ---- the equations of the model as loops over the file's numbers in double ----

/// Llama 3.1's rotary embedding of n heads.
void rotate(std::vector<double>& q, std::size_t n) {
  constexpr double pi = 3.14159265358979323846;
  for (std::size_t row = 0; row < q.size() / (n * head_dim); ++row) {
    for (std::size_t h = 0; h < n; ++h) {
      for (std::size_t i = 0; i < head_dim / 2; ++i) {
        double f = std::pow(500'000.0, -2.0 * static_cast<double>(i) / head_dim);
        double const length = 2 * pi / f;
        double const smooth = (trained / length - low) / (high - low);
        if (length > trained / low) {
          f /= scale_factor;
        } else if (length >= trained / high) {
          f = (1 - smooth) * f / scale_factor + smooth * f;
        }
        double const c = std::cos(static_cast<double>(row) * f), s = std::sin(static_cast<double>(row) * f);
        double &a = q[(row * n + h) * head_dim + i], &b = q[(row * n + h) * head_dim + i + head_dim / 2];
        double const a0 = a, b0 = b;
        a = a0 * c - b0 * s, b = b0 * c + a0 * s;
      }
    }
  }
}
/// For each row and head 1, or with MoH 0 for those routed heads whose queries are not among the longest.
std::vector<double> gates(std::vector<double> const& q, bool moh) {
  std::vector<double> g(q.size() / head_dim, 1);
  for (std::size_t row = 0; moh && row < g.size(); row += heads) {
    auto const squares = [&](std::size_t h) {
      double sum = 0;
      for (std::size_t i = 0; i < head_dim; ++i) sum += q[(row + h) * head_dim + i] * q[(row + h) * head_dim + i];
      return sum;
    };
    for (std::size_t h = shared; h < heads; ++h) {
      std::size_t longer = 0;
      for (std::size_t other = shared; other < heads; ++other) longer += squares(other) > squares(h) ? 1u : 0u;
      if (longer >= chosen) g[row + h] = 0;
    }
  }
  return g;
}
std::vector<double> expected_logits(Model const& m, std::vector<Int> const& ids, bool moh) {
  auto const of = [&m](std::string const& name) -> std::vector<double> const& { return m.values.at(name); };
  auto const add = [](std::vector<double>& x, std::vector<double> const& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  };
  std::vector<double> x;
  for (Int const id : ids) {
    auto const row = of("model.embed_tokens.weight").begin() + id * static_cast<Index>(width);
    x.insert(x.end(), row, row + width);
  }
  for (std::size_t b = 0; b < layers; ++b) {
    std::string const at = message("model.layers.", b, ".");
    auto const project = [&](std::vector<double> const& a, std::string const& name, std::size_t out, std::size_t in) {
      return linear(a, of(at + name).data(), out, in);
    };
    auto const normed = rms(x, of(at + "input_layernorm.weight"));
    auto q = project(normed, "self_attn.q_proj.weight", heads * head_dim, width);
    auto k = project(normed, "self_attn.k_proj.weight", kv * head_dim, width);
    auto const v = project(normed, "self_attn.v_proj.weight", kv * head_dim, width);
    auto const g = gates(q, moh);
    rotate(q, heads);
    rotate(k, kv);
    auto o = causal_attention(q, k, v, heads, kv, head_dim, [](std::size_t h) { return h * kv / heads; });
    for (std::size_t i = 0; i < o.size(); ++i) o[i] *= g[i / head_dim];
    add(x, project(o, "self_attn.o_proj.weight", width, heads * head_dim));
    auto const again = rms(x, of(at + "post_attention_layernorm.weight"));
    auto gate = project(again, "mlp.gate_proj.weight", hidden, width);
    auto const up = project(again, "mlp.up_proj.weight", hidden, width);
    for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    add(x, project(gate, "mlp.down_proj.weight", width, hidden));
  }
  bool const tied = m.values.count("lm_head.weight") == 0;
  return linear(rms(x, of("model.norm.weight")), of(tied ? "model.embed_tokens.weight" : "lm_head.weight").data(),
                words, width);
}
/// The mean loss of texts of `context` tokens.
double expected_loss(Model const& m, std::vector<Int> const& ids, std::size_t context, bool moh) {
  double sum = 0;
  for (std::size_t first = 0; first + 1 < ids.size(); first += context) {
    std::size_t const n = std::min(context, ids.size() - 1 - first);
    auto const begin = ids.begin() + static_cast<Index>(first);
    auto const z = expected_logits(m, {begin, begin + static_cast<Index>(n)}, moh);
    for (std::size_t t = 0; t < n; ++t) {
      double exponentials = 0;
      for (std::size_t i = 0; i < words; ++i) exponentials += std::exp(z[t * words + i]);
      sum += std::log(exponentials) - z[t * words + static_cast<std::size_t>(ids[first + t + 1])];
    }
  }
  return sum / static_cast<double>(ids.size() - 1);
}

std::vector<Int> some_ids(std::size_t n) {
  std::vector<Int> ids;
  for (std::size_t i = 0; i < n; ++i) ids.push_back(static_cast<Int>(Random(7).below(i, words)));
  return ids;
}
std::string text_of_ids(std::vector<Int> const& ids) {
  std::string text;
  for (Int const id : ids) text += message(id, " ");
  return text;
}

llama::Config config_of(std::string const& folder, llama::Attention attention) {
  auto c = llama::read_config(folder);
  c.attention = attention;
  c.shared_heads = shared, c.top_k = chosen;
  return c;
}
/// The largest error of logits, relative to the largest logit.
double error_of_logits(llama::Reader& reader, std::vector<Int> const& ids, std::vector<double> const& expected) {
  double worst = 0, largest = 0;
  for (std::size_t at = 0; at < ids.size();) {
    std::size_t const n = std::min<std::size_t>(at == 0 ? 7 : 5, ids.size() - at);
    auto const z = reader.read(std::span(ids).subspan(at, n));
    REQUIRE(z.rows == static_cast<Index>(n));
    for (Index i = 0; i < z.size(); ++i) {
      double const e = expected[at * words + static_cast<std::size_t>(i)];
      worst = std::max(worst, std::abs(static_cast<double>(z.data[i]) - e));
      largest = std::max(largest, std::abs(e));
    }
    at += n;
  }
  return worst / largest;
}

Ended run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), HEADMIX_LLAMA);
  return Child(std::move(arguments)).end();
}
/// stdout of a run that must succeed.
std::string printed(std::vector<std::string> const& arguments) {
  Ended const ended = run(arguments);
  CAPTURE(ended.err);
  CHECK(ended.status == 0);
  return ended.out;
}
/// stderr of a run that must be refused: one line.
std::string refusal(std::vector<std::string> const& arguments) {
  Ended const ended = run(arguments);
  CHECK(ended.status == 2);
  CHECK(ended.out == "");
  CHECK(std::count(ended.err.begin(), ended.err.end(), '\n') == 1);
  return ended.err;
}
/// The number behind `label` in a text.
double number_behind(std::string const& text, std::string const& label) {
  CAPTURE(text);
  auto const at = text.find(label);
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(at + label.size()));
}

}  // namespace

TEST_CASE("headmix-llama: logits in float equal loops in double, dense, as MoH and with tied embeddings") {
  using Compute = Cpu<float>;
  Folder const folder;
  auto const ids = some_ids(20);
  auto const check = [&]<class A>(llama::Attention attention, Model const& model, std::string const& config) {
    write_sharded(folder / "m", model, config);
    auto const c = config_of(folder / "m", attention);
    llama::Weights<Compute> weights(c, Compute(), false);
    load_weights(folder / "m", llama::Attention::dense, weights, c, 1);
    auto const reader = llama::make_reader<A>(c, weights, 20);
    auto const expected = expected_logits(model, ids, attention == llama::Attention::query_norm);
    CHECK(error_of_logits(*reader, ids, expected) < 1e-5);
    reader->restart();
    CHECK(error_of_logits(*reader, ids, expected) < 1e-5);
  };
  check.operator()<llama::Dense>(llama::Attention::dense, Model(), config_text);
  check.operator()<llama::Dense>(llama::Attention::dense, Model(true), config_with("tie_word_embeddings", "true"));
  check.operator()<llama::QueryNorm>(llama::Attention::query_norm, Model(), config_text);
}

TEST_CASE("headmix-llama: theta and eps are exact in bfloat16 programs") {
  llama::Config c;
  c.theta = 500'000, c.eps = 1e-5;
  struct {
    std::vector<named_leaf> named_leaves() const {
      return {{"blocks.attn.theta", "", leaf_kind::constant, 1, 1, 3, false, false},
              {"eps", "", leaf_kind::constant, 1, 1, 3, false, false}};
    }
    void bind(std::string_view, view<bfloat16 const> v) {
      sums.push_back((static_cast<float>(v(0, 0)) + static_cast<float>(v(0, 1))) + static_cast<float>(v(0, 2)));
    }
    std::vector<float> sums;
  } program;
  llama::Numbers<bfloat16> const numbers(c);
  numbers.bind(program);
  CHECK(program.sums == std::vector<float>{500'000.0f, 1e-5f});
}

TEST_CASE("headmix-llama: the gradient of a tied matrix is the sum of both uses") {
  Folder const folder;
  thread_pool threads(1);
  llama::Compute const compute(threads);
  auto const ids = some_ids(17);
  auto const gradients = [&](Model const& model, std::string const& config) {
    write_sharded(folder / "m", model, config);
    auto const c = config_of(folder / "m", llama::Attention::dense);
    llama::Weights<llama::Compute> weights(c, compute, true);
    load_weights(folder / "m", llama::Attention::dense, weights, c, 1);
    auto const trainer = llama::make_trainer<llama::Dense>(c, weights);
    trainer->forward(std::span(ids).first(16), std::span(ids).last(16), 2);
    trainer->backward(0);
    std::vector<double> sum(words * width, 0);
    for (auto const& p : weights.parameters()) {
      if (p.name != "W_e" && p.name != "W_lm") continue;
      for (std::size_t i = 0; i < sum.size(); ++i)
        sum[i] += static_cast<double>(static_cast<float>(p.gradient.data[i]));
    }
    return sum;
  };
  Model const tied(true);
  Model untied(true);
  untied.values["lm_head.weight"] = untied.values["model.embed_tokens.weight"];
  untied.numbers["lm_head.weight"] = untied.numbers["model.embed_tokens.weight"];
  untied.shapes["lm_head.weight"] = untied.shapes["model.embed_tokens.weight"];
  auto const one = gradients(tied, config_with("tie_word_embeddings", "true")), two = gradients(untied, config_text);
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    worst = std::max(worst, std::abs(one[i] - two[i])), largest = std::max(largest, std::abs(two[i]));
  }
  CHECK(largest > 1e-3);
  CHECK(worst < 0.01 * largest);
}

TEST_CASE("headmix-llama: from a dense model to MoH, in stages") {
  Folder const folder;
  Model const model;
  std::string const dense = folder / "dense", stage_1 = folder / "stage-1", stage_2 = folder / "stage-2",
                    stage_3 = folder / "stage-3";
  write_sharded(dense, model);
  write_text(dense + "/tokenizer.json", "{}");

  // The loss in bfloat16, dense and as MoH.
  auto const ids = some_ids(50);
  write_text(folder / "ids.txt", text_of_ids(ids));
  std::string const losses = printed({dense, "evaluate", "--data", folder / "ids.txt", "--context", "20"});
  std::string const moh = "query_norm (2 + 1 of 4 heads): ";
  CHECK(std::abs(number_behind(losses, "dense: ") - expected_loss(model, ids, 20, false)) < 0.02);
  CHECK(std::abs(number_behind(losses, moh) - expected_loss(model, ids, 20, true)) < 0.03);
  CHECK(losses.find("nats per token, 49 tokens\n") != losses.npos);

  // Generation: every token is the likeliest one of a pass over the whole text.
  std::string const generated = printed({dense, "generate", "--prompt", "3, 0 39", "--tokens", "9"});
  auto text = llama::parse_tokens("3 0 39 " + generated, "generated", words);
  auto const ended = std::find(text.begin() + 3, text.end(), 39);
  CHECK(text.size() == (ended == text.end() ? 12 : static_cast<std::size_t>(ended - text.begin()) + 1));
  thread_pool threads(1);
  llama::Compute const compute(threads);
  auto const c = config_of(dense, llama::Attention::dense);
  llama::Weights<llama::Compute> weights(c, compute, false);
  load_weights(dense, llama::Attention::dense, weights, c, 1);
  auto const z = llama::make_reader<llama::Dense>(c, weights, 12)->read(text);
  CHECK(z.rows == static_cast<Index>(text.size()));
  auto const reader = llama::make_reader<llama::Dense>(c, weights, 12);
  auto const logits = reader->read(text);
  for (std::size_t i = 3; i < text.size(); ++i) {
    float const* row = &logits(static_cast<Index>(i) - 1, 0);
    CHECK(std::max_element(row, row + words) - row == text[i]);
  }
  write_text(folder / "prompt.txt", "3 0\n39\n");
  CHECK(printed({dense, "generate", "--prompt-file", folder / "prompt.txt", "--tokens", "9"}) == generated);
  std::vector<std::string> const drawn{
      dense,    "generate", "--prompt",       "5", "--tokens",       "8",   "--temperature", "1",
      "--seed", "3",        "--sample-top-k", "9", "--sample-top-p", "0.9", "--threads",     "2"};
  CHECK(printed(drawn) == printed(drawn));

  // New data: a cycle of tokens, as raw numbers.
  std::string raw, last;
  for (std::uint32_t i = 0; i < 400; ++i) {
    std::uint32_t const id = 3 * i % 37;
    raw.append(reinterpret_cast<char const*>(&id), 4);
    if (i >= 360) last += message(id, " ");
  }
  write_text(folder / "new.bin", raw);
  write_text(folder / "held-out.txt", last);
  auto const train = [&](std::string const& from, std::string const& to, std::vector<std::string> const& more) {
    std::vector<std::string> all{
        from,        "train",   "--data", folder / "new.bin", "--out", to,     "--context", "16",       "--batch",
        "4",         "--steps", "30",     "--warmup",         "3",     "--lr", "3e-3",      "--min-lr", "1e-4",
        "--threads", "1"};
    all.insert(all.end(), more.begin(), more.end());
    std::string const said = printed(all);
    double const before = number_behind(said, "before: "), after = number_behind(said, "after: ");
    CHECK(after < before - 0.1);
    // The file has the weights that were evaluated.
    auto arguments = std::vector<std::string>{to, "evaluate", "--data", folder / "held-out.txt", "--context", "16"};
    std::string const again = printed(arguments);
    CHECK(has(again, said.substr(said.find("after: ") + 7, 8)));
    return std::pair(before, after);
  };
  auto const first = train(dense, stage_1, {"--attention", "dense"});
  auto const second = train(stage_1, stage_2, {"--attention", "query_norm", "--rounding", "stochastic"});
  CHECK(second.first < first.first);

  // Files: any loader of Llama reads those of stage 2.
  TensorFiles const from = TensorFiles::open(dense), to = TensorFiles::open(stage_2);
  CHECK(to.files() == 1);
  REQUIRE(from.tensors().size() == to.tensors().size());
  for (auto const& [name, t] : from.tensors()) {
    auto const found = to.tensors().find(name);
    REQUIRE(found != to.tensors().end());
    CHECK(found->second.type == dtype::bf16);
    CHECK(found->second.shape == t.shape);
  }
  CHECK(text_of(read_all(stage_2 + "/tokenizer.json")) == "{}");
  std::string const config = text_of(read_all(stage_2 + "/config.json"));
  CHECK(has(config, "\"pretraining_tp\": 1,\n"));
  CHECK(has(config, "\"torch_dtype\": \"bfloat16\""));
  CHECK(has(config, "\"moh_router\": \"query_norm\",\n  \"moh_shared_heads\": 2,\n  \"moh_top_k\": 1\n}\n"));
  CHECK_FALSE(has(text_of(read_all(stage_1 + "/config.json")), "moh_"));
  // Its own heads are those of the file, and the same weights are still a dense model.
  std::string const twice = printed({stage_2, "evaluate", "--data", folder / "held-out.txt", "--context", "16"});
  CHECK(has(twice, "dense: "));
  CHECK(has(twice, moh));
  CHECK(has(printed({stage_2, "evaluate", "--attention", "query_norm", "--top-k", "2", "--data", folder / "ids.txt"}),
            "query_norm (2 + 2 of 4 heads): "));

  // A router with weights; then again, from its own file.
  CHECK(printed({stage_2, "convert", "--attention", "two_stage", "--out", folder / "routed"}) ==
        (folder / "routed") + ": two_stage (2 + 1 of 4 heads)\n");
  train(folder / "routed", stage_3, {});
  CHECK(TensorFiles::open(stage_3).tensors().count("model.layers.3.self_attn.wg.weight") == 1);
  CHECK(printed({stage_3, "generate", "--prompt", "0 3 6 9", "--tokens", "4"}) != "");
  CHECK(has(refusal({stage_3, "evaluate", "--attention", "dense", "--data", folder / "ids.txt"}),
            "--attention: expected two_stage, since the model has its routers, found dense"));
  // Back to one that overwrites itself.
  CHECK(printed({stage_1, "convert", "--attention", "query_norm", "--out", stage_1}) != "");
  CHECK(llama::read_config(stage_1).attention == llama::Attention::query_norm);

  // A loss that is not finite: nothing is written.
  Model huge;
  for (bfloat16& x : huge.numbers.at("lm_head.weight")) x = bfloat16(1e38f);
  write_sharded(folder / "huge", huge);
  Ended const infinite = run({folder / "huge", "train", "--data", folder / "new.bin", "--out", folder / "none",
                              "--context", "16", "--steps", "3"});
  CHECK(infinite.status == 3);
  CHECK(has(infinite.err, "headmix-llama: step 1: the loss is "));
  CHECK(std::filesystem::is_empty(folder / "none"));
}

TEST_CASE("headmix-llama: costs by counting, of Llama 3 8B too") {
  Folder const folder;
  std::filesystem::create_directories(folder / "8b");
  write_text(folder / "8b/config.json", R"({"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "rope_theta": 500000.0,
    "rms_norm_eps": 1e-05, "max_position_embeddings": 8192, "model_type": "llama"})");
  CHECK(printed({folder / "8b"}) ==
        "32 layers of width 4096, 32 heads of 128 with 8 of keys and values, feed-forward 14336, 128256 tokens\n"
        "parameters: 8,030,261,248, 16.06 GB in bfloat16\n"
        "keys and values: 131,072 bytes per token\n"
        "training: 128.48 GB with master weights, 96.36 GB with stochastic rounding, and activations\n"
        "10^9 multiply-adds of a token that sees 1: dense 7.50, query_norm 7.37, two_stage 7.24 (MoH: 16 + 8 of 32 "
        "heads)\n"
        "10^9 multiply-adds of a token that sees 8192: dense 9.65, query_norm 8.98, two_stage 8.85 (MoH: 16 + 8 of 32 "
        "heads)\n");
  // The paper's type has these counts: parameters; and multiply-adds of the only token, with its router's inputs.
  auto c = llama::read_config(folder / "8b");
  c.shared_heads = 16, c.top_k = 8;
  using Published = papers::moh::llama3_8b<>;
  Index const rest = 3 * c.width * c.hidden;
  CHECK(llama::count_parameters(c) ==
        2 * c.vocabulary * c.width + c.width + c.depth * (2 * c.width + rest + headmix::count_parameters<Published>()));
  c.attention = llama::Attention::query_norm;
  CHECK(llama::count_macs(c, 1) ==
        c.vocabulary * c.width +
            c.depth * (rest + headmix::count_macs<Published>(counted{.inference = true}, at<tokens>(1))));
  // Those of the programs are the counts, too: the names and sizes of the file are compared when it is loaded.
  c.attention = llama::Attention::two_stage;
  CHECK(llama::count_parameters(c) == 8'030'261'248 + 32 * 4096 * 34);
}

TEST_CASE("headmix-llama: mistakes are one line that names the file, the field or the tensor") {
  Folder const folder;
  std::string const m = folder / "m", data = folder / "ids.txt";
  write_text(data, text_of_ids(some_ids(50)));
  Model const model;
  write_sharded(m, model);

  auto const with_config = [&](std::string const& text) {
    write_text(m + "/config.json", text);
    std::string const line = refusal({m});
    CHECK(line.starts_with("headmix-llama: " + m + "/config.json: "));
    return line;
  };
  CHECK(has(with_config("{"), "expected a string, found the end of the text"));
  CHECK(
      has(with_config(config_with("hidden_size", "null")), "\"hidden_size\": expected a whole number, found no such"));
  CHECK(has(with_config(config_with("hidden_size", "-3")), "\"hidden_size\": expected a whole number"));
  CHECK(has(with_config(config_with("vocab_size", "0")), "\"vocab_size\": expected a whole number from 1 to"));
  CHECK(has(with_config(config_with("rms_norm_eps", "0")), "\"rms_norm_eps\": expected a number above 0"));
  CHECK(has(with_config(config_with("num_key_value_heads", "3")), "a multiple of num_key_value_heads, 3, found 4"));
  CHECK(has(with_config(config_with("head_dim", "7")), "\"head_dim\": expected an even number, found 7"));
  CHECK(has(with_config(config_with("model_type", "\"mistral\"")), "expected \"llama\", found \"mistral\""));
  CHECK(has(with_config(config_with("hidden_act", "\"gelu\"")), "expected \"silu\", found \"gelu\""));
  CHECK(has(with_config(config_with("attention_bias", "true")), "\"attention_bias\": expected false"));
  CHECK(
      has(with_config(config_with("rope_scaling", "{\"rope_type\": \"yarn\"}")), "expected \"llama3\" or \"default\""));
  CHECK(has(with_config(config_with("rope_scaling", "{\"rope_type\": \"llama3\", \"factor\": 8}")),
            "rope of type llama3: expected factor"));
  CHECK(has(with_config(config_with("pretraining_tp", "1,\n  \"moh_router\": \"query_norm\"")),
            "shared heads: expected from 1 to 2"));
  std::filesystem::remove(m + "/config.json");
  CHECK(has(refusal({m}), "config.json: cannot open"));

  // Files of the weights.
  auto const with_files = [&](auto change) {
    std::filesystem::remove_all(m);
    write_sharded(m, model);
    change();
    return refusal({m, "evaluate", "--data", data});
  };
  std::string const first = m + "/model-00001-of-00002.safetensors", second = m + "/model-00002-of-00002.safetensors";
  CHECK(has(with_files([&] { std::filesystem::remove(second); }), "model-00002-of-00002.safetensors: cannot open"));
  CHECK(has(with_files([&] { std::filesystem::resize_file(first, std::filesystem::file_size(first) - 1); }),
            "model-00001-of-00002.safetensors: expected "));
  CHECK(has(with_files([&] { write_text(m + "/config.json", config_with("intermediate_size", "50")); }),
            "gate_proj.weight\" for blocks.0.ffn.W_gate: expected BF16 [50, 32], found BF16 [48, 32]"));
  CHECK(has(with_files([&] { write_text(m + "/config.json", config_with("num_hidden_layers", "5")); }),
            "parameter blocks.4."));
  CHECK(has(with_files([&] { write_text(m + "/config.json", config_with("num_hidden_layers", "3")); }),
            "\"model.layers.3."));
  CHECK(has(
      with_files([&] {
        auto files = TensorFiles::open(first);
        TensorMap without = files.tensors();
        without.erase("model.layers.2.mlp.up_proj.weight");
        write_safetensors(m + "/new", without);
        std::filesystem::rename(m + "/new", first);
      }),
      "\"model.layers.2.mlp.up_proj.weight\": expected the tensor in model-00001-of-00002.safetensors, found none"));

  // Tokens and options.
  write_sharded(m, model);
  auto const with_data = [&](std::string const& name, std::string const& content) {
    write_text(folder / name, content);
    return refusal({m, "evaluate", "--data", folder / name});
  };
  CHECK(has(with_data("a.txt", "1 2 x3"), "a.txt: token 2: expected a whole number from 0 to 39, found \"x3\""));
  CHECK(has(with_data("a.txt", "1 40"), "a.txt: token 1: expected a whole number from 0 to 39, found \"40\""));
  CHECK(has(with_data("a.txt", "1"), "a.txt: expected 2 tokens or more, found 1"));
  CHECK(has(with_data("a.bin", "12345"), "a.bin: expected 4 bytes for each token"));
  CHECK(has(with_data("a.bin", std::string("\1\0\0\0\0\0\0\x80", 8)),
            "a.bin: token 1: expected a whole number from 0 to 39"));
  CHECK(has(refusal({m, "evaluate", "--data", folder / "none"}), "none: cannot open"));
  CHECK(has(refusal({m, "evaluate"}), "--data: expected a file, found none"));
  CHECK(has(refusal({m, "evaluate", "--data", data, "--steps", "3"}),
            "--steps: expected one of the commands train, found evaluate"));
  CHECK(has(refusal({m, "run"}), "the command: expected costs, generate, evaluate, train or convert, found 'run'"));
  CHECK(has(refusal({"--data"}), "expected the folder of a model, found '--data'"));
  CHECK(has(refusal({m, "generate"}), "--prompt: expected either --prompt or --prompt-file, found none"));
  CHECK(has(refusal({m, "generate", "--prompt", "7", "--tokens", "64"}), "max_position_embeddings, 64, found 1 + 64"));
  CHECK(has(refusal({m, "evaluate", "--data", data, "--shared-heads", "3"}), "shared heads: expected from 1 to 2"));
  CHECK(has(refusal({m, "evaluate", "--data", data, "--top-k", "3"}), "chosen heads: expected from 1 to 2"));
  CHECK(has(refusal({m, "train", "--data", data, "--out", folder / "o", "--context", "30"}),
            "expected 62 tokens or more, found 50"));
  CHECK(has(refusal({m, "convert", "--out", m, "--attention", "query_norm"}),
            "--out: expected a folder without model.safetensors.index.json"));
}
