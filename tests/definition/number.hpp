#pragma once
// SPDX-License-Identifier: MIT
// Numbers of the definitions: a double and its place on a tape, from which the exact derivatives of a sum are read
// backwards. No header of the library is included here.

#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

namespace headmix::definition {

/// A step of a calculation: derivatives of its value by at most two earlier ones.
struct tape_step {
  int from[2];
  double by[2];
};
inline std::vector<tape_step> tape;

/// A number; `at` is its step on the tape, -1 for a constant.
struct Number {
  double value = 0;
  int at = -1;

  Number() = default;
  Number(double constant) : value(constant) {}
};

/// A number whose derivative is asked for.
inline Number variable(double value) {
  Number x(value);
  x.at = static_cast<int>(tape.size());
  tape.push_back({{-1, -1}, {0, 0}});
  return x;
}
/// The result of a step with the derivatives by_a and by_b.
inline Number step(double value, Number a, double by_a, Number b = {}, double by_b = 0) {
  Number y(value);
  if (a.at >= 0 || b.at >= 0) {
    y.at = static_cast<int>(tape.size());
    tape.push_back({{a.at, b.at}, {by_a, by_b}});
  }
  return y;
}
/// The derivatives of y by every number on the tape; with `absolute` the sums of the absolute values of their terms.
inline std::vector<double> derivatives(Number y, bool absolute = false) {
  std::vector<double> d(tape.size());
  if (y.at >= 0) d[static_cast<std::size_t>(y.at)] = 1;
  for (std::size_t i = tape.size(); i-- > 0;) {
    for (int side = 0; side < 2; ++side) {
      double const by = absolute ? std::fabs(tape[i].by[side]) : tape[i].by[side];
      if (tape[i].from[side] >= 0) d[static_cast<std::size_t>(tape[i].from[side])] += d[i] * by;
    }
  }
  return d;
}

inline Number operator+(Number a, Number b) { return step(a.value + b.value, a, 1, b, 1); }
inline Number operator-(Number a, Number b) { return step(a.value - b.value, a, 1, b, -1); }
inline Number operator*(Number a, Number b) { return step(a.value * b.value, a, b.value, b, a.value); }
inline Number operator/(Number a, Number b) {
  return step(a.value / b.value, a, 1 / b.value, b, -a.value / (b.value * b.value));
}
inline Number& operator+=(Number& a, Number b) { return a = a + b; }
inline Number exp(Number a) { return step(std::exp(a.value), a, std::exp(a.value)); }
inline Number log(Number a) { return step(std::log(a.value), a, 1 / a.value); }
inline Number tanh(Number a) {
  double const y = std::tanh(a.value);
  return step(y, a, 1 - y * y);
}
/// The square root; the derivative at 0 is 0.
inline Number root(Number a) {
  double const y = std::sqrt(a.value);
  return step(y, a, y > 0 ? 0.5 / y : 0);
}
inline Number sigmoid(Number a) {
  double const y = 1 / (1 + std::exp(-a.value));
  return step(y, a, y * (1 - y));
}
inline Number softplus(Number a) { return step(std::log1p(std::exp(a.value)), a, 1 / (1 + std::exp(-a.value))); }
/// The cumulative normal distribution.
inline Number normal_cdf(Number a) {
  return step(0.5 * std::erfc(-a.value / std::numbers::sqrt2), a,
              std::exp(-a.value * a.value / 2) / std::sqrt(2 * std::numbers::pi));
}

/// What a derivative takes for constants: detached values, choices and roundings. A first evaluation records them, and
/// evaluations at neighbouring arguments read them again, so that difference quotients have the same meaning.
struct Constants {
  std::vector<double> recorded;
  std::size_t next = 0;
  bool replay = false;

  double operator()(double value) {
    if (replay) return recorded[next++];
    recorded.push_back(value);
    return value;
  }
};
inline Constants constants;

/// max(a, least), on the side that a is on.
inline Number larger(Number a, double least) { return constants(a.value > least ? 1 : 0) != 0 ? a : Number(least); }
inline Number detach(Number a) { return constants(a.value); }
/// `value`, with the derivatives of `like`.
inline Number straight_through(double value, Number like) { return like + Number(constants(value - like.value)); }

using Row = std::vector<Number>;

inline Number sum(Row const& a) {
  Number s;
  for (Number const& x : a) s += x;
  return s;
}
inline double largest(Row const& a) {
  double m = a[0].value;
  for (Number const& x : a) m = x.value > m ? x.value : m;
  return m;
}
inline Row softmax(Row const& z) {
  Number const top = largest(z);
  Row p;
  for (Number const& x : z) p.push_back(exp(x - top));
  Number const all = sum(p);
  for (Number& x : p) x = x / all;
  return p;
}
inline Number log_sum_exp(Row const& z) {
  Number const top = largest(z);
  Number s;
  for (Number const& x : z) s += exp(x - top);
  return log(s) + top;
}
/// The columns of the k largest numbers, largest first; of equal ones the one further left.
inline std::vector<std::ptrdiff_t> largest_columns(std::vector<double> values, std::ptrdiff_t k) {
  std::vector<std::ptrdiff_t> found;
  for (std::ptrdiff_t n = 0; n < k; ++n) {
    std::size_t best = values.size();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!std::isnan(values[i]) && (best == values.size() || values[i] > values[best])) best = i;
    }
    best = static_cast<std::size_t>(constants(static_cast<double>(best)));
    found.push_back(static_cast<std::ptrdiff_t>(best));
    values[best] = std::nan("");
  }
  return found;
}

}  // namespace headmix::definition
