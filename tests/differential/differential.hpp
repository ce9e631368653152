#pragma once
// SPDX-License-Identifier: MIT
// Random cases of a layer on several backends. A case is a function of its seed: sizes, a few steps over one module,
// and the memory layout of inputs.

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/backend/reference.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "headmix/program/module.hpp"

namespace headmix::differential {

/// The random decisions of a case, in sequence.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed, 1) {}
  /// In [low, high].
  Index range(Index low, Index high) {
    return low + static_cast<Index>(random_.below(next_++, static_cast<std::uint64_t>(high - low + 1)));
  }
  bool one_in(Index n) { return range(1, n) == 1; }
  /// A random divisor of n.
  Index divisor(Index n) {
    Index d = range(1, n);
    while (n % d != 0) --d;
    return d;
  }

 private:
  Random random_;
  std::uint64_t next_ = 0;
};

/// Parameters of a layer besides its type. `length` is the only length of sequences that the layer accepts, if any.
struct Shape {
  Index width = 1, context_width = 0, length = 0;
  bool padded = false;
  bool contiguous = false;     ///< x is split, so its rows must have no gaps
  bool reads_padding = false;  ///< a loss counts padding
};

/// The memory layout of a matrix: after `offset` elements, with `gap` unreadable elements after every row.
struct Layout {
  enum { rows, reversed_rows, columns, every_second, kinds };
  Index kind = rows, offset = 0, gap = 0;
};

/// An input of a step; unreadable rows of padding hold NaN.
struct Input {
  Index rows = 0, cols = 0;
  std::vector<double> values;
  Layout layout;
};

/// The rows of an input by sequence.
struct Sequences {
  Index count = 1, rows = 0;
  std::vector<Int> offsets;        ///< of ragged sequences
  std::vector<std::uint8_t> real;  ///< of padded sequences, [count, rows / count]
};

struct Step {
  Sequences tokens, context_tokens;
  Input x, context, dy;
  randomness random;
  int backwards = 1;
  bool zero_gradients = false, change_parameters = false;
};

struct Script {
  std::uint64_t seed = 0;
  double gain = 1;
  bool store_probabilities = false;
  std::vector<Step> steps;
};

Script draw_script(std::uint64_t seed, Dice& dice, Shape const& shape, bool tiny, bool inference);

/// A value computed by a pass.
struct Record {
  enum { result, loss, gradient, selection } kind;
  std::string name;
  Index cols;
  std::vector<double> values;
};
using Outcome = std::vector<Record>;

struct Tally {
  long cases = 0, compared = 0, same_bits = 0, ties = 0, steps = 0, failures = 0;
  double worst[2] = {};  ///< error / allowed error, of double and of float
};

/// Repeats the reference's outcome with inputs, parameters and operands of 8-bit rounding that are each off by at most
/// `relative`.
using Perturbed = Outcome (*)(void const* self, double relative, std::uint64_t stream);

/// Compares with the reference; throws std::runtime_error if they differ by more than rounding explains.
void compare(Outcome const& found, Outcome const& expected, double epsilon, Perturbed perturbed, void const* self,
             Tally& tally);
/// Throws unless two outcomes have the same bits.
void require_same_bits(Outcome const& a, Outcome const& b, char const* what, Tally& tally);

struct Entry {
  char const* name;
  std::string_view layer;  ///< its type in full, with namespaces
  void (*check)(std::uint64_t seed, Dice& dice, Tally& tally);
};
std::vector<Entry> moa_layers();
std::vector<Entry> moh_layers();
std::vector<Entry> mae_layers();
std::vector<Entry> mh_moe_layers();
std::vector<Entry> cuda_layers();
std::vector<Entry> drawn_layers();

#ifdef HEADMIX_DIFFERENTIAL_ALL
constexpr bool in_double_always = true;
#else
constexpr bool in_double_always = false;
#endif

/// A random number for a parameter or an input; exact in float.
inline double drawn(Random const& random, std::size_t i, double scale) {
  return static_cast<double>(static_cast<float>(scale * random.normal(i)));
}

/// The reference, whose 8-bit rounding reads numbers that are each off by at most `relative`. Products of rounded
/// numbers are multiples of one scale, so their ratio, which decides a tie, has no error of rounded inputs.
struct PerturbedReference : Reference<double> {
  double relative = 0;
  Random error{0, 0};
  mutable std::uint64_t numbers = 0;

