// SPDX-License-Identifier: MIT
// The report: JSON, the table, the files. The pictures are drawn in pictures.cpp.

#include "report.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <exception>
#include <filesystem>
#include <system_error>
#include <type_traits>

#include "headmix/io/file.hpp"
#include "svg.hpp"
#include "text.hpp"

namespace lm {
namespace {

std::string json_number(double x) {
  if (!std::isfinite(x)) return "null";
  std::array<char, 32> b;
  return {b.data(), std::to_chars(b.data(), b.data() + b.size(), x).ptr};
}

std::string json_string(std::string_view text) {
  std::string s = "\"";
  while (!text.empty()) {
    std::size_t const n = std::max<std::size_t>(utf8_length(text), 1);
    auto const c = static_cast<unsigned char>(text[0]);
    std::array<char, 8> code;
    std::snprintf(code.data(), code.size(), "\\u%04x", c);
    if (utf8_length(text) == 0)
      s += "\\ufffd";
    else if (c < ' ')
      s += code.data();
    else
      s.append(c == '"' || c == '\\' ? "\\" : "").append(text.substr(0, n));
    text.remove_prefix(n);
  }
  return s + '"';
}

/// A JSON object that is built field by field.
class Json {
 public:
  template <class T>
  Json& operator()(std::string_view key, T const& value) {
    s_ += s_.size() > 1 ? ", " : "";
    s_ += json_string(key) + ": ";
    if constexpr (std::is_floating_point_v<T>)
      s_ += json_number(value);
    else if constexpr (std::is_integral_v<T>)
      s_ += std::to_string(value);
    else
      s_ += json_string(value);
    return *this;
  }
  Json& raw(std::string_view key, std::string_view json) {
    s_ += s_.size() > 1 ? ", " : "";
    s_ += json_string(key) + ": ";
    s_ += json;
    return *this;
  }
  [[nodiscard]] std::string text() const { return s_ + "}"; }

