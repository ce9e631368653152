#pragma once
// SPDX-License-Identifier: MIT
// Shared parts of the kernel checks: operands with equal content for the backend and the reference, and the record of
// the results.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "headmix/backend/reference.hpp"
#include "headmix/contract/backend_policy.hpp"
#include "headmix/contract/memory.hpp"
#include "headmix/core/digest.hpp"
#include "headmix/core/error.hpp"

namespace headmix {

struct conformance_options {
  /// Tolerance of || found - expected || / || expected || for one operand; 0: by the backend's scalar, 1e-11 for
  /// double, 2e-5 for float, 1e-2 for 16 bits. Choices, orders and counts must be exact.
  double tolerance = 0;
  /// Also runs sizes of many tiles: minutes on an emulator.
  bool large = false;
  /// Rows of the longest sums, below 2^31. Kernels with sequential sums are already off at 2^16 rows.
  Index sum_rows = Index{1} << 16;
  /// Called before (true) and after (false) every kernel, e.g. to check for allocations.
  std::function<void(bool)> watch = {};
};

/// A kernel that differs from Reference.
struct conformance_failure {
  std::string kernel, text;
};

/// A kernel that is not checked, and the reason.
struct conformance_skip {
  std::string kernel, reason;
};

struct conformance_result {
  std::vector<conformance_failure> failures;
  std::vector<conformance_skip> skips;
  Index checks = 0;          ///< number of compared operands
  std::uint64_t digest = 0;  ///< of everything that the kernels wrote: equal for all executors of a backend

  [[nodiscard]] bool ok() const { return failures.empty(); }
  /// A line for each failure, and for each unchecked kernel.
  [[nodiscard]] std::string text() const {
    std::string all;
    for (auto const& f : failures) all += f.kernel + ": " + f.text + '\n';
    for (auto const& s : skips) all += s.kernel + ": not checked, " + s.reason + '\n';
    return all;
  }
};

namespace detail::conformance {

enum class layout { plain, gaps, transposed };
inline constexpr layout all_layouts[] = {layout::plain, layout::gaps, layout::transposed};

struct extent {
  Index rows, cols;
};
/// Empty, single rows and columns, and sizes that no tile divides.
inline constexpr extent odd_extents[] = {{0, 5}, {5, 0}, {1, 1}, {1, 37}, {33, 1}, {7, 13}, {65, 41}};

/// The record of a run.
class record {
 public:
  record(conformance_options const& options, conformance_result& result) : options_(options), result_(&result) {}

  /// Sets the kernel and the case of the following comparisons.
  template <class... T>
  void begin(char const* kernel, T const&... what) {
    kernel_ = kernel;
    case_ = message(what...);
  }
  [[nodiscard]] conformance_options const& options() const { return options_; }
  void fail(std::string const& text) {
    // A wrong kernel fails in many cases; only the first are recorded.
    auto const known = std::count_if(result_->failures.begin(), result_->failures.end(),
                                     [this](auto const& f) { return f.kernel == kernel_; });
    if (known < 3) result_->failures.push_back({kernel_, case_ + ": " + text});
  }
  /// Compares two lists of the elements [rows, cols] of a matrix or stack.
  void compare(char const* operand, std::vector<double> const& found, std::vector<double> const& expected, Index cols,
               double tolerance) {
    ++result_->checks;
    double difference = 0, norm = 0, worst = -1;
    std::size_t at = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      double const a = found[i], b = expected[i];
      if (a == b || (std::isnan(a) && std::isnan(b))) {
        if (std::isfinite(b)) norm += b * b;
        continue;
      }
      double const d = std::isfinite(a) && std::isfinite(b) ? std::abs(a - b) : std::numeric_limits<double>::infinity();
      if (d > worst) worst = d, at = i;
      difference += d * d;
      norm += std::isfinite(b) ? b * b : 0;
    }
    double const error = norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
    if (error <= tolerance) return;
    auto const n = static_cast<Index>(at), width = (std::max)(cols, Index{1});
    fail(message(operand, "(", n / width, ", ", n % width, ") is ", found[at], ", expected ", expected[at],
                 "; relative error ", error, ", allowed ", tolerance));
  }
  void digest(void const* data, std::size_t bytes) {
    auto const* const p = static_cast<unsigned char const*>(data);
    for (std::size_t i = 0; i < bytes; ++i) result_->digest = headmix::detail::fnv1a(result_->digest, p[i]);
  }

 private:
  conformance_options const& options_;
  conformance_result* result_;
  std::string kernel_, case_;
};

/// A backend under test.
template <class B>
class bench : public record {
 public:
  using scalar = typename B::scalar;
  using wide = accumulator_t<scalar>;

  bench(B& b, conformance_options const& options, conformance_result& result) : record(options, result), backend(b) {}

