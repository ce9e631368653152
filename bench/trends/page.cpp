// SPDX-License-Identifier: MIT
#include "page.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

#include "../../examples/language_model/report.hpp"
#include "../../examples/language_model/svg.hpp"
#include "count.hpp"
#include "headmix/io/file.hpp"

namespace trends {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

struct Statistics {
  std::size_t n = 0;
  double mean = unknown, deviation = unknown;  ///< the second one of a sample, from two numbers on
};

Statistics statistics(std::vector<double> const& x) {
  Statistics s{x.size(), unknown, unknown};
  if (x.empty()) return s;
  double sum = 0, squares = 0;
  for (double const v : x) sum += v;
  s.mean = sum / static_cast<double>(x.size());
  for (double const v : x) squares += (v - s.mean) * (v - s.mean);
  if (x.size() > 1) s.deviation = std::sqrt(squares / static_cast<double>(x.size() - 1));
  return s;
}

/// Half the width of the interval that has the mean with 95 % (Student).
double half_interval(Statistics const& s) {
  constexpr std::array quantiles{12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26};
  if (s.n < 2) return unknown;
  return quantiles[std::min(s.n - 2, quantiles.size() - 1)] * s.deviation / std::sqrt(static_cast<double>(s.n));
}

std::string number(double x, int digits) { return std::isfinite(x) ? lm::fixed(x, digits) : "not finite"; }

class Page {
 public:
  Page(std::string path, List const& list, Records const& records, RateOf const& rate_of)
      : path_(std::move(path)), list_(list), records_(records), rate_of_(rate_of) {}

  [[nodiscard]] std::string content(std::vector<std::string> const& mark) const {
    std::string const kind = mark.empty() ? "" : mark.front();
    std::vector<std::string> const families(mark.begin() + (mark.empty() ? 0 : 1), mark.end());
    if (kind == "experts") {
      Run const* const run = families.size() == 1 ? list_.run(families.front()) : nullptr;
      if (run == nullptr)
        throw lm::UsageError(path_ + ": expected the name of a run, found " + lm::in_quotes(joined(families)));
      return experts(*run);
    }
    for (auto const& f : families) {
      if (std::none_of(list_.families.begin(), list_.families.end(), [&](auto const& x) { return x.name == f; }))
        throw lm::UsageError(path_ + ": expected the name of a family, found " + lm::in_quotes(f));
    }
    if (kind == "table") return table(families);
    if (kind == "rates") return rates(families);
    if (kind == "claims") return claims(families);
    if (kind == "measures") return measures(families);
    if (kind == "curves" && families.size() == 1) return curves(families.front());
    if (kind == "progress" && families.empty()) return progress();
    if (kind == "ends") return ends(families);
    throw lm::UsageError(
        path_ +
        ": expected table, rates, claims, measures, curves, ends, experts or progress behind `<!-- trends`, found " +
        lm::in_quotes(joined(mark)));
  }

 private:
  [[nodiscard]] bool is_in(Run const& run, std::vector<std::string> const& families) const {
    return std::find(families.begin(), families.end(), list_.families[run.family].name) != families.end();
  }
  [[nodiscard]] Record const* find(Run const& run, std::string const& seed, std::string const& rate) const {
    return records_.find(joined(Training{&run, seed, rate}.words(list_)));
  }
  /// Those of the reported seeds; null where there is none.
  [[nodiscard]] std::vector<Record const*> of(Run const& run) const {
    std::string const rate = rate_of_(run);
    std::vector<Record const*> all;
    for (auto const& seed : list_.seeds) all.push_back(rate.empty() ? nullptr : find(run, seed, rate));
    return all;
  }
  static std::vector<double> numbers(std::vector<Record const*> const& all, char const* key) {
    std::vector<double> n;
    for (auto const* r : all)
      if (r != nullptr) n.push_back(r->number(key));
    return n;
  }
  /// The numbers of an array of arrays.
  static std::vector<std::vector<double>> rows(Record const& r, std::string_view key) {
    std::vector<std::vector<double>> all;
    for (auto const& row : json_elements(json_value(r.json, key))) all.push_back(json_numbers(row));
    return all;
  }
  /// The share of the least used expert or routed head of all layers, where 1 is an even one.
  static double least_load(Record const& r) {
    double least = unknown;
    for (std::string_view const key : {"expert_loads", "ffn_expert_loads"}) {
      for (auto shares : rows(r, key)) {
        if (r.text("attention") == "moh") std::erase_if(shares, [](double s) { return s > 1 - 1e-9; });  // shared
        if (shares.empty()) continue;
        auto const s = statistics(shares);
        double const share = *std::min_element(shares.begin(), shares.end()) / s.mean;
        if (!(least <= share)) least = share;
      }
    }
    return least;
  }

