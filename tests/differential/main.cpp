// SPDX-License-Identifier: MIT
// headmix-differential --seed S --count N: runs the random cases S .. S + N - 1.

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "differential.hpp"

namespace headmix::differential {
namespace {

Sequences draw_sequences(Dice& dice, Index count, Shape const& shape, Index length) {
  Sequences q;
  q.count = count;
  if (shape.length > 0) length = shape.length;
  if (shape.padded) {
    q.rows = count * length;
    for (Index i = 0; i < q.rows; ++i) q.real.push_back(dice.one_in(5) ? 0 : 1);
    if (q.rows == 0) q.rows = -1;
  } else if (shape.length > 0 || dice.one_in(2)) {
    q.rows = count * length;
  } else {
    q.offsets.push_back(0);
    for (Index b = 0; b < count; ++b) {
      q.rows += dice.one_in(4) ? 0 : dice.range(0, length);
      q.offsets.push_back(static_cast<Int>(q.rows));
    }
  }
  return q;
}

Input draw_input(std::uint64_t seed, std::uint64_t stream, Dice& dice, Sequences const& q, Index cols, bool contiguous,
                 bool reads_padding) {
  Input in;
  in.rows = q.rows < 0 ? 0 : q.rows, in.cols = cols;
  Random const random(seed, stream);
  double const scale = dice.one_in(4) ? 3 : 1;
  for (Index i = 0; i < in.rows; ++i) {
    bool const real = q.real.empty() || q.real[static_cast<std::size_t>(i)] != 0, zero = dice.one_in(30);
    for (Index j = 0; j < cols; ++j) {
      double const v = zero ? 0 : drawn(random, static_cast<std::size_t>(i * cols + j), scale);
      in.values.push_back(real || reads_padding ? v : std::numeric_limits<double>::quiet_NaN());
    }
  }
  in.layout.offset = dice.range(0, 3);
  if (!contiguous) {
    in.layout.kind = dice.range(0, Layout::kinds - 1);
    in.layout.gap = dice.one_in(2) ? 0 : dice.range(1, 5);
  }
  return in;
}

std::string text(double number) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.3g", number);
  return buffer;
}
double norm(std::vector<double> const& v) {
  double sum = 0;
  for (double const a : v) sum += a * a;
  return std::sqrt(sum);
}
double distance(std::vector<double> const& a, std::vector<double> const& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}
void require_same_shape(Outcome const& a, Outcome const& b) {
  if (a.size() != b.size()) throw std::runtime_error("another number of results");
  for (std::size_t r = 0; r < a.size(); ++r) {
    if (a[r].name != b[r].name || a[r].values.size() != b[r].values.size()) {
      throw std::runtime_error(
          message(a[r].name, " has ", a[r].values.size(), " numbers, ", b[r].name, " has ", b[r].values.size()));
    }
  }
}
/// The rows where two selections differ.
std::set<std::size_t> other_rows(Record const& a, Record const& b) {
  std::set<std::size_t> rows;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    if (a.values[i] != b.values[i]) rows.insert(i / static_cast<std::size_t>(a.cols));
  }
  return rows;
}

/// The scale of the error of each record: its norm, but for a gradient at least a quarter of the norm of a record with
/// elements like those of the largest gradient, or like 0.1 (dy is about 1): if terms cancel, as with a single key,
/// their rounding errors remain.
std::vector<double> scales(Outcome const& expected) {
  double largest = 0.1;
  for (auto const& r : expected) {
    if (r.kind != Record::gradient || r.values.empty()) continue;
    largest = std::max(largest, norm(r.values) / std::sqrt(static_cast<double>(r.values.size())));
  }
  std::vector<double> all;
  for (auto const& r : expected) {
    double const floor = r.kind == Record::gradient ? 0.25 * largest * std::sqrt(static_cast<double>(r.values.size()))
                         : r.kind == Record::loss   ? 0.1
                                                    : 1e-3 * std::sqrt(static_cast<double>(r.values.size()));
    all.push_back(std::max(norm(r.values), floor));
  }
  return all;
}

/// Allowed rounding error of a pass, in epsilons of its type, relative to scales().
constexpr double allowed_epsilons = 256;
/// Above it, the reference is run with inputs and parameters that are off by this error.
constexpr double perturbation_epsilons = 16;
constexpr int perturbations = 24;