  template <class F>
  void run(F kernel) {
    if (options().watch) options().watch(true);
    kernel();
    if (options().watch) options().watch(false);
    check_guard();
  }
  /// The tolerance for results of type T.
  template <class T>
  [[nodiscard]] double tolerance() const {
    if (std::is_same_v<T, Int>) return 0;
    if (options().tolerance > 0) return options().tolerance;
    return std::is_same_v<T, double> ? 1e-11 : std::is_same_v<T, float> ? 2e-5 : 1e-2;
  }
  /// Scratch memory of this size, followed by a guard that run() checks.
  [[nodiscard]] std::span<std::byte> scratch(std::size_t bytes) {
    if (scratch_.bytes().size() != bytes + guard) scratch_ = headmix::backend_memory<B>(bytes + guard);
    make_guard();
    return scratch_.bytes().first(bytes);
  }
  [[nodiscard]] std::uint64_t next_stream() { return ++stream_; }

  B& backend;
  Reference<double> reference;
  bool stored_probabilities = false;  ///< some attention stored probabilities

 private:
  static constexpr std::size_t guard = 1024;
  static constexpr unsigned char guard_byte = 0xA5;
  [[nodiscard]] unsigned char* behind_scratch() {
    return scratch_.template as<unsigned char>() + (scratch_.bytes().size() - guard);
  }
  void make_guard() {
    std::vector<unsigned char> const untouched(guard, guard_byte);
    upload(backend, behind_scratch(), untouched.data(), guard);
  }
  void check_guard() {
    if (scratch_.bytes().empty()) return;
    std::vector<unsigned char> found(guard);
    download(backend, found.data(), static_cast<unsigned char const*>(behind_scratch()), guard);
    auto const is_other = [](unsigned char byte) { return byte != guard_byte; };
    auto const first = std::find_if(found.begin(), found.end(), is_other);
    if (first == found.end()) return;
    this->fail(message("writes byte ", first - found.begin(), " behind its ", scratch_.bytes().size() - guard,
                       " bytes of scratch memory"));
    make_guard();
  }