  [[nodiscard]] std::string table(std::vector<std::string> const& families) const {
    std::string s =
        "| run | validation loss: mean (each seed) | deviation | parameters | multiply-accumulates of a token | least "
        "used expert or head | entropy of gates | tokens/s | learning rate |\n|---|---|---|---|---|---|---|---|---|\n";
    for (auto const& run : list_.runs) {
      if (!is_in(run, families)) continue;
      auto const all = of(run);
      auto const losses = numbers(all, "val_loss");
      lm::Options const o = options_of(run);
      std::string each;
      for (auto const* r : all)
        each += (each.empty() ? "" : " ") + (r == nullptr ? "-" : number(r->number("val_loss"), 4));
      Record const* any = nullptr;
      std::vector<double> loads, entropies;
      for (auto const* r : all) {
        if (r == nullptr) continue;
        any = r;
        if (double const l = least_load(*r); l == l) loads.push_back(l);
        if (double const e = r->number("gate_entropy"); e == e) entropies.push_back(e);
      }
      auto const loss = statistics(losses), load = statistics(loads), entropy = statistics(entropies),
                 speed = statistics(numbers(all, "tokens_per_s"));
      s += "| `" + run.name + "` | " + (any == nullptr ? "not trained yet" : number(loss.mean, 4) + " (" + each + ")") +
           " | ";
      s += (loss.n < 2 ? "-" : number(loss.deviation, 4)) + " | ";
      s += (any == nullptr ? "-" : lm::fixed(any->number("parameters"), 0)) + " | ";
      s += lm::fixed(macs_per_token(o), 0) + " | ";
      s += (load.n == 0 ? "" : number(load.mean, 2)) + " | " + (entropy.n == 0 ? "" : number(entropy.mean, 3)) + " | ";
      s += (any == nullptr ? "-" : lm::fixed(speed.mean, 0)) + " | ";
      s += (any == nullptr ? "-" : json_value(any->json, "lr")) + " |\n";
    }
    return s;
  }

  [[nodiscard]] std::string rates(std::vector<std::string> const& families) const {
    std::string s =
        "| family | with the run | validation loss at each rate, seed " + list_.select + " |\n|---|---|---|\n";
    for (auto const& family : list_.families) {
      if (std::find(families.begin(), families.end(), family.name) == families.end()) continue;
      Run const& first = list_.runs[family.first];
      std::string const best = rate_of_(first);
      s += "| " + family.name + " | `" + first.name + "` |";
      std::string separator = " ";
      for (auto const& rate : family.rates) {
        Record const* const r = find(first, list_.select, rate);
        std::string const b = rate == best ? "**" : "";
        s += separator + b + rate + ": " + (r == nullptr ? "not trained yet" : number(r->number("val_loss"), 4)) + b;
        separator = ", ";
      }
      s += " |\n";
    }
    return s;
  }

