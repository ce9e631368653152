// SPDX-License-Identifier: MIT
// The pictures of the report: the loss curve and the heat map of expert loads.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "report.hpp"
#include "svg.hpp"

namespace lm {
namespace {

/// Means of neighbouring points, so that at most `most` points remain; drops values that cannot be drawn.
std::vector<LossPoint> averaged(std::vector<LossPoint> const& curve, std::size_t most, std::size_t& together) {
  together = std::max<std::size_t>(1, (curve.size() + most - 1) / most);
  std::vector<LossPoint> means;
  for (std::size_t i = 0; i < curve.size(); i += together) {
    std::size_t const n = std::min(together, curve.size() - i);
    double sum = 0;
    for (std::size_t j = i; j < i + n; ++j) sum += curve[j].loss;
    if (std::isfinite(sum)) means.push_back({curve[i + n / 2].step, sum / static_cast<double>(n)});
  }
  return means;
}

/// The digits after the point that multiples of a round number need.
int decimals(double round) { return std::max(0, -static_cast<int>(std::floor(std::log10(round) + 1e-9))); }

struct Colour {
  double r, g, b;
};

/// White to blue; `x` in [0, 1].
Colour shade(double x) {
  constexpr std::array<Colour, 4> stops{{{247, 251, 255}, {158, 202, 225}, {49, 130, 189}, {8, 48, 107}}};
  double const at = std::clamp(x, 0.0, 1.0) * 3;
  auto const i = std::min<std::size_t>(static_cast<std::size_t>(at), 2);
  double const t = at - static_cast<double>(i);
  Colour const &p = stops[i], &q = stops[i + 1];
  return {p.r + t * (q.r - p.r), p.g + t * (q.g - p.g), p.b + t * (q.b - p.b)};
}

std::string fill(Colour c) {
  std::array<char, 24> b;
  std::snprintf(b.data(), b.size(), "fill=\"#%02x%02x%02x\"", static_cast<unsigned>(c.r), static_cast<unsigned>(c.g),
                static_cast<unsigned>(c.b));
  return b.data();
}

/// Text colour on this background. A style, since the card's rule for text overrides an attribute.
std::string ink(Colour c) {
  auto const linear = [](double x) { return std::pow(x / 255, 2.2); };
  double const luminance = 0.2126 * linear(c.r) + 0.7152 * linear(c.g) + 0.0722 * linear(c.b);
  return luminance < 0.18 ? "style=\"fill: #ffffff\"" : "style=\"fill: #111418\"";
}

}  // namespace

std::string loss_svg(Options const& options, Results const& results) {
  constexpr double width = 760, height = 430, left = 64, right = 736, top = 48, bottom = 376;
  std::size_t together = 1;
  auto const train = averaged(results.train, 300, together);
  std::size_t alone = 1;
  auto const validation = averaged(results.validation, std::numeric_limits<std::size_t>::max() / 2, alone);
  double low = std::numeric_limits<double>::infinity(), high = -low;
  Index last = 1;
  for (auto const* curve : {&train, &validation})
    for (LossPoint const& p : *curve) {
      low = std::min(low, p.loss);
      high = std::max(high, p.loss);
      last = std::max(last, p.step);
    }
  if (low > high) low = 0, high = 1;  // no points: empty axes
  double const margin = high > low ? 0.05 * (high - low) : 0.5;
  low -= margin;
  high += margin;
  auto const x = [last](double step) { return left + (right - left) * step / static_cast<double>(last); };
  auto const y = [low, high](double loss) { return bottom + (top - bottom) * (loss - low) / (high - low); };
  auto const points = [&](std::vector<LossPoint> const& curve) {
    std::vector<std::pair<double, double>> v;
    for (LossPoint const& p : curve) v.emplace_back(x(static_cast<double>(p.step)), y(p.loss));
    return v;
  };

  std::string title = "Loss of headmix-lm, attention ";
  title += name(options.attention);
  if (options.attention == Attention::moa)
    title += ", " + std::to_string(options.experts) + " experts, top " + std::to_string(options.top_k);
  if (options.attention == Attention::moh)
    title += ", " + std::to_string(options.shared_heads) + " + " + std::to_string(options.top_k) + " of " +
             std::to_string(options.heads) + " heads";
  if (options.attention == Attention::mae)
    title += ", " + std::to_string(options.experts) + " experts of " + std::to_string(options.heads - options.dropped) +
             " heads, training " + std::string(name(options.training));
  if (options.ffn != Ffn::dense) {
    title += ", ffn " + std::string(name(options.ffn)) + ", " + std::to_string(options.ffn_experts) + " experts, top " +
             std::to_string(options.ffn_top_k);
  }
  if (options.weights == Weights::ternary) title += ", ternary weights";
  Svg svg(width, height, title);
  auto const losses = ticks(low, high, 6);
  int const digits = losses.size() < 2 ? 3 : decimals(losses[1] - losses[0]);
  for (double const t : losses) {
    svg.line(left, y(t), right, y(t), "class=\"grid\"");
    svg.text(left - 8, y(t) + 4, fixed(t, digits), Svg::Anchor::end);
  }
  for (double const t : ticks(0, static_cast<double>(last), 8)) {
    if (t != std::floor(t)) continue;
    svg.line(x(t), bottom, x(t), bottom + 5, "class=\"axis\"");
    svg.text(x(t), bottom + 20, decimal(t, 6), Svg::Anchor::middle);
  }
  svg.polyline({{left, top}, {left, bottom}, {right, bottom}}, "class=\"axis\"");
  svg.text((left + right) / 2, bottom + 42, "step", Svg::Anchor::middle);
  svg.text(0, 0, "nats per byte", Svg::Anchor::middle, "transform=\"translate(18 212) rotate(-90)\"");
  svg.polyline(points(train), "class=\"train\"");
  svg.polyline(points(validation), "class=\"validation\"");
  for (auto const& [px, py] : points(validation)) svg.circle(px, py, 3.5, "class=\"dot\"");

  // The curve falls, so the upper right corner is free.
  constexpr double legend = right - 236;
  std::string label = "training";
  if (together > 1) label += ", means of " + std::to_string(together) + " steps";
  svg.line(legend, top + 14, legend + 26, top + 14, "class=\"train\"");
  svg.text(legend + 34, top + 18, label);
  if (!validation.empty()) {
    svg.line(legend, top + 36, legend + 26, top + 36, "class=\"validation\"");
    svg.circle(legend + 13, top + 36, 3.5, "class=\"dot\"");
    svg.text(legend + 34, top + 40, "validation, at the end " + fixed(validation.back().loss, 3));
  }
  return std::move(svg).finish();
}

std::string experts_svg(LoadTable const& table) {
  std::size_t const layers = table.shares.size(), experts = table.columns();
  constexpr double cell = 46, row = 30, left = 84, top = 62, bar = 240;
  auto const columns = static_cast<double>(experts), rows = static_cast<double>(layers);
  double const even = table.even;
  double most = std::min(1.0, 2 * even);  // an even load is at the middle of the scale
  for (auto const& layer : table.shares)
    for (double const s : layer) most = std::max(most, s);
  double const bottom = top + rows * row, right = left + columns * cell;
  bool const informed = table.information.size() == layers;
  double const width = std::max(right + (informed ? 170 : 24), 470.0);

  Svg svg(width, bottom + 76, table.title);
  for (std::size_t e = 0; e < experts; ++e)
    svg.text(left + (static_cast<double>(e) + 0.5) * cell, top - 8, std::to_string(e), Svg::Anchor::middle);
  svg.text(left - 10, top - 8, table.heads ? "head" : "expert", Svg::Anchor::end);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    double const y = top + static_cast<double>(layer) * row;
    svg.text(left - 10, y + row / 2 + 5, "layer " + std::to_string(layer), Svg::Anchor::end);
    for (std::size_t e = 0; e < table.shares[layer].size(); ++e) {
      double const x = left + static_cast<double>(e) * cell, s = table.shares[layer][e];
      svg.rectangle(x + 1, y + 1, cell - 2, row - 2, fill(shade(s / most)));
      svg.text(x + cell / 2, y + row / 2 + 5, fixed(100 * s, 1), Svg::Anchor::middle, ink(shade(s / most)));
    }
  }

