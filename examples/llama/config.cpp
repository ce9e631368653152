// SPDX-License-Identifier: MIT
#include "config.hpp"

#include <algorithm>
#include <cstdio>

#include "headmix/io/json.hpp"
#include "headmix/io/safetensors.hpp"

namespace llama {
namespace {

using headmix::fail, headmix::shown, headmix::JsonReader, headmix::message;

constexpr Index largest = 1 << 30;
constexpr std::size_t most_bytes = 16 << 20;

std::string path_in(std::string const& folder) {
  return folder + (folder.empty() || folder.back() == '/' ? "" : "/") + "config.json";
}

/// Reads a field; null leaves the default.
void read(JsonReader& json, Index& to) {
  if (json.null()) return;
  Index const n = json.count();
  if (n < 1 || n > largest) json.reject(message("a whole number from 1 to ", largest), std::to_string(n));
  to = n;
}
void read(JsonReader& json, double& to) {
  if (json.null()) return;
  double const x = json.number();
  if (!(x > 0) || x > 1e15) json.reject("a number above 0 and up to 1e15", message(x));
  to = x;
}
void expect(JsonReader& json, std::string_view expected) {
  if (std::string const found = json.string(); found != expected) json.reject(shown(expected), shown(found));
}

/// rope_scaling, and rope_parameters of newer files, which have rope_theta too.
void read_rope(JsonReader& json, Config& c, std::string const& path) {
  if (json.null()) return;
  std::string type;
  double factor = 0, low = 0, high = 0;
  Index trained = 0;
  json.object([&](std::string const& key) {
    if (key == "rope_type" || key == "type") {
      type = json.string();
      if (type != "llama3" && type != "default") json.reject("\"llama3\" or \"default\"", shown(type));
    } else if (key == "factor") {
      read(json, factor);
    } else if (key == "low_freq_factor") {
      read(json, low);
    } else if (key == "high_freq_factor") {
      read(json, high);
    } else if (key == "original_max_position_embeddings") {
      read(json, trained);
    } else if (key == "rope_theta") {
      read(json, c.theta);
    } else {
      json.skip();
    }
  });
  if (type != "llama3") return;
  if (factor == 0 || trained == 0 || low == 0 || !(high > low)) {
    fail(path,
         ": rope of type llama3: expected factor, original_max_position_embeddings, low_freq_factor, and a "
         "larger high_freq_factor, found ",
         factor, ", ", trained, ", ", low, " and ", high);
  }
  c.rope_scaling.trained = trained;
  c.rope_scaling.factor = factor, c.rope_scaling.low = low, c.rope_scaling.high = high;
}

void read_fields(JsonReader& json, Config& c, std::string const& path) {
  json.object([&](std::string const& key) {
    if (key == "hidden_size") return read(json, c.width);
    if (key == "intermediate_size") return read(json, c.hidden);
    if (key == "num_hidden_layers") return read(json, c.depth);
    if (key == "num_attention_heads") return read(json, c.heads);
    if (key == "num_key_value_heads") return read(json, c.kv_heads);
    if (key == "head_dim") return read(json, c.head_dim);
    if (key == "vocab_size") return read(json, c.vocabulary);
    if (key == "max_position_embeddings") return read(json, c.positions);
    if (key == "rope_theta") return read(json, c.theta);
    if (key == "rms_norm_eps") return read(json, c.eps);
    if (key == "rope_scaling" || key == "rope_parameters") return read_rope(json, c, path);
    if (key == "moh_shared_heads") return read(json, c.shared_heads);
    if (key == "moh_top_k") return read(json, c.top_k);
    if (key == "model_type") return expect(json, "llama");
    if (key == "hidden_act") return expect(json, "silu");
    if (key == "tie_word_embeddings") {
      c.tied = json.boolean();
    } else if (key == "attention_bias" || key == "mlp_bias") {
      if (json.boolean()) json.reject("false: the network has no biases", "true");
    } else if (key == "moh_router") {
      std::string const found = json.string();
      if (found != "query_norm" && found != "two_stage") json.reject("\"query_norm\" or \"two_stage\"", shown(found));
      c.attention = found == "query_norm" ? Attention::query_norm : Attention::two_stage;
    } else if (key == "eos_token_id") {
      auto const field = std::find_if(c.fields.begin(), c.fields.end(), [&](auto const& f) { return f.first == key; });
      auto const add = [&] { c.ends.push_back(static_cast<Int>(std::min(json.count(), largest))); };
      if (json.null()) return;
      if (field->second.starts_with('[')) return json.array(add);
      add();
    } else {
      json.skip();
    }
  });
  json.end();
}

/// 1234567 as 1,234,567.
std::string grouped(Index n) {
  std::string s = std::to_string(n);
  for (auto i = static_cast<Index>(s.size()) - 3; i > 0; i -= 3) s.insert(static_cast<std::size_t>(i), ",");
  return s;
}
std::string rounded(double x) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.2f", x);
  return buffer;
}

}  // namespace