  /// A claim that the first numbers are smaller, seed by seed: the mean difference, with half the width of its
  /// interval, and the verdict.
  struct Comparison {
    std::string found, verdict;
  };
  static Comparison compared(std::vector<double> const& better, std::vector<double> const& worse) {
    std::vector<double> differences;
    for (std::size_t i = 0; i < better.size(); ++i)
      if (!std::isnan(better[i]) && !std::isnan(worse[i])) differences.push_back(worse[i] - better[i]);
    auto const d = statistics(differences);
    double const half = half_interval(d);
    Comparison c{"not trained yet", "not decided"};
    if (d.n >= 3 && d.mean - half > 0) c.verdict = "holds";
    if (d.n >= 3 && d.mean + half < 0) c.verdict = "does not hold";
    if (d.n < 3) c.verdict = "not decided: fewer than 3 seeds";
    if (d.n > 0) {
      c.found = number(d.mean, 4);
      if (d.n > 1) c.found += " ± " + number(half, 4);
      c.found += " (" + std::to_string(d.n) + (d.n == 1 ? " seed)" : " seeds)");
    }
    return c;
  }
  /// By seed; not a number where there is no record.
  template <class Measure>
  [[nodiscard]] std::vector<double> by_seed(Run const& run, Measure measure) const {
    std::vector<double> all;
    for (auto const* r : of(run)) all.push_back(r == nullptr ? unknown : measure(*r));
    return all;
  }
  [[nodiscard]] std::string claims(std::vector<std::string> const& families) const {
    std::string s =
        "| claim | the paper | here: difference of the validation losses, nats per byte | verdict "
        "|\n|---|---|---|---|\n";
    auto const loss = [](Record const& r) { return r.number("val_loss"); };
    for (auto const& claim : list_.claims) {
      Run const& better = *list_.run(claim.better);
      if (!is_in(better, families) || !claim.measure.empty()) continue;
      auto const c = compared(by_seed(better, loss), by_seed(*list_.run(claim.worse), loss));
      s += "| " + claim.text + ": `" + claim.better + "` < `" + claim.worse + "` | " + claim.paper + " | " + c.found +
           " | " + c.verdict + " |\n";
    }
    return s;
  }
  /// The largest share of an expert in any layer, of 1.
  static double largest_share(Record const& r) {
    double largest = unknown;
    for (auto const& shares : rows(r, "expert_loads")) {
      double sum = 0;
      for (double const s : shares) sum += s;
      for (double const s : shares)
        if (!(largest >= s / sum)) largest = s / sum;
    }
    return largest;
  }
  /// Claims of something else than the validation loss.
  [[nodiscard]] std::string measures(std::vector<std::string> const& families) const {
    std::string s = "| claim | the paper | here: both means | their difference | verdict |\n|---|---|---|---|---|\n";
    for (auto const& claim : list_.claims) {
      Run const &better = *list_.run(claim.better), *const worse = list_.run(claim.worse);
      if (!is_in(better, families) || claim.measure.empty()) continue;
      auto const measure = [&](Record const& r) {
        if (claim.measure == "largest_share") return largest_share(r);
        if (claim.measure == "one_expert") return r.number("one_expert_val_loss") - r.number("val_loss");
        return r.number(claim.measure);
      };
      auto const a = by_seed(better, measure);
      auto const b =
          worse == nullptr ? std::vector<double>(a.size(), std::stod(claim.worse)) : by_seed(*worse, measure);
      auto const c = compared(a, b);
      s += "| " + claim.text + ": `" + claim.measure + "` of `" + claim.better + "` < " +
           (worse == nullptr ? claim.worse : "`" + claim.worse + "`") + " | " + claim.paper + " | " + mean_of(a) +
           " against " + (worse == nullptr ? claim.worse : mean_of(b)) + " | " + c.found + " | " + c.verdict + " |\n";
    }
    return s;
  }
  static std::string mean_of(std::vector<double> all) {
    std::erase_if(all, [](double x) { return std::isnan(x); });
    return all.empty() ? "not trained yet" : number(statistics(all).mean, 4);
  }

  /// How flat validation curves end.
  [[nodiscard]] std::string ends(std::vector<std::string> const& families) const {
    std::string s =
        "| run | steps | fall of the validation loss in them, per 1000 steps: mean of the seeds |\n|---|---|---|\n";
    for (auto const& run : list_.runs) {
      if (!is_in(run, families)) continue;
      std::vector<double> falls;
      double from = 0, to = 0;
      bool validated_once = false;
      for (auto const* r : of(run)) {
        auto const points =
            r == nullptr ? std::vector<double>() : json_numbers(json_value(r->json, "validation_curve"));
        validated_once = validated_once || points.size() == 2;
        if (points.size() < 4) continue;
        std::size_t const n = points.size();
        from = points[n - 4], to = points[n - 2];
        falls.push_back((points[n - 3] - points[n - 1]) / (to - from) * 1000);
      }
      if (validated_once) continue;
      s += "| `" + run.name + "` | " + (falls.empty() ? "" : lm::fixed(from, 0) + " to " + lm::fixed(to, 0)) + " | " +
           (falls.empty() ? "not trained yet" : number(statistics(falls).mean, 4)) + " |\n";
    }
    return s;
  }