  PerturbedReference() = default;
  PerturbedReference(double at_most, std::uint64_t stream) : relative(at_most), error(stream, 1'000'000) {}
  template <class T>
  void absmax_int8(view<T> y, view<T const> a) const {
    std::vector<T> off(static_cast<std::size_t>(a.rows * a.cols));
    view<T> const v(off.data(), a.rows, a.cols);
    for (Index i = 0; i < a.rows; ++i) {
      for (Index j = 0; j < a.cols; ++j) v(i, j) = a(i, j) * (1 + relative * (2 * error.uniform(numbers++) - 1));
    }
    Reference<double>::absmax_int8(y, view<T const>(v));
  }
};

template <class L, class Backend, class Mode>
concept is_cross = requires {
  requires detail::contains < typename Module<L, Backend, Mode>::program_type::leaves,
  typename L::context > ;
};

/// Runs a module of the layer through all steps.
/// @param relative  largest relative error of inputs and parameters, drawn for each
template <class L, class Mode, class Backend, class Sizes>
Outcome run(Backend backend, Script const& script, Sizes const& sizes, double relative = 0, std::uint64_t stream = 0) {
  using T = typename Backend::scalar;
  if constexpr (requires { backend.set_probability_budget(0); }) {
    if (script.store_probabilities) backend.set_probability_budget(1 << 20);
  }
  auto const module = std::apply(
      [&](auto... n) { return std::make_unique<Module<L, Backend, Mode>>(script.seed, backend, n...); }, sizes);
  auto& m = *module;
  std::uint64_t parts = 0;
  auto const converted = [&](std::vector<double> const& from) {
    Random const error(stream, parts++);
    std::vector<T> to(from.size());
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i] = static_cast<T>(from[i] * (1 + (relative == 0 ? 0 : relative * (2 * error.uniform(i) - 1))));
    }
    return to;
  };
  double parameter_scale = script.gain;
  auto const set_parameters = [&] {
    std::uint64_t number = 0;
    for (auto const& p : m.parameters()) {
      Random const random(script.seed, 100 + number++);
      double const scale = parameter_scale / std::sqrt(static_cast<double>(p.value.rows > 0 ? p.value.rows : 1));
      std::vector<double> values(static_cast<std::size_t>(p.value.size()));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = drawn(random, i, scale);
      auto const v = converted(values);
      upload(m.backend(), p.value.data, v.data(), v.size());
    }
  };
  set_parameters();

  std::vector<backend_memory<Backend>> owned;
  auto const laid = [&](Input const& in) {
    auto const values = converted(in.values);
    Layout const& at = in.layout;
    view<T const> v;
    v.rows = in.rows, v.cols = in.cols;
    bool const by_columns = at.kind == Layout::columns;
    Index const step = at.kind == Layout::every_second ? 2 : 1;
    v.col_stride = by_columns ? in.rows + at.gap : step;
    v.row_stride = by_columns ? 1 : step * in.cols + at.gap;
    v.stack_stride = in.rows * in.cols;
    Index const last = in.values.empty() ? -1 : (in.rows - 1) * v.row_stride + (in.cols - 1) * v.col_stride;
    Index begin = at.offset;
    if (at.kind == Layout::reversed_rows && in.rows > 1) {
      begin += (in.rows - 1) * v.row_stride;
      v.row_stride = -v.row_stride;
    }
    std::vector<T> memory(static_cast<std::size_t>(at.offset + last + 1), std::numeric_limits<T>::quiet_NaN());
    for (Index i = 0; i < in.rows; ++i) {
      for (Index j = 0; j < in.cols; ++j) {
        memory[static_cast<std::size_t>(begin + i * v.row_stride + j * v.col_stride)] =
            values[static_cast<std::size_t>(i * in.cols + j)];
      }
    }
    T* const p = owned.emplace_back((memory.size() + 1) * sizeof(T)).template as<T>();
    upload(m.backend(), p, memory.data(), memory.size());
    v.data = p + begin;
    return v;
  };

  Outcome outcome;
  auto const keep = [&]<class U>(auto kind, std::string name, view<U const> v) {
    std::vector<U> host(static_cast<std::size_t>(v.size()));
    if (!v.contiguous()) throw std::runtime_error(name + " is not contiguous");
    download(m.backend(), host.data(), v.data, host.size());
    outcome.push_back({kind, std::move(name), v.cols, std::vector<double>(host.begin(), host.end())});
  };
  for (std::size_t s = 0; s < script.steps.size(); ++s) {
    Step const& step = script.steps[s];
    std::string const at = message("step ", s, ": ");
    if (step.change_parameters) {
      parameter_scale *= 0.75;
      set_parameters();
      if constexpr (std::is_same_v<Mode, inference>) m.parameters_changed();
    }
    if constexpr (std::is_same_v<Mode, inference>) {
      if (s == 1) m.prepare_weights();
    }
    m.set_randomness(step.random);
    auto const rows_of = [](Sequences const& q, std::unique_ptr<Padding>& padding) -> batch {
      if (!q.real.empty() || q.rows < 0) {
        padding = std::make_unique<Padding>(
            view<std::uint8_t const>(q.real.data(), q.count, static_cast<Index>(q.real.size()) / q.count));
        return *padding;
      }
      return q.offsets.empty() ? uniform(q.count, q.rows / q.count) : ragged(q.offsets.data(), q.count);
    };
    std::unique_ptr<Padding> padding, context_padding;
    batch const b = rows_of(step.tokens, padding);
    auto const x = laid(step.x), dy = laid(step.dy);
    view<T const> y;
    if constexpr (is_cross<L, Backend, Mode>) {
      y = m.forward(x, b, laid(step.context), rows_of(step.context_tokens, context_padding));
    } else {
      y = m.forward(x, b);
    }
    keep(Record::result, at + "y", y);
    if constexpr (L::observed::size > 0) keep(Record::selection, at + "observed", m.observed());
    std::vector<double> losses;
    if constexpr (L::losses::size > 0) losses.push_back(m.template loss<0>());
    if constexpr (L::losses::size > 1) losses.push_back(m.template loss<1>());
    if (!losses.empty()) outcome.push_back({Record::loss, at + "losses", 1, losses});
    if constexpr (!std::is_same_v<Mode, inference>) {
      if (step.zero_gradients) m.zero_gradients();
      for (int again = 0; again < step.backwards; ++again) {
        if constexpr (L::losses::size == 2) {
          m.backward(dy, {0.25, -0.5});
        } else if constexpr (L::losses::size == 1) {
          m.backward(dy, {0.25});
        } else {
          m.backward(dy);
        }
        keep(Record::gradient, at + "d x", m.input_gradient());
        if constexpr (is_cross<L, Backend, Mode>) {
          keep(Record::gradient, at + "d context", m.context_gradient());
        }
        for (auto const& p : m.parameters()) {
          keep(Record::gradient, at + "d " + std::string(p.name), view<T const>(p.gradient));
        }
      }
    }
  }
  return outcome;
}

