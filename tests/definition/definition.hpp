#pragma once
// SPDX-License-Identifier: MIT
// A layer's results, losses and gradients by its definition. No header of the library is included here.

#include <sstream>

#include "attention.hpp"
#include "mh_moe.hpp"

namespace headmix::definition {

inline Results results(layer_options const& o, Values const& v, Inputs const& in) {
  return o.family == family::mh_moe ? mh_moe(o, v, in) : Attention(o, v, in).run();
}

/// Arrays by name, row-major: parameters, buffers, "x", "context" and "values".
using Arrays = std::map<std::string, std::vector<double>>;

/// What a pass gets besides the arrays.
struct Setting {
  std::vector<Sequence> sequences;
  Draws draws;
  std::vector<double> dy, loss_weights;
};
/// What a pass gives; `gradients` are those of <dy, y> + sum of loss_weights_i losses_i.
struct Pass {
  std::vector<double> y, losses;
  std::vector<std::vector<Count>> chosen;
  Arrays gradients;
  std::map<std::string, double> terms;  ///< the largest sum of absolute values of the terms of a gradient
};

namespace detail {
/// The arrays as numbers, those of inputs as rows.
inline void bind(layer_options const& o, std::map<std::string, Row> const& numbers, Values& v, Inputs& in) {
  for (auto const& [name, row] : numbers) {
    if (name == "x" || name == "context" || name == "values") {
      Count const width = name == "x" ? o.width : name == "context" ? o.context_width : o.value_width;
      auto& rows = name == "x" ? in.x : name == "context" ? in.context : in.values;
      for (Count i = 0; i < static_cast<Count>(row.size()); i += width) rows.push_back(part(row, i, width));
    } else {
      v.all[name] = row;
    }
  }
}
inline Number objective(Setting const& s, Results const& r) {
  Number f;
  std::size_t i = 0;
  for (Row const& row : r.y) {
    for (Number const& y : row) {
      if (y.at >= 0 || y.value != 0) f += Number(s.dy[i]) * y;
      ++i;
    }
  }
  for (std::size_t l = 0; l < r.losses.size(); ++l) f += Number(s.loss_weights.at(l)) * r.losses[l];
  return f;
}
}  // namespace detail

/// By the definition. `slope_error` is how far the gradients are from a difference quotient of the definition along one
/// direction of all arrays, relative; its error is of the fourth order of steps of 1e-4 (Richardson).
inline Pass pass_of(layer_options const& o, Arrays const& arrays, Setting const& s, double& slope_error) {
  tape.clear();
  constants = {};
  std::map<std::string, Row> numbers;
  for (auto const& [name, values] : arrays) {
    for (double const value : values) numbers[name].push_back(variable(value));
  }
  Values v;
  Inputs in{{}, {}, {}, s.sequences, s.draws};
  detail::bind(o, numbers, v, in);
  Results const r = results(o, v, in);
  Number const f = detail::objective(s, r);
  auto const d = derivatives(f), absolute = derivatives(f, true);
  tape.clear();

  Pass found;
  for (Row const& row : r.y) {
    for (Number const& y : row) found.y.push_back(y.value);
  }
  for (Number const& l : r.losses) found.losses.push_back(l.value);
  found.chosen = r.chosen;
  double slope = 0;
  Arrays direction;
  unsigned state = 1;
  for (auto const& [name, row] : numbers) {
    for (Number const& x : row) {
      state = state * 1664525u + 1013904223u;
      double const by = std::isnan(x.value) ? 0 : static_cast<double>(state >> 8) * 0x1p-23 - 1;
      found.gradients[name].push_back(d[static_cast<std::size_t>(x.at)]);
      double& most = found.terms["d " + name];
      if (absolute[static_cast<std::size_t>(x.at)] > most) most = absolute[static_cast<std::size_t>(x.at)];
      direction[name].push_back(by);
      slope += by * found.gradients[name].back();
    }
  }
  auto const moved = [&](double by) {
    constants.replay = true, constants.next = 0;
    std::map<std::string, Row> at;
    for (auto const& [name, values] : arrays) {
      for (std::size_t i = 0; i < values.size(); ++i)
        at[name].push_back(std::isnan(values[i]) ? values[i] : values[i] + by * direction[name][i]);
    }
    Values moved_values;
    Inputs moved_inputs{{}, {}, {}, s.sequences, s.draws};
    detail::bind(o, at, moved_values, moved_inputs);
    return detail::objective(s, results(o, moved_values, moved_inputs)).value;
  };
  double const h = 1e-4;
  double const wide = (moved(h) - moved(-h)) / (2 * h), narrow = (moved(h / 2) - moved(-h / 2)) / h;
  slope_error = std::abs((4 * narrow - wide) / 3 - slope) / (1 + std::abs(slope));
  return found;
}

/// The allowed difference of each record of a pass: y, losses, and gradients by name.
class Allowed {
 public:
  Allowed() = default;
  /// This part of the largest number of a record, at least of 1/4. Where the terms of a gradient cancel to less than
  /// 1/32 of the sum of their absolute values, 1/8 of that sum counts, since each term is rounded.
  Allowed(Pass const& expected, double relative) {
    each(expected, expected, [&](std::string const& name, auto const& values, auto const&) {
      double most = 0;
      for (double const e : values) most = std::abs(e) > most ? std::abs(e) : most;
      auto const terms = expected.terms.find(name);
      if (terms != expected.terms.end() && most < terms->second / 32) most = terms->second / 8;
      by_name_[name] = relative * (most > 0.25 ? most : 0.25);
    });
  }
  /// Adds `factor` times the largest difference of another pass, where that is more than added before.
  void widen(Pass const& nearby, Pass const& expected, double factor) {
    each(nearby, expected, [&](std::string const& name, auto const& values, auto const& others) {
      double worst = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        double const change = std::abs(values[i] - others[i]);
        if (change > worst) worst = change;
      }
      double& before = added_[name];
      if (factor * worst > before) by_name_[name] += factor * worst - before, before = factor * worst;
    });
  }
  [[nodiscard]] double operator[](std::string const& name) const { return by_name_.at(name); }