  [[nodiscard]] std::string progress() const {
    std::size_t choices = 0, chosen = 0, rows = 0, done = 0;
    double seconds = 0;
    auto const add = [&](Record const* r, std::size_t& n) {
      if (r == nullptr) return;
      ++n;
      lm::Options const o = parsed(r->text("options"));
      seconds += static_cast<double>(o.steps * o.batch * o.context) / r->number("tokens_per_s");
    };
    for (auto const& family : list_.families)
      for (auto const& rate : family.rates) {
        ++choices;
        add(find(list_.runs[family.first], list_.select, rate), chosen);
      }
    for (auto const& run : list_.runs) {
      rows += list_.seeds.size();
      for (auto const* r : of(run)) add(r, done);
    }
    return std::to_string(chosen) + " of " + std::to_string(choices) + " trainings that choose learning rates and " +
           std::to_string(done) + " of " + std::to_string(rows) + " reported ones are done; they took " +
           lm::fixed(seconds / 3600, 1) + " hours of one core, without validations.\n";
  }

  /// The training loss, of the seeds that are done, in means over a fortieth of the steps; the first quarter is left
  /// out. A seed has the same batches in all runs, so that differences are clearer than the curves.
  [[nodiscard]] std::string curves(std::string const& family) const {
    struct Curve {
      std::string name;
      std::vector<std::pair<double, double>> points;
    };
    std::vector<Curve> all;
    double low = unknown, high = unknown, last = 1;
    for (auto const& run : list_.runs) {
      if (!is_in(run, {family})) continue;
      Curve curve{run.name, {}};
      double seeds = 0;
      for (auto const* r : of(run)) {
        if (r == nullptr) continue;
        auto const points = json_numbers(json_value(r->json, "train_curve"));
        if (curve.points.empty()) curve.points.resize(points.size() / 2);
        for (std::size_t i = 0; i < std::min(curve.points.size(), points.size() / 2); ++i) {
          curve.points[i].first = points[2 * i];
          curve.points[i].second += points[2 * i + 1];
        }
        ++seeds;
      }
      if (curve.points.empty()) continue;
      double const steps = curve.points.back().first;
      std::erase_if(curve.points, [&](auto const& p) { return p.first < steps / 4; });
      for (auto& p : curve.points) {
        p.second /= seeds;
        if (!(low <= p.second)) low = p.second;
        if (!(high >= p.second)) high = p.second;
        last = std::max(last, p.first);
      }
      all.push_back(curve);
    }
    if (all.empty()) return "Not trained yet.\n";
    constexpr std::array colours{"#2f6fbf", "#c8501e", "#2e8b57", "#8a5fbf",
                                 "#b58900", "#d33682", "#5b7083", "#7f4f24"};
    constexpr double width = 760, left = 64, right = 736, top = 48, bottom = 376;
    double const height = 430 + 18 * static_cast<double>((all.size() + 2) / 3);
    double const margin = 0.05 * std::max(high - low, 0.01);
    auto const x = [&](double step) { return left + (right - left) * (step - last / 4) / (last * 3 / 4); };
    auto const y = [&](double loss) {
      return bottom + (top - bottom) * (loss - low + margin) / (high - low + 2 * margin);
    };
    lm::Svg svg(width, height, "Training loss, nats per byte, mean of the seeds: " + family);
    for (double const t : lm::ticks(low, high, 6)) {
      svg.line(left, y(t), right, y(t), "class=\"grid\"");
      svg.text(left - 8, y(t) + 4, lm::decimal(t, 4), lm::Svg::Anchor::end);
    }
    for (double const t : lm::ticks(last / 4, last, 6))
      svg.text(x(t), bottom + 20, lm::decimal(t, 0), lm::Svg::Anchor::middle);
    svg.text((left + right) / 2, bottom + 40, "steps", lm::Svg::Anchor::middle);
    svg.line(left, top, left, bottom, "class=\"axis\"");
    svg.line(left, bottom, right, bottom, "class=\"axis\"");
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::string stroke = "fill=\"none\" stroke-width=\"1.8\" stroke=\"";
      stroke += colours[i % colours.size()];
      stroke += i < colours.size() ? "\"" : "\" stroke-dasharray=\"5 3\"";
      std::vector<std::pair<double, double>> points;
      for (auto const& [step, loss] : all[i].points) points.emplace_back(x(step), y(loss));
      svg.polyline(points, stroke);
      double const at = left + 224 * static_cast<double>(i % 3), below = bottom + 64 + 18 * static_cast<double>(i / 3);
      svg.line(at, below - 4, at + 20, below - 4, stroke);
      svg.text(at + 26, below, all[i].name);
    }
    return "![training losses of the family " + family + "](" + write_picture(family, std::move(svg).finish()) + ")\n";
  }

