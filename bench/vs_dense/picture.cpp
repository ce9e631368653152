// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "../../examples/language_model/svg.hpp"
#include "configuration.hpp"
#include "headmix/core/error.hpp"

namespace bench {
namespace {

using lm::Svg;

/// Values of dense attention and of the layer along an axis.
struct Panel {
  std::string title, unit;
  std::vector<std::string> places;  ///< labels of the points, which are evenly spaced
  std::vector<double> dense, layer;
};

void draw_panel(Svg& svg, Panel const& p, double left, double top, double width, double height) {
  double const bottom = top + height, right = left + width;
  double const most =
      std::max(*std::max_element(p.dense.begin(), p.dense.end()), *std::max_element(p.layer.begin(), p.layer.end()));
  double const high = most > 0 ? 1.08 * most : 1;
  auto const x = [&](std::size_t i) {
    auto const n = static_cast<double>(p.places.size());
    return n < 2 ? (left + right) / 2 : left + 12 + (width - 24) * static_cast<double>(i) / (n - 1);
  };
  auto const y = [&](double value) { return bottom - height * value / high; };
  svg.text(left, top - 12, p.title, Svg::Anchor::start);
  for (double const t : lm::ticks(0, high, 4)) {
    svg.line(left, y(t), right, y(t), "class=\"grid\"");
    svg.text(left - 8, y(t) + 4, lm::decimal(t, 3), Svg::Anchor::end);
  }
  svg.text(left - 8, bottom + 22, p.unit, Svg::Anchor::end);
  svg.line(left, bottom, right, bottom, "class=\"axis\"");
  for (std::size_t i = 0; i < p.places.size(); ++i) svg.text(x(i), bottom + 22, p.places[i], Svg::Anchor::middle);
  auto const curve = [&](std::vector<double> const& values, char const* attributes) {
    std::vector<std::pair<double, double>> points;
    for (std::size_t i = 0; i < values.size(); ++i) points.emplace_back(x(i), y(values[i]));
    svg.polyline(points, attributes);
  };
  curve(p.dense, "class=\"validation\"");
  curve(p.layer, "class=\"train\"");
}

}  // namespace

std::string draw(Configuration const& c, std::vector<Comparison> const& by_length,
                 std::vector<Comparison> const& by_active) {
  Svg svg(900, 640, headmix::message(c.title(), ", beside dense attention"));
  svg.line(18, 52, 46, 52, "class=\"train\"");
  svg.text(52, 56, "the layer");
  svg.line(150, 52, 178, 52, "class=\"validation\"");
  svg.text(184, 56,
           headmix::message("dense attention with ", c.heads, " heads; forward and backward, model width ", c.model_dim,
                            ", mask ", c.causal ? "causal" : "full", ", float, ", c.threads,
                            c.threads == 1 ? " thread" : " threads"));
  auto const panel = [&](std::string title, std::string unit, std::vector<Comparison> const& rows, bool lengths,
                         std::function<double(Comparison const&)> const& dense,
                         std::function<double(Comparison const&)> const& layer) {
    Panel p{std::move(title), std::move(unit), {}, {}, {}};
    for (Comparison const& r : rows) {
      p.places.push_back(std::to_string(lengths ? r.length : r.active));
      p.dense.push_back(dense(r));
      p.layer.push_back(layer(r));
    }
    return p;
  };
  std::string const at_length = headmix::message(" at length ", c.lengths.back());
  auto const dense_ms = [](Comparison const& r) { return r.dense_ms[1]; };
  auto const layer_ms = [](Comparison const& r) { return r.layer_ms[1]; };
  auto const dense_mib = [](Comparison const& r) { return r.dense_mib; };
  auto const layer_mib = [](Comparison const& r) { return r.layer_mib; };
  draw_panel(svg, panel("Time by length", "ms", by_length, true, dense_ms, layer_ms), 66, 104, 350, 200);
  draw_panel(svg,
             panel(
                 headmix::message("Time by active heads", at_length, ", relative to dense"), "", by_active, false,
                 [](Comparison const&) { return 1.0; }, [](Comparison const& r) { return r.relative[1]; }),
             516, 104, 350, 200);
  draw_panel(svg, panel("Memory by length", "MiB", by_length, true, dense_mib, layer_mib), 66, 386, 350, 200);
  draw_panel(
      svg, panel(headmix::message("Memory by active heads", at_length), "MiB", by_active, false, dense_mib, layer_mib),
      516, 386, 350, 200);
  return std::move(svg).finish();
}

}  // namespace bench