 private:
  std::string s_ = "{";
};

template <class Range, class F>
std::string json_array(Range const& range, F element) {
  std::string s = "[";
  for (auto const& e : range) s += (s.size() > 1 ? ", " : "") + element(e);
  return s + "]";
}

/// The most typical bytes of each expert of a layer, among bytes with at least ten choices for each expert of a token.
using TypicalBytes = std::vector<std::vector<headmix::token_affinity>>;
TypicalBytes typical_bytes(headmix::ExpertCounts const& bytes, double experts_of_token) {
  TypicalBytes all;
  for (Index e = 0; e < bytes.experts(); ++e) {
    all.push_back(headmix::most_typical_tokens(bytes, e, 6, 10 * experts_of_token));
  }
  return all;
}
double experts_of_token(Options const& o) {
  return o.attention == Attention::moa || o.attention == Attention::moh ? static_cast<double>(o.top_k) : 1;
}
double ffn_experts_of_token(Options const& o) {
  return static_cast<double>(o.ffn_top_k * (o.ffn == Ffn::mh_moe ? o.split : 1));
}

std::vector<ExpertInformation> information(std::vector<headmix::ExpertCounts> const& layers) {
  std::vector<ExpertInformation> all;
  for (auto const& counts : layers)
    all.push_back({headmix::expert_entropy(counts), headmix::mutual_information(counts)});
  return all;
}

double mean(std::vector<double> const& v) {
  double sum = 0;
  for (double const x : v) sum += x;
  return v.empty() ? Results::unknown : sum / static_cast<double>(v.size());
}

/// Shares of the sum, times `all`; empty if no layer has counts.
Loads normalize_sum(Loads loads, double all) {
  bool any = false;
  for (auto& layer : loads) {
    double sum = 0;
    for (double const e : layer) sum += e;
    for (double& e : layer) e = sum > 0 ? e * all / sum : 0;
    any = any || !layer.empty();
  }
  return any ? loads : Loads{};
}

Json summary(Options const& o, Results const& r) {
  Json json;
  json("val_loss", r.val_loss)("train_loss", r.train_loss)("tokens_per_s", std::round(r.tokens_per_s));
  json("parameters", r.parameters)("steps", r.steps);
  if (!r.ending.name.empty()) json("ended_by", r.ending.name)("planned_steps", o.steps);
  json("attention", name(o.attention));
  if (o.attention == Attention::moa)
    json("experts", o.experts)("top_k", o.top_k)("balance", o.balance)("z", o.z)("moa_scale", o.moa_scale);
  if (o.attention != Attention::moa) json("heads", o.heads);
  if (o.attention == Attention::moh)
    json("shared_heads", o.shared_heads)("top_k", o.top_k)("router", name(o.router))("balance", o.balance);
  json("head_dim", o.head_dim)("layers", o.layers)("width", o.width)("context", o.context)("batch", o.batch);
  json("ffn", name(o.ffn))("weights", name(o.weights))("scalar", name(o.scalar));
  if (o.ffn == Ffn::mh_moe) json("split", o.split);
  if (o.ffn != Ffn::dense) {
    json("ffn_experts", o.ffn_experts)("ffn_top_k", o.ffn_top_k)("hidden", o.hidden)("ffn_every", o.ffn_every);
    if (o.attention == Attention::dense || o.attention == Attention::mae) json("balance", o.balance);
    json("ffn_variant", name(o.ffn_variant))("ffn_init", name(o.ffn_init));
  }
  json("lr", o.lr)("min_lr", o.min_lr)("warmup", o.warmup)("seed", o.seed)("threads", o.threads)("text", o.text);
  if (!o.validation_text.empty()) json("validation_text", o.validation_text);
  if (o.attention == Attention::mae) {
    json("dropped", o.dropped)("experts", o.experts)("training", name(o.training));
    if (o.training != Training::uniform) json("pool", name(o.pool))("gate_dim", o.gate_dim);
    if (o.training == Training::bcd) json("g_every", o.g_every)("fine_tune", name(o.fine_tune));
    json("one_expert_val_loss", r.one_expert_loss)("gate_entropy", mean(r.experts.gate_entropy));
    json.raw("gate_entropies", json_array(r.experts.gate_entropy, json_number));
    json.raw("expert_shares", json_array(attention_loads(o, r.experts).shares, [](auto const& layer) {
               return json_array(layer, [](double s) { return json_number(std::round(1e4 * s) / 1e4); });
             }));
  }
  // A string for each expert.
  auto const add_bytes = [&json](std::string_view key, auto const& layers, double of_token) {
    if (layers.empty()) return;
    json.raw(key, json_array(layers, [of_token](auto const& layer) {
               return json_array(typical_bytes(layer, of_token), [](auto const& of_expert) {
                 std::string s;
                 for (auto const& b : of_expert) s += static_cast<char>(b.token);
                 return json_string(s);
               });
             }));
  };
  add_bytes("typical_bytes", r.experts.bytes, experts_of_token(o));
  add_bytes("ffn_typical_bytes", r.experts.ffn_bytes, ffn_experts_of_token(o));
  return json;
}

std::string json_curve(std::vector<LossPoint> const& curve) {
  return json_array(curve, [](LossPoint const& p) {
    return std::string("[").append(std::to_string(p.step)).append(", ").append(json_number(p.loss)).append("]");
  });
}

std::string report_json(Options const& options, Results const& results, LoadTable const& loads, LoadTable const& ffn) {
  Json json = summary(options, results);
  json.raw("train_curve", json_curve(results.train)).raw("validation_curve", json_curve(results.validation));
  auto const json_layer = [](auto const& layer) { return json_array(layer, json_number); };
  json.raw("expert_loads", json_array(loads.shares, json_layer));
  json.raw("ffn_expert_loads", json_array(ffn.shares, json_layer));
  // For each layer the entropy of its experts' shares, and their information about the byte.
  auto const json_information = [](ExpertInformation const& i) {
    return json_array(std::array{i.entropy, i.information}, json_number);
  };
  json.raw("expert_information", json_array(loads.information, json_information));
  json.raw("ffn_expert_information", json_array(ffn.information, json_information));
  auto const add_bytes = [&json](std::string_view key, auto const& layers, double of_token) {
    if (layers.empty()) return;
    json.raw(key, json_array(layers, [of_token](auto const& layer) {
               return json_array(typical_bytes(layer, of_token), [](auto const& of_expert) {
                 return json_array(of_expert, [](auto const& b) {
                   return json_array(std::array{static_cast<double>(b.token), b.pmi}, json_number);
                 });
               });
             }));
  };
  add_bytes("byte_information", results.experts.bytes, experts_of_token(options));
  add_bytes("ffn_byte_information", results.experts.ffn_bytes, ffn_experts_of_token(options));
  return json.text();
}

std::string path_in_report(Options const& options, char const* name) {
  return (std::filesystem::path(options.report) / name).string();
}

void create_folder(std::string const& path) {
  std::error_code error, gone;
  std::filesystem::create_directories(path, error);
  if (!std::filesystem::is_directory(path, gone))
    throw UsageError("--report: expected a folder, cannot create " + in_quotes(path) + ": " +
                     (error ? error.message() : "it is a file"));
}

/// Calls `write`; errors name the option.
template <class F>
void for_report(F write) {
  try {
    write();
  } catch (headmix::Error const& e) {
    throw UsageError("--report: " + program::reason(e));
  }
}

}  // namespace

std::size_t LoadTable::columns() const {
  std::size_t n = 0;
  for (auto const& layer : shares) n = std::max(n, layer.size());
  return n;
}

LoadTable attention_loads(Options const& o, ExpertUse const& experts) {
  if (o.attention == Attention::moh) {
    auto const routed = static_cast<double>(o.heads - o.shared_heads), top_k = static_cast<double>(o.top_k);
    return {"Head load in percent of the tokens", true, top_k / routed,
            normalize_sum(experts.loads, static_cast<double>(o.shared_heads) + top_k), information(experts.bytes)};
  }
  std::string title = "Expert load in percent of each layer's selections";
  if (o.attention == Attention::mae) {
    title = "Sequences of each expert in percent, by ";
    title += o.training == Training::uniform ? "even draws" : "the most probable one of their mean gate";
  }
  return {title, false, 1 / static_cast<double>(o.experts), normalize_sum(experts.loads, 1),
          information(experts.bytes)};
}

LoadTable ffn_loads(Options const& o, ExpertUse const& experts) {
  return {"Feed-forward expert load in percent of each layer's selections", false,
          1 / static_cast<double>(o.ffn_experts), normalize_sum(experts.ffn_loads, 1), information(experts.ffn_bytes)};
}

std::string json_line(Options const& options, Results const& results) { return summary(options, results).text(); }

void print_load_table(std::FILE* file, LoadTable const& table) {
  std::size_t const experts = table.columns();
  if (experts == 0) return;
  std::fprintf(file, "%s (%s: %s)\n", table.title.c_str(), table.heads ? "even, for routed heads" : "even",
               decimal(100 * table.even, 2).c_str());
  constexpr std::size_t columns = 12;  // keeps the table below 80 characters
  for (std::size_t begin = 0; begin < experts; begin += columns) {
    std::size_t const end = std::min(begin + columns, experts);
    std::fputs(table.heads ? "    head" : "  expert", file);
    for (std::size_t e = begin; e < end; ++e) std::fprintf(file, "%6zu", e);
    std::fputc('\n', file);
    for (std::size_t layer = 0; layer < table.shares.size(); ++layer) {
      if (table.shares[layer].empty()) continue;
      std::fprintf(file, "layer %2zu", layer);
      for (std::size_t e = begin; e < end; ++e) std::fprintf(file, "%6.1f", 100 * table.shares[layer][e]);
      std::fputc('\n', file);
    }
  }
}

void print_gates(std::FILE* file, Options const& options, Results const& results) {
  if (options.attention != Attention::mae) return;
  std::fprintf(file, "validation loss with one expert for each sequence and layer %.4f\n", results.one_expert_loss);
  std::fprintf(file, "entropy of the gates in nats (even: %.4f): mean %.4f, layers",
               std::log(static_cast<double>(options.experts)), mean(results.experts.gate_entropy));
  for (double const e : results.experts.gate_entropy) std::fprintf(file, " %.4f", e);
  std::fputc('\n', file);
}

void print_typical_bytes(std::FILE* file, Options const& options, ExpertUse const& use) {
  auto const print = [file](std::vector<headmix::ExpertCounts> const& layers, double of_token, char const* expert,
                            char const* of) {
    auto const layer =
        std::find_if(layers.begin(), layers.end(), [](auto const& counts) { return counts.total() > 0; });
    if (layer == layers.end()) return;
    auto const typical = typical_bytes(*layer, of_token);
    std::size_t const shown = std::min<std::size_t>(typical.size(), 32);
    std::fprintf(file, "Bytes of the highest pointwise mutual information in nats with each %s of %slayer %td", expert,
                 of, layer - layers.begin());
    if (shown < typical.size()) std::fprintf(file, ", the first %zu of %zu", shown, typical.size());
    std::fprintf(file, "\n(a byte tells %.4f of the %.4f nats of which %s it has)\n",
                 headmix::mutual_information(*layer), headmix::expert_entropy(*layer), expert);
    for (std::size_t e = 0; e < shown; ++e) {
      if (typical[e].empty()) continue;  // e.g. of a shared head
      std::fprintf(file, "%s %2zu ", expert, e);
      for (auto const& b : typical[e]) {
        auto const byte = static_cast<Int>(b.token);
        std::string const text = byte == '\n' ? "\\n" : byte == '\t' ? "\\t" : printable(std::span(&byte, 1));
        std::fprintf(file, " '%s' %.3f", text.c_str(), b.pmi);
      }
      std::fputc('\n', file);
    }
  };
  char const* const expert = options.attention == Attention::moh ? "head" : "expert";
  print(use.bytes, experts_of_token(options), expert, "");
  print(use.ffn_bytes, ffn_experts_of_token(options), "expert", "the feed-forward mixture of ");
}

void create_report_folder(Options const& options) {
  if (options.report.empty()) return;
  create_folder(options.report);
  // Checks that the file can be written, without changing it.
  for_report([&] { headmix::OutputFile const file(path_in_report(options, "report.json")); });
}

bool write_report(Options const& options, Results const& results) {
  if (options.report.empty()) return true;
  bool good = true;
  auto const attempt = [&good](auto write) {
    try {
      write();
    } catch (std::exception const& e) {
      program::complain(program::reason(e));
      good = false;
    }
  };
  auto const attempt_file = [&](char const* name, auto content) {
    attempt([&] { for_report([&] { headmix::write_file(path_in_report(options, name), content()); }); });
  };
  attempt([&] { create_folder(options.report); });
  if (!good) return false;
  LoadTable const loads = attention_loads(options, results.experts), ffn = ffn_loads(options, results.experts);
  attempt_file("report.json", [&] { return report_json(options, results, loads, ffn) + "\n"; });
  attempt_file("loss.svg", [&] { return loss_svg(options, results); });
  if (!loads.shares.empty()) attempt_file("experts.svg", [&] { return experts_svg(loads); });
  if (!ffn.shares.empty()) attempt_file("ffn_experts.svg", [&] { return experts_svg(ffn); });
  return good;
}

int give_results(Options const& options, Text const& text, Results& results) {
  if (!results.ending.message.empty()) program::complain(results.ending.message);
  if (!results.train.empty()) {
    std::size_t const last = std::min<std::size_t>(results.train.size(), 100);
    results.train_loss = 0;
    for (std::size_t i = results.train.size() - last; i < results.train.size(); ++i) {
      results.train_loss += results.train[i].loss / static_cast<double>(last);
    }
  }
  if (!results.validation.empty() && results.validation.back().step == options.steps) {
    std::printf("validation loss %.4f nats per byte over %td bytes\n", results.val_loss, text.size() - text.train - 1);
    print_gates(stdout, options, results);
  }
  print_load_table(stdout, attention_loads(options, results.experts));
  print_load_table(stdout, ffn_loads(options, results.experts));
  print_typical_bytes(stdout, options, results.experts);
  if (!results.continuation.empty()) {
    std::printf("\nA continuation of the validation text; the model begins at >>>\n%s\n\n",
                results.continuation.c_str());
  }
  std::puts(json_line(options, results).c_str());
  bool const printed = program::flush_stdout(), written = write_report(options, results);
  return printed && written ? results.ending.status : program::not_written;
}

}  // namespace lm