  /// Of the first seed that is done.
  [[nodiscard]] std::string experts(Run const& run) const {
    auto const all = of(run);
    auto const found = std::find_if(all.begin(), all.end(), [](Record const* r) { return r != nullptr; });
    if (found == all.end()) return "Not trained yet.\n";
    Record const& r = **found;
    lm::Options const o = parsed(r.text("options"));
    lm::ExpertUse use;
    use.loads = rows(r, "expert_loads");
    use.ffn_loads = rows(r, "ffn_expert_loads");
    return experts(r, run.name + "-experts", lm::attention_loads(o, use), "expert_information", "typical_bytes") +
           experts(r, run.name + "-ffn-experts", lm::ffn_loads(o, use), "ffn_expert_information", "ffn_typical_bytes");
  }
  [[nodiscard]] std::string experts(Record const& r, std::string const& picture, lm::LoadTable table,
                                    std::string_view information, std::string_view bytes) const {
    if (table.columns() == 0) return "";
    for (auto const& row : rows(r, information)) table.information.push_back({row.at(0), row.at(1)});
    std::string s = "![use of the experts of " + r.text("name") + ", seed " + json_value(r.json, "seed") + "](" +
                    write_picture(picture, lm::experts_svg(table)) + ")\n\n| layer | " +
                    (table.heads ? "heads" : "experts") +
                    " and the bytes that they have most above chance (pointwise mutual information) |\n|---|---|\n";
    std::size_t layer = 0;
    for (auto const& of_layer : json_elements(json_value(r.json, bytes))) {
      constexpr std::size_t most = 8;
      std::string line;
      std::size_t expert = 0, shown = 0;
      for (auto const& typical : json_elements(of_layer)) {
        if (typical != "\"\"" && shown++ < most) line += " " + std::to_string(expert) + ": " + code(typical);
        ++expert;
      }
      s += "| " + std::to_string(layer++) + " |" + line + (shown > most ? " ..." : "") + " |\n";
    }
    return s;
  }
  /// A string of JSON as code in a cell: its quotes stay.
  static std::string code(std::string const& json) {
    std::string s = "`";
    for (char const c : json) {
      if (c == '`') {
        s += "\\u0060";
      } else {
        s.append(c == '|' ? "\\" : "").push_back(c);
      }
    }
    return s + "`";
  }
  /// The name of the file, from the page.
  [[nodiscard]] std::string write_picture(std::string const& picture, std::string const& svg) const {
    std::string const name = "trends/" + picture + ".svg";
    std::filesystem::path const file = std::filesystem::path(path_).parent_path() / name;
    std::filesystem::create_directories(file.parent_path());
    headmix::write_file(file.string(), svg);
    return name;
  }

  [[nodiscard]] static lm::Options parsed(std::string const& words) {
    std::istringstream in(words);
    std::vector<std::string> all;
    for (std::string w; in >> w;) all.push_back(w.starts_with('@') ? w.substr(1) : w);
    return lm::parse_options({all.begin(), all.end()});
  }
  [[nodiscard]] lm::Options options_of(Run const& run) const {
    return parsed(joined(Training{&run, "1", "1"}.words(list_)));
  }

  std::string path_;
  List const& list_;
  Records const& records_;
  RateOf const& rate_of_;
};

}  // namespace

void write_page(std::string const& path, List const& list, Records const& records, RateOf const& rate_of) {
  std::ifstream file(path);
  if (!file) throw lm::UsageError("--page: expected a readable page, found " + lm::in_quotes(path));
  Page const page(path, list, records, rate_of);
  std::string text, line;
  int number = 0;
  bool inside = false;
  while (std::getline(file, line)) {
    ++number;
    std::istringstream in(line);
    std::vector<std::string> words;
    for (std::string w; in >> w;) words.push_back(w);
    bool const begin = words.size() > 2 && words[0] == "<!--" && words[1] == "trends", end = line == "<!-- end -->";
    if (begin == inside && (begin || end))
      throw lm::UsageError(path + ":" + std::to_string(number) + ": expected marks and their ends in turn, found " +
                           lm::in_quotes(line));
    if (end) inside = false;
    if (!inside) text += line + "\n";
    if (!begin) continue;
    inside = true;
    text += "\n" + page.content({words.begin() + 2, words.end() - 1}) + "\n";
  }
  if (inside) throw lm::UsageError(path + ": expected <!-- end --> behind the last mark, found the end of the page");
  headmix::write_file(path, text);
}

}  // namespace trends