/// The options that a layer's type names, without their numbers: those of the layer, of its router and of its experts.
std::set<std::string> options_of(std::string_view layer) {
  std::set<std::string> found;
  std::string word;
  bool is_layer = true;
  for (char const c : layer.substr(layer.find("L = ") + 4)) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':') {
      word += c;
      continue;
    }
    std::size_t const begin = word.find_first_not_of(':');
    if (begin != std::string::npos && std::isalpha(static_cast<unsigned char>(word[begin])) != 0 && !is_layer) {
      std::size_t const space = word.rfind("::");
      found.insert(space == std::string::npos ? word : word.substr(space + 2));
    }
    if (begin != std::string::npos) is_layer = false;
    word.clear();
    if (c == ']' || c == ';') break;
  }
  return found;
}
/// Which options met in the layers that were drawn.
class Meetings {
 public:
  void add(Entry const& entry) {
    auto const named = options_of(entry.layer);
    std::vector<std::string> const all(named.begin(), named.end());
    for (std::size_t i = 0; i < all.size(); ++i) {
      options_.insert(all[i]);
      for (std::size_t j = i + 1; j < all.size(); ++j) {
        pairs_.insert(all[i] + " " + all[j]);
        for (std::size_t k = j + 1; k < all.size(); ++k) triples_.insert(all[i] + " " + all[j] + " " + all[k]);
      }
    }
  }
  void print() const {
    std::printf("options in the layers of these cases: %zu, pairs of them %zu, triples %zu\n", options_.size(),
                pairs_.size(), triples_.size());
  }

 private:
  std::set<std::string> options_, pairs_, triples_;
};

}  // namespace

Script draw_script(std::uint64_t seed, Dice& dice, Shape const& shape, bool tiny, bool inference) {
  Script script;
  script.seed = seed;
  script.gain = dice.one_in(3) ? 2 : 1;
  script.store_probabilities = dice.one_in(3);
  Index const steps = tiny ? dice.range(1, 2) : inference ? 3 : dice.range(1, 3);
  for (Index s = 0; s < steps; ++s) {
    Step step;
    Index const count = dice.range(1, 4);
    Index const lengths[] = {0, 1, 2, 5, 13, 40};
    auto const length = [&] { return lengths[dice.range(0, tiny ? 3 : dice.one_in(3) ? 5 : 4)]; };
    step.tokens = draw_sequences(dice, count, shape, length());
    auto const stream = static_cast<std::uint64_t>(1000 + 3 * s);
    step.x = draw_input(seed, stream, dice, step.tokens, shape.width, shape.contiguous, shape.reads_padding);
    step.dy = draw_input(seed, stream + 1, dice, step.tokens, shape.width, false, false);
    if (shape.context_width > 0) {
      step.context_tokens = draw_sequences(dice, count, shape, length());
      step.context = draw_input(seed, stream + 2, dice, step.context_tokens, shape.context_width, false, false);
    }
    if (!inference && !dice.one_in(3)) {
      step.random =
          randomness(seed, static_cast<std::uint32_t>(dice.range(0, 5)), static_cast<std::uint32_t>(dice.range(0, 5)),
                     static_cast<std::uint32_t>(dice.range(0, 9)));
    }
    step.backwards = inference ? 0 : static_cast<int>(dice.range(0, 5) + 1) / 2 - (dice.one_in(4) ? 1 : 0);
    step.backwards = std::clamp(step.backwards, 0, 2);
    step.zero_gradients = dice.one_in(2);
    step.change_parameters = dice.one_in(3);
    script.steps.push_back(std::move(step));
  }
  return script;
}

void require_same_bits(Outcome const& a, Outcome const& b, char const* what, Tally& tally) {
  require_same_shape(a, b);
  for (std::size_t r = 0; r < a.size(); ++r) {
    for (std::size_t i = 0; i < a[r].values.size(); ++i) {
      if (std::memcmp(&a[r].values[i], &b[r].values[i], sizeof(double)) == 0) continue;
      throw std::runtime_error(
          message(a[r].name, ", element ", i, ": ", what, " give ", a[r].values[i], " and ", b[r].values[i]));
    }
  }
  ++tally.same_bits;
}