Config read_config(std::string const& folder) {
  std::string const path = path_in(folder);
  headmix::InputFile file(path);
  auto const bytes = read_bytes(file, most_bytes);
  std::string_view const text(reinterpret_cast<char const*>(bytes.data()), bytes.size());
  Config c;
  JsonReader all(text, path);
  all.object([&](std::string const& key) { c.fields.emplace_back(key, all.value()); });
  JsonReader json(text, path);
  read_fields(json, c, path);
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  std::pair<char const*, Index> const needed[] = {{"hidden_size", c.width},
                                                  {"intermediate_size", c.hidden},
                                                  {"num_hidden_layers", c.depth},
                                                  {"num_attention_heads", c.heads},
                                                  {"vocab_size", c.vocabulary}};
  for (auto const& [name, value] : needed) {
    if (value == 0) fail(path, ": ", shown(name), ": expected a whole number, found no such field");
  }
  if (c.head_dim == 0) {
    if (c.width % c.heads != 0) {
      fail(path, ": \"hidden_size\": expected a multiple of num_attention_heads, ", c.heads, ", found ", c.width);
    }
    c.head_dim = c.width / c.heads;
  }
  if (c.head_dim % 2 != 0) fail(path, ": \"head_dim\": expected an even number, found ", c.head_dim);
  if (c.heads % c.kv_heads != 0) {
    fail(path, ": \"num_attention_heads\": expected a multiple of num_key_value_heads, ", c.kv_heads, ", found ",
         c.heads);
  }
  if (c.attention != Attention::dense) check_heads(c, path);
  return c;
}

void check_heads(Config const& c, std::string_view whose) {
  Index const routed = c.heads - c.shared_heads;
  if (c.shared_heads < 1 || routed < 2) {
    fail(whose, ": shared heads: expected from 1 to ", c.heads - 2, ", which leaves two of ", c.heads,
         " heads or more to choose from, found ", c.shared_heads);
  }
  if (c.top_k < 1 || c.top_k > routed) {
    fail(whose, ": chosen heads: expected from 1 to ", routed, ", since ", c.shared_heads, " of ", c.heads,
         " heads are shared, found ", c.top_k);
  }
}

void write_config(std::string const& folder, Config const& c) {
  auto fields = c.fields;
  auto const is_ours = [](auto const& f) { return f.first.starts_with("moh_"); };
  fields.erase(std::remove_if(fields.begin(), fields.end(), is_ours), fields.end());
  for (auto& [name, value] : fields) {
    if (name == "torch_dtype" || name == "dtype") value = "\"bfloat16\"";
  }
  if (c.attention != Attention::dense) {
    fields.emplace_back("moh_router", headmix::quote(command_line::name(c.attention)));
    fields.emplace_back("moh_shared_heads", std::to_string(c.shared_heads));
    fields.emplace_back("moh_top_k", std::to_string(c.top_k));
  }
  std::string text = "{";
  for (auto const& [name, value] : fields) {
    text += message(text.size() > 1 ? ",\n  " : "\n  ", headmix::quote(name), ": ", value);
  }
  text += "\n}\n";
  headmix::OutputFile file(path_in(folder));
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

Index count_parameters(Config const& c) {
  Index const heads = 2 * c.width * c.heads * c.head_dim, keys = 2 * c.width * c.kv_heads * c.head_dim;
  Index const router = c.attention == Attention::two_stage ? c.width * (2 + c.heads) : 0;
  Index const layer = 2 * c.width + heads + keys + router + 3 * c.width * c.hidden;
  return (c.tied ? 1 : 2) * c.vocabulary * c.width + c.width + c.depth * layer;
}

Index cache_bytes(Config const& c) { return 2 * 2 * c.depth * c.kv_heads * c.head_dim; }

Index count_macs(Config const& c, Index keys) {
  Index const head = c.width * c.head_dim, active = c.active_heads();
  Index const queries = c.attention == Attention::query_norm ? c.heads : active;  // it compares those of all heads
  Index const router = c.attention == Attention::two_stage ? c.width * (2 + c.heads) : 0;
  Index const attention = (queries + active + 2 * c.kv_heads) * head + router + 2 * active * c.head_dim * keys;
  return c.depth * (attention + 3 * c.width * c.hidden) + c.vocabulary * c.width;
}

std::string costs(Config const& config) {
  Config c = config;
  std::string text =
      message(c.depth, " layers of width ", c.width, ", ", c.heads, " heads of ", c.head_dim, " with ", c.kv_heads,
              " of keys and values, feed-forward ", c.hidden, ", ", c.vocabulary, " tokens\n");
  Index const n = count_parameters(c);
  auto const gigabytes = [&](double bytes) { return rounded(static_cast<double>(n) * bytes / 1e9) + " GB"; };
  text += message("parameters: ", grouped(n), ", ", gigabytes(2), " in bfloat16\n");
  text += message("keys and values: ", grouped(cache_bytes(c)), " bytes per token\n");
  text += message("training: ", gigabytes(16), " with master weights, ", gigabytes(12),
                  " with stochastic rounding, and activations\n");
  for (Index const keys : {Index{1}, Index{8192}}) {
    text += message("10^9 multiply-adds of a token that sees ", keys, ":");
    auto const add = [&](Attention attention) {
      c.attention = attention;
      text += message(attention == Attention::dense ? " " : ", ", command_line::name(attention), " ",
                      rounded(static_cast<double>(count_macs(c, keys)) / 1e9));
    };
    if (c.shared_heads == 0) c.shared_heads = c.heads / 2, c.top_k = c.heads / 4;
    for (auto const attention : {Attention::dense, Attention::query_norm, Attention::two_stage}) {
      if (attention == Attention::dense || (c.shared_heads > 0 && c.top_k > 0)) add(attention);
    }
    text += message(" (MoH: ", c.shared_heads, " + ", c.top_k, " of ", c.heads, " heads)\n");
  }
  return text;
}

}  // namespace llama