  headmix::backend_memory<B> scratch_;
  std::uint64_t stream_ = 0;
};

/// A matrix or a stack: in T for the backend, in H with the same values for the reference.
template <class B, class T, class H = std::conditional_t<std::is_same_v<T, Int>, Int, double>>
class operand {
 public:
  /// Random values in [-0.5, 0.5); for Int, -7.
  operand(bench<B>& b, Index rows, Index cols, layout form = layout::plain, Index count = 1) : bench_(&b) {
    lay_out(rows, cols, form, count);
    Random const random(11, b.next_stream());
    for (std::size_t i = 0; i < host_.size(); ++i) {
      if constexpr (std::is_same_v<T, Int>) {
        host_[i] = -7;
      } else {
        host_[i] = static_cast<H>(static_cast<T>(random.uniform(i) - 0.5));
      }
    }
    send();
  }
  /// An operand with these values, row by row.
  operand(bench<B>& b, std::vector<H> const& values, Index rows, Index cols, layout form = layout::plain)
      : operand(b, rows, cols, form) {
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) view_(i, j) = values[static_cast<std::size_t>(i * cols + j)];
    }
    send();
  }

  operand(operand const&) = delete;
  operand& operator=(operand const&) = delete;

  [[nodiscard]] view<H> host() { return view_; }
  [[nodiscard]] view<H const> host() const { return view_; }
  [[nodiscard]] view<T> device() {
    view<T> v(memory_.template as<T>(), view_.count, view_.rows, view_.cols);
    v.stack_stride = view_.stack_stride, v.row_stride = view_.row_stride, v.col_stride = view_.col_stride;
    return v;
  }
  [[nodiscard]] view<T const> in() { return device(); }
  /// Copies the host's values to the backend, rounded to T; the host keeps the rounded values.
  void send() {
    std::vector<T> values;
    values.reserve(host_.size());
    for (H& h : host_) {
      values.push_back(static_cast<T>(h));
      h = static_cast<H>(values.back());
    }
    if (memory_.bytes().size() < values.size() * sizeof(T))
      memory_ = headmix::backend_memory<B>(values.size() * sizeof(T));
    upload(bench_->backend, memory_.template as<T>(), values.data(), values.size());
  }
  /// Copies the backend's values to the host.
  void receive() {
    auto const values = get();
    for (std::size_t i = 0; i < values.size(); ++i) host_[i] = static_cast<H>(values[i]);
  }
  /// Checks that the backend's values equal the host's, and that gaps between elements are unchanged.
  void check(char const* name, double times = 1) const { check_within(name, times * bench_->template tolerance<T>()); }
  void check_exact(char const* name) const { check_within(name, 0); }
  /// The check by stretches of `width` elements of a row: a stretch with a non-finite number must have one, anywhere.
  void check_stretches(char const* name, Index width, double times = 1) const {
    check_within(name, times * bench_->template tolerance<T>(), width);
  }
  /// Sets an element on both sides.
  void set(Index i, Index j, double value) {
    view_(i, j) = static_cast<H>(value);
    send();
  }

 private:
  void lay_out(Index rows, Index cols, layout form, Index count) {
    Index const row = form == layout::gaps ? 2 * cols + 3 : cols, matrix = rows * row + (form == layout::gaps ? 5 : 0);
    host_.resize(static_cast<std::size_t>(count * matrix));
    view_ = view<H>(host_.data(), count, rows, cols);
    view_.stack_stride = matrix;
    if (form == layout::gaps) view_.row_stride = row, view_.col_stride = 2;
    if (form == layout::transposed) view_.row_stride = 1, view_.col_stride = rows;
  }
  [[nodiscard]] std::vector<T> get() const {
    std::vector<T> values(host_.size());
    download(bench_->backend, values.data(), memory_.template as<T>(), values.size());
    return values;
  }
  static void join_not_finite(std::vector<double>& values, Index width) {
    auto const each = static_cast<std::size_t>(width);
    for (std::size_t i = 0; each > 1 && i + each <= values.size(); i += each) {
      auto const first = values.begin() + static_cast<std::ptrdiff_t>(i), last = first + width;
      if (std::any_of(first, last, [](double x) { return !std::isfinite(x); }))
        std::fill(first, last, std::numeric_limits<double>::quiet_NaN());
    }
  }
  void check_within(char const* name, double tolerance, Index width = 1) const {
    auto const values = get();
    bench_->digest(values.data(), values.size() * sizeof(T));
    std::vector<double> found, expected;
    found.reserve(values.size());
    expected.reserve(values.size());
    std::vector<bool> element(values.size());
    for (Index e = 0; e < view_.count; ++e) {
      for (Index i = 0; i < view_.rows; ++i) {
        for (Index j = 0; j < view_.cols; ++j) {
          auto const at =
              static_cast<std::size_t>(e * view_.stack_stride + i * view_.row_stride + j * view_.col_stride);
          element[at] = true;
          found.push_back(static_cast<double>(values[at]));
          expected.push_back(static_cast<double>(host_[at]));
        }
      }
    }
    join_not_finite(found, width);
    join_not_finite(expected, width);
    bench_->compare(name, found, expected, view_.cols, tolerance);
    for (std::size_t at = 0; at < values.size(); ++at) {
      if (element[at] || static_cast<H>(values[at]) == host_[at]) continue;
      bench_->fail(message(name, ": memory between its elements was written"));
      return;
    }
  }

  bench<B>* bench_;
  std::vector<H> host_;
  view<H> view_;
  headmix::backend_memory<B> memory_;
};
template <class B>
using int_operand = operand<B, Int>;

/// Random choices in {-1, 0, ..., n - 1}, every fourth of them -1.
inline std::vector<Int> random_choices(Index size, Index n, std::uint64_t stream = 1) {
  std::vector<Int> chosen;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(size); ++i) {
    bool const nothing = n == 0 || Random(21, stream).below(i, 4) == 0;
    chosen.push_back(nothing ? -1 : static_cast<Int>(Random(22, stream).below(i, static_cast<std::uint64_t>(n))));
  }
  return chosen;
}
/// Distinct choices in each row, some of them -1.
inline std::vector<Int> distinct_choices(Index rows, Index cols, Index n) {
  std::vector<Int> chosen;
  for (Index i = 0; i < rows; ++i) {
    for (Index k = 0; k < cols; ++k) chosen.push_back((i + k) % 5 == 0 ? -1 : static_cast<Int>((7 * i + k) % n));
  }
  return chosen;
}

/// Choices among n groups of `group`, the group of each: at most `group` of them are the same in a row.
inline std::vector<Int> choices_of_groups(Index rows, Index cols, Index n, Index group) {
  std::vector<Int> chosen = distinct_choices(rows, cols, n * group);
  for (Int& i : chosen) i = i < 0 ? -1 : i / static_cast<Int>(group);
  return chosen;
}

/// Sequences of rows, on both sides; equal lengths without offsets.
template <class B>
class sequences_of {
 public:
  sequences_of(bench<B>& b, std::vector<Int> const& offsets)
      : offsets_(b, offsets, 1, static_cast<Index>(offsets.size())), rows_(offsets.back()) {}
  [[nodiscard]] segments host() { return {offsets_.host().data, offsets_.host().cols - 1, rows_}; }
  [[nodiscard]] segments device() { return {offsets_.device().data, offsets_.host().cols - 1, rows_}; }

 private:
  int_operand<B> offsets_;
  Index rows_;
};

}  // namespace detail::conformance
}  // namespace headmix