/// One case of a layer: Cpu of both types on one thread and on more, or another backend, against the reference.
/// @tparam Case  `layer`, and `sizes(Dice&, Shape&)`, which draws the layer's sizes; with `also_in_double`, the short
///   test includes Cpu<double>, which takes longer to compile than to run
template <class Case, class Mode = training, class... Others>
void check(std::uint64_t seed, Dice& dice, Tally& tally) {
  using L = typename Case::layer;
  Shape shape;
  auto const sizes = Case::sizes(dice, shape);
  constexpr bool on_cpu = sizeof...(Others) == 0;
  Script const script = draw_script(seed, dice, shape, !on_cpu, std::is_same_v<Mode, inference>);
  struct Again {
    Script const& script;
    decltype(sizes)& of;
  } const again{script, sizes};
  Perturbed const perturbed = [](void const* self, double relative, std::uint64_t stream) {
    auto const& a = *static_cast<Again const*>(self);
    return run<L, training>(PerturbedReference(relative, stream), a.script, a.of, relative, stream);
  };
  Outcome const expected = run<L, training>(PerturbedReference(), script, sizes);
  auto const check_type = [&]<class T>(T) {
    static thread_pool one(1), two(2), three(3), five(5);
    thread_pool* const more[] = {&two, &three, &five};
    using Backend = Cpu<T, thread_pool>;
    Outcome const found = run<L, Mode>(Backend(one), script, sizes);
    require_same_bits(found, run<L, Mode>(Backend(*more[dice.range(0, 2)]), script, sizes), "one thread and several",
                      tally);
    compare(found, expected, std::numeric_limits<T>::epsilon(), perturbed, &again, tally);
  };
  if constexpr (on_cpu) {
    check_type(float());
    if constexpr (std::is_same_v<Mode, training> && (in_double_always || requires { Case::also_in_double; })) {
      check_type(double());
    }
  } else {
    (compare(run<L, Mode>(Others(), script, sizes), expected, std::numeric_limits<typename Others::scalar>::epsilon(),
             perturbed, &again, tally),
     ...);
  }
}

template <class L>
constexpr std::string_view full_name() {
  return __PRETTY_FUNCTION__;
}
/// The random cases of a layer: see check().
template <class Case, class Mode = training, class... Others>
Entry entry(char const* name) {
  return {name, full_name<typename Case::layer>(), &check<Case, Mode, Others...>};
}

}  // namespace headmix::differential
