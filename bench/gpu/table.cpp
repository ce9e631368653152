// SPDX-License-Identifier: MIT
// table FILE: prints the rows collected by gpu.sh, lines of JSON, as tables in Markdown. For the host.
//
// A row has "group" (ceiling, determinism, kernel, layer, torch) and "name"; its other fields are documented where it
// is printed: common.cuh, baselines.py. Rows with equal name, pass, graph and device are the same work. A row names its
// compared rows: "over" of a headmix row is another headmix row, "of" of a PyTorch row lists headmix rows.

#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "headmix/io/json.hpp"

namespace {

struct Row {
  std::string group, name, pass, device, over;
  std::vector<std::string> of;
  bool graph = false, in_l2 = false;
  double us = std::nan(""), tflops = us, floor_us = us;

  /// Reads a line; `where` names it in errors.
  Row(std::string const& line, std::string const& where) {
    headmix::JsonReader json(line, where);
    json.object([&](std::string const& key) {
      std::pair<char const*, std::string*> const texts[] = {
          {"group", &group}, {"name", &name}, {"pass", &pass}, {"device", &device}, {"over", &over}};
      std::pair<char const*, double*> const numbers[] = {{"us", &us}, {"tflops", &tflops}, {"floor_us", &floor_us}};
      for (auto const& [name_of, text] : texts) {
        if (key == name_of) return void(*text = json.string());
      }
      for (auto const& [name_of, number] : numbers) {
        if (key == name_of) return void(*number = json.number());
      }
      if (key == "graph") return void(graph = json.boolean());
      if (key == "in_l2") return void(in_l2 = json.boolean());
      if (key == "of") return json.array([&] { of.push_back(json.string()); });
      json.skip();
    });
    json.end();
    if (group.empty() || name.empty()) headmix::fail(where, ": expected a row with group and name, found ", line);
  }
  /// The number as printed.
  [[nodiscard]] std::string text() const {
    std::string s = name;
    for (auto const& more : {pass, std::string(graph ? "graph" : ""), device, std::string(in_l2 ? "in L2" : "")})
      if (!more.empty()) s += ", " + more;
    return s;
  }
};

std::string number(double x, int digits) {
  if (!(x > 0) || !std::isfinite(x)) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, x);
  return text;
}

class Rows {
 public:
  explicit Rows(std::vector<Row> rows) : all_(std::move(rows)) {}

  void print_all() const {
    std::puts("| | what | us | TFLOP/s | floor us | floor / time |\n|---|---|---|---|---|---|");
    for (Row const& r : all_) {
      std::printf("| %s | %s | %s | %s | %s | %s |\n", r.group.c_str(), r.text().c_str(), number(r.us, 1).c_str(),
                  number(r.tflops, 0).c_str(), number(r.floor_us, 1).c_str(), number(r.floor_us / r.us, 2).c_str());
    }
    std::puts("");
  }

  void print_beside_torch() const {
    std::puts("| time of headmix over time of PyTorch | call by call (eager) | as graphs |\n|---|---|---|");
    for (Row const& theirs : all_) {
      if (theirs.group != "torch" || theirs.graph) continue;
      for (auto const& name : theirs.of) {
        auto const quotient = [&](bool graph) {
          return time_of_ours(name, theirs.pass, graph) / time_of("torch", theirs.name, theirs.pass, graph, "");
        };
        if (!(quotient(false) > 0)) continue;
        std::printf("| %s, over %s | %s | %s |\n", (name + ", " + theirs.pass).c_str(), theirs.name.c_str(),
                    number(quotient(false), 2).c_str(), number(quotient(true), 2).c_str());
      }
    }
    std::puts("");
  }

  void print_beside_ours() const {
    std::puts("| time of headmix over time of headmix with all heads | call by call | as a graph |\n|---|---|---|");
    for (Row const& r : all_) {
      if (r.over.empty() || r.graph) continue;
      auto const quotient = [&](bool graph) {
        return time_of(r.group, r.name, r.pass, graph, r.device) / time_of(r.group, r.over, r.pass, graph, r.device);
      };
      if (!(quotient(false) > 0)) continue;
      std::printf("| %s, over %s | %s | %s |\n", r.text().c_str(), r.over.c_str(), number(quotient(false), 2).c_str(),
                  number(quotient(true), 2).c_str());
    }
  }

 private:
  /// The latest time; NaN if there is none.
  [[nodiscard]] double time_of(std::string const& group, std::string const& name, std::string const& pass, bool graph,
                               std::string const& device) const {
    double us = std::nan("");
    for (Row const& r : all_)
      if (r.group == group && r.name == name && r.pass == pass && r.graph == graph && r.device == device) us = r.us;
    return us;
  }
  /// A kernel has no pass: it counts as forward unless its name says otherwise.
  [[nodiscard]] double time_of_ours(std::string const& name, std::string const& pass, bool graph) const {
    double const us = time_of("layer", name, pass, graph, "");
    return us > 0 || pass != "forward" ? us : time_of("kernel", name, "", graph, "");
  }

  std::vector<Row> all_;
};

}  // namespace

int main(int argc, char** argv) {
  std::ifstream file(argc == 2 ? argv[1] : "");
  if (!file) {
    std::fprintf(stderr, "usage: table FILE, with lines of JSON; cannot read %s\n", argc == 2 ? argv[1] : "nothing");
    return 2;
  }
  std::vector<Row> all;
  int number = 0;
  try {
    for (std::string line; std::getline(file, line);) {
      all.emplace_back(line, std::string(argv[1]) + ":" + std::to_string(++number));
    }
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
  Rows const rows(std::move(all));
  rows.print_all();
  rows.print_beside_torch();
  rows.print_beside_ours();
}
