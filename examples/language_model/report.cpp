// SPDX-License-Identifier: MIT
// The report: JSON, the table, the files. The pictures are drawn in pictures.cpp.

#include "report.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <type_traits>

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

/// An object that is filled field by field.
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

Json summary(Options const& o, Results const& r) {
  Json json;
  json("val_loss", r.val_loss)("train_loss", r.train_loss)("tokens_per_s", std::round(r.tokens_per_s));
  json("parameters", r.parameters)("steps", r.steps)("attention", name(o.attention));
  if (o.attention == Attention::moa)
    json("experts", o.experts)("top_k", o.top_k)("balance", o.balance)("z", o.z)("moa_scale", o.moa_scale);
  if (o.attention == Attention::dense) json("heads", o.heads);
  json("head_dim", o.head_dim)("layers", o.layers)("width", o.width)("context", o.context)("batch", o.batch);
  json("lr", o.lr)("min_lr", o.min_lr)("warmup", o.warmup)("seed", o.seed)("threads", o.threads)("text", o.text);
  return json;
}

template <class Range, class F>
std::string json_array(Range const& range, F element) {
  std::string s = "[";
  for (auto const& e : range) s += (s.size() > 1 ? ", " : "") + element(e);
  return s + "]";
}

std::string json_curve(std::vector<LossPoint> const& curve) {
  return json_array(curve, [](LossPoint const& p) {
    return std::string("[").append(std::to_string(p.step)).append(", ").append(json_number(p.loss)).append("]");
  });
}

void write_file(std::filesystem::path const& path, std::string const& content, char const* mode = "wb") {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.string().c_str(), mode), &std::fclose);
  bool const written = file && std::fwrite(content.data(), 1, content.size(), file.get()) == content.size();
  if (!written || std::fclose(file.release()) != 0)
    throw UsageError("--report: expected a writable folder, cannot write " + in_quotes(path.string()) + ": " +
                     std::strerror(errno));
}

}  // namespace

Loads shares(Loads loads) {
  for (auto& layer : loads) {
    double sum = 0;
    for (double const e : layer) sum += e;
    for (double& e : layer) e = sum > 0 ? e / sum : 0;
  }
  return loads;
}

std::string json_line(Options const& options, Results const& results) { return summary(options, results).text(); }

void print_load_table(std::FILE* file, Loads const& loads) {
  if (loads.empty()) return;
  Loads const share = shares(loads);
  std::size_t const experts = share[0].size();
  std::fprintf(file, "Expert load in percent of each layer's selections (even: %s)\n",
               decimal(100 / static_cast<double>(experts), 2).c_str());
  constexpr std::size_t columns = 12;  // the table stays below 80 characters
  for (std::size_t begin = 0; begin < experts; begin += columns) {
    std::size_t const end = std::min(begin + columns, experts);
    std::fputs("  expert", file);
    for (std::size_t e = begin; e < end; ++e) std::fprintf(file, "%6zu", e);
    std::fputc('\n', file);
    for (std::size_t layer = 0; layer < share.size(); ++layer) {
      std::fprintf(file, "layer %2zu", layer);
      for (std::size_t e = begin; e < end; ++e) std::fprintf(file, "%6.1f", 100 * share[layer][e]);
      std::fputc('\n', file);
    }
  }
}

void create_report_folder(Options const& options) {
  if (options.report.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(options.report, error);
  if (!std::filesystem::is_directory(options.report))
    throw UsageError("--report: expected a folder, cannot create " + in_quotes(options.report) + ": " +
                     (error ? error.message() : "it is a file"));
  write_file(std::filesystem::path(options.report) / "report.json", "", "ab");  // proves that it can be written
}

void write_report(Options const& options, Results const& results) {
  if (options.report.empty()) return;
  create_report_folder(options);
  std::filesystem::path const folder = options.report;
  write_file(folder / "loss.svg", loss_svg(options, results));
  if (!results.loads.empty()) write_file(folder / "experts.svg", experts_svg(results.loads));
  Json json = summary(options, results);
  json.raw("train_curve", json_curve(results.train)).raw("validation_curve", json_curve(results.validation));
  json.raw("expert_loads", json_array(shares(results.loads), [](auto const& l) { return json_array(l, json_number); }));
  write_file(folder / "report.json", json.text() + "\n");
}

}  // namespace lm