 private:
  template <class F>
  static void each(Pass const& a, Pass const& b, F f) {
    f("y", a.y, b.y);
    f("losses", a.losses, b.losses);
    for (auto const& [name, values] : a.gradients) f("d " + name, values, b.gradients.at(name));
  }

  std::map<std::string, double> by_name_, added_;
};

namespace detail {
inline void compare(std::ostringstream& text, std::string const& what, std::vector<double> const& found,
                    std::vector<double> const& expected, double allowed) {
  if (found.size() != expected.size()) {
    text << what << ": " << found.size() << " numbers, expected " << expected.size() << "\n";
    return;
  }
  double worst = 0;
  std::size_t at = 0, wrong = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    double const error = std::abs(found[i] - expected[i]);
    if (!(error <= allowed)) ++wrong;
    if (!(error <= worst)) worst = error, at = i;
  }
  if (wrong > 0) {
    text.precision(12);
    text << what << ": " << wrong << " of " << found.size() << " numbers differ by more than " << allowed << ", at "
         << at << " " << found[at] << ", expected " << expected[at] << "\n";
  }
}
}  // namespace detail

/// The differences of a layer's pass from the definition; empty if there are none.
inline std::string differences(Pass const& found, Pass const& expected, Allowed const& allowed) {
  std::ostringstream text;
  detail::compare(text, "y", found.y, expected.y, allowed["y"]);
  detail::compare(text, "losses", found.losses, expected.losses, allowed["losses"]);
  if (!found.chosen.empty() && found.chosen != expected.chosen) text << "choices differ\n";
  for (auto const& [name, gradient] : found.gradients) {
    auto const of_definition = expected.gradients.find(name);
    bool const known = of_definition != expected.gradients.end();
    detail::compare(text, "d " + name, gradient, known ? of_definition->second : std::vector<double>(),
                    known ? allowed["d " + name] : 0);
  }
  return text.str();
}
inline std::string differences(Pass const& found, Pass const& expected, double tolerance) {
  return differences(found, expected, Allowed(expected, tolerance));
}

}  // namespace headmix::definition
