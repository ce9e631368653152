// SPDX-License-Identifier: MIT
// SVG elements, numbers and ticks.

#include "svg.hpp"

#include <array>
#include <cmath>
#include <cstdio>

namespace lm {
namespace {

constexpr std::string_view style = R"(<style>
.card { fill: #ffffff; stroke: #c8ccd2 }
text { font: 13px system-ui, "DejaVu Sans", Arial, sans-serif; fill: #24292f }
.title { font-size: 16px; font-weight: bold }
.axis { stroke: #57606a; fill: none }
.grid { stroke: #e3e6ea }
.train { stroke: #2f6fbf; fill: none; stroke-width: 1.6; stroke-linejoin: round }
.validation { stroke: #c8501e; fill: none; stroke-width: 2 }
.dot { fill: #c8501e }
@media (prefers-color-scheme: dark) {
.card { fill: #161b22; stroke: #444c56 }
text { fill: #d5dbe2 }
.axis { stroke: #909aa5 }
.grid { stroke: #2b323b }
.train { stroke: #6ea8f0 }
.validation { stroke: #f08c5a }
.dot { fill: #f08c5a }
}
</style>
)";

std::string escaped(std::string_view text) {
  std::string s;
  for (char const c : text) s += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return s;
}

/// Appends in place, since g++ 12 warns wrongly (-Wrestrict) about a literal plus a temporary string.
template <class... Parts>
void append(std::string& s, Parts const&... parts) {
  (s.append(parts), ...);
}

/// ` name="x"`
std::string attribute(std::string_view name, double x) {
  std::string s = " ";
  append(s, name, "=\"", decimal(x, 2), "\"");
  return s;
}

}  // namespace

std::string fixed(double x, int digits) {
  std::array<char, 400> b;
  std::snprintf(b.data(), b.size(), "%.*f", digits, x);
  return b.data();
}

std::string decimal(double x, int digits) {
  std::string s = fixed(x, digits);
  if (s.find('.') != std::string::npos) {
    s.erase(s.find_last_not_of('0') + 1);
    if (s.back() == '.') s.pop_back();
  }
  return s == "-0" ? "0" : s;
}

std::vector<double> ticks(double low, double high, int count) {
  double const rough = (high - low) / count;
  double const power = std::pow(10.0, std::floor(std::log10(rough)));
  double const m = rough / power;
  double const apart = power * (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10);
  std::vector<double> t;
  for (double i = std::ceil(low / apart - 1e-9); i * apart <= high + 1e-9 * apart; ++i) t.push_back(i * apart);
  return t;
}

Svg::Svg(double width, double height, std::string_view title) {
  std::string const w = decimal(width, 0), h = decimal(height, 0);
  append(s_, R"(<svg xmlns="http://www.w3.org/2000/svg" width=")", w, "\" height=\"", h, "\" viewBox=\"0 0 ", w, " ", h,
         "\" role=\"img\">\n<title>", escaped(title), "</title>\n", style);
  rectangle(0.5, 0.5, width - 1, height - 1, "class=\"card\" rx=\"6\"");
  text(18, 28, title, Anchor::start, "class=\"title\"");
}

void Svg::text(double x, double y, std::string_view s, Anchor anchor, std::string_view attributes) {
  std::string_view const side = anchor == Anchor::start ? "start" : anchor == Anchor::middle ? "middle" : "end";
  append(s_, "<text", attribute("x", x), attribute("y", y), " text-anchor=\"", side, "\" ", attributes, ">", escaped(s),
         "</text>\n");
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view attributes) {
  append(s_, "<line", attribute("x1", x1), attribute("y1", y1), attribute("x2", x2), attribute("y2", y2), " ",
         attributes, "/>\n");
}

void Svg::rectangle(double x, double y, double width, double height, std::string_view attributes) {
  append(s_, "<rect", attribute("x", x), attribute("y", y), attribute("width", width), attribute("height", height), " ",
         attributes, "/>\n");
}

void Svg::circle(double x, double y, double r, std::string_view attributes) {
  append(s_, "<circle", attribute("cx", x), attribute("cy", y), attribute("r", r), " ", attributes, "/>\n");
}

void Svg::polyline(std::vector<std::pair<double, double>> const& points, std::string_view attributes) {
  append(s_, "<polyline ", attributes, " points=\"");
  for (auto const& [x, y] : points) append(s_, decimal(x, 1), ",", decimal(y, 1), " ");
  append(s_, "\"/>\n");
}

std::string Svg::finish() && {
  s_ += "</svg>\n";
  return std::move(s_);
}

}  // namespace lm