void compare(Outcome const& found, Outcome const& all_expected, double epsilon, Perturbed perturbed, void const* self,
             Tally& tally) {
  Outcome expected = all_expected;
  if (found.size() < expected.size()) {  // a module for inference
    std::erase_if(expected, [](Record const& r) { return r.kind == Record::gradient; });
  }
  require_same_shape(found, expected);
  auto const scale = scales(expected);
  std::vector<double> error(found.size());
  bool chosen_alike = true, close = true;
  double worst = 0;
  for (std::size_t r = 0; r < found.size(); ++r) {
    if (found[r].kind == Record::selection) {
      chosen_alike = chosen_alike && found[r].values == expected[r].values;
      continue;
    }
    error[r] = distance(found[r].values, expected[r].values);
    bool const right = error[r] <= allowed_epsilons * epsilon * scale[r];  // false for NaN
    close = close && right;
    if (!std::isfinite(error[r])) throw std::runtime_error(found[r].name + " is not finite, or its reference is not");
    if (scale[r] > 0) worst = std::max(worst, error[r] / (allowed_epsilons * epsilon * scale[r]));
  }
  if (chosen_alike && close) {
    double& w = tally.worst[epsilon > 1e-10 ? 1 : 0];
    w = std::max(w, worst);
    ++tally.compared;
    return;
  }
  if (close) {  // other experts, with equal results: sampled<n> rounds their probabilities away
    ++tally.ties;
    return;
  }
  std::vector<std::set<std::size_t>> moved(found.size());
  std::vector<double> change(found.size());
  for (std::uint64_t n = 0; n < perturbations; ++n) {
    Outcome other = perturbed(self, perturbation_epsilons * epsilon, n);
    if (found.size() < other.size()) std::erase_if(other, [](Record const& r) { return r.kind == Record::gradient; });
    for (std::size_t r = 0; r < found.size(); ++r) {
      if (found[r].kind == Record::selection) {
        moved[r].merge(other_rows(other[r], expected[r]));
      } else {
        change[r] = std::max(change[r], distance(other[r].values, expected[r].values));
      }
    }
  }
  for (std::size_t r = 0; r < found.size(); ++r) {
    if (found[r].kind != Record::selection) continue;
    for (std::size_t const row : other_rows(found[r], expected[r])) {
      if (!moved[r].contains(row)) throw std::runtime_error(message(found[r].name, ", row ", row, ": another choice"));
    }
  }
  if (!chosen_alike) {
    ++tally.ties;
    return;
  }
  for (std::size_t r = 0; r < found.size(); ++r) {
    double const allowed = allowed_epsilons * epsilon * scale[r] + 2 * change[r];
    if (error[r] > allowed) {
      throw std::runtime_error(message(found[r].name, ", ", found[r].values.size(), " numbers in ", found[r].cols,
                                       " columns: error ", text(error[r]), ", allowed ", text(allowed), ", norm ",
                                       text(norm(expected[r].values))));
    }
  }
  ++tally.steps;
}

}  // namespace headmix::differential

int main(int argc, char** argv) {
  using namespace headmix::differential;
  std::uint64_t seed = 1;
  long count = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string const name = argv[i];
    if (name == "--seed") {
      seed = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (name == "--count") {
      count = std::strtol(argv[i + 1], nullptr, 10);
    } else {
      count = 0;
    }
  }
  if (argc % 2 == 0 || count < 1) {
    std::fprintf(stderr, "usage: headmix-differential [--seed S] [--count N]\n");
    return 2;
  }
  std::vector<Entry> layers;
  for (auto const& more : {moa_layers(), moh_layers(), mae_layers(), mh_moe_layers(), drawn_layers()}) {
    layers.insert(layers.end(), more.begin(), more.end());
  }
  std::vector<Entry> const emulated = cuda_layers();
  Tally tally;
  Meetings meetings;
  for (long n = 0; n < count && tally.failures < 20; ++n, ++seed) {
    Dice dice(seed);
    auto const& from = dice.one_in(40) ? emulated : layers;
    Entry const& layer = from[static_cast<std::size_t>(dice.range(0, static_cast<headmix::Index>(from.size()) - 1))];
    ++tally.cases;
    meetings.add(layer);
    try {
      layer.check(seed, dice, tally);
    } catch (std::exception const& e) {
      ++tally.failures;
      std::printf("FAILED: %s: %s\n  again: headmix-differential --seed %llu --count 1\n", layer.name, e.what(),
                  static_cast<unsigned long long>(seed));
    }
    if (count >= 1000 && (n + 1) % 1000 == 0) std::printf("%ld cases, %ld failures\n", n + 1, tally.failures);
    std::fflush(stdout);
  }
  std::printf(
      "%ld cases up to seed %llu: %ld comparisons with Reference<double>, %ld between numbers of threads; "
      "skipped: %ld for ties of the router, %ld next to a step of rounding; "
      "largest error %.2f (double) and %.2f (float) of what is allowed; %ld failures\n",
      tally.cases, static_cast<unsigned long long>(seed - 1), tally.compared, tally.same_bits, tally.ties, tally.steps,
      tally.worst[0], tally.worst[1], tally.failures);
  meetings.print();
  return tally.failures == 0 ? 0 : 1;
}