  // Information in nats.
  if (informed) {
    auto const column = [&](double x, char const* title, double ExpertInformation::*value) {
      svg.text(x, top - 8, title, Svg::Anchor::middle);
      for (std::size_t layer = 0; layer < layers; ++layer)
        svg.text(x, top + (static_cast<double>(layer) + 0.5) * row + 5, fixed(table.information[layer].*value, 2),
                 Svg::Anchor::middle);
    };
    column(right + 44, "entropy", &ExpertInformation::entropy);
    column(right + 118, "by the byte", &ExpertInformation::information);
  }

  // The colour scale.
  constexpr int steps = 60;
  double const y = bottom + 26;
  for (int i = 0; i < steps; ++i)
    svg.rectangle(left + bar * i / steps, y, bar / steps + 0.5, 14, fill(shade((i + 0.5) / steps)));
  svg.rectangle(left, y, bar, 14, "class=\"axis\"");
  auto const mark = [&](double s, std::string const& label) {
    double const x = left + bar * s / most;
    svg.line(x, y + 14, x, y + 19, "class=\"axis\"");
    svg.text(x, y + 33, label, Svg::Anchor::middle);
  };
  mark(0, "0");
  mark(even, fixed(100 * even, 1) + " even");
  if (most > 1.5 * even) mark(most, fixed(100 * most, 1));
  return std::move(svg).finish();
}

}  // namespace lm
