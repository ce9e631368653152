#pragma once
// SPDX-License-Identifier: MIT
// The SVG elements of the report, written into a string.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lm {

/// A drawing on a card with its own background, readable on white and dark pages; if the viewer knows the page's colour
/// scheme, the card is dark on a dark page. Text has the colour of the card.
class Svg {
 public:
  enum class Anchor { start, middle, end };

  Svg(double width, double height, std::string_view title);

  void text(double x, double y, std::string_view s, Anchor anchor = Anchor::start, std::string_view attributes = "");
  /// `attributes` such as `class="grid"` or `fill="#123456"`; classes of the card are axis, grid, train, validation.
  void line(double x1, double y1, double x2, double y2, std::string_view attributes);
  void rectangle(double x, double y, double width, double height, std::string_view attributes);
  void circle(double x, double y, double r, std::string_view attributes);
  void polyline(std::vector<std::pair<double, double>> const& points, std::string_view attributes);

  [[nodiscard]] std::string finish() &&;

 private:
  std::string s_;
};

/// x with `digits` digits after the point.
[[nodiscard]] std::string fixed(double x, int digits);
/// x with at most `digits` digits after the point, without zeros at the end.
[[nodiscard]] std::string decimal(double x, int digits);

/// Round numbers (1, 2 or 5 times a power of ten apart), about `count` of them, within [low, high].
[[nodiscard]] std::vector<double> ticks(double low, double high, int count);

}  // namespace lm
