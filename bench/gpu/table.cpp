// SPDX-License-Identifier: MIT
// table FILE: prints the rows collected by gpu.sh, lines of JSON, as tables in Markdown. For the host.
//
// A row has "group" (ceiling, determinism, kernel, layer, torch, pair) and "name"; its other fields are documented
// where it is printed: common.cuh, baselines.py. A pair has the time of the work that ran in turn with it, "beside".

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
  std::string group, name, pass, device, beside;
  bool graph = false, in_l2 = false;
  double us = std::nan(""), tflops = us, floor_us = us, beside_us = us, ratio = us, low = us, high = us, mhz = us;

  /// Reads a line; `where` names it in errors.
  Row(std::string const& line, std::string const& where) {
    headmix::JsonReader json(line, where);
    json.object([&](std::string const& key) {
      std::pair<char const*, std::string*> const texts[] = {
          {"group", &group}, {"name", &name}, {"pass", &pass}, {"device", &device}, {"beside", &beside}};
      std::pair<char const*, double*> const numbers[] = {
          {"us", &us},       {"tflops", &tflops}, {"floor_us", &floor_us}, {"beside_us", &beside_us},
          {"ratio", &ratio}, {"low", &low},       {"high", &high},         {"mhz", &mhz}};
      for (auto const& [name_of, text] : texts) {
        if (key == name_of) return void(*text = json.string());
      }
      for (auto const& [name_of, number] : numbers) {
        if (key == name_of) return void(*number = json.number());
      }
      if (key == "graph") return void(graph = json.boolean());
      if (key == "in_l2") return void(in_l2 = json.boolean());
      json.skip();
    });
    json.end();
    if (group.empty() || name.empty()) headmix::fail(where, ": expected a row with group and name, found ", line);
  }
  /// The number as printed.
  [[nodiscard]] std::string text() const {
    std::string s = name;
    for (auto const& more :
         {pass, std::string(graph && beside.empty() ? "graph" : ""), device, std::string(in_l2 ? "in L2" : "")})
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

bool is_pair(Row const& r) { return !r.beside.empty(); }

void print_pairs(std::vector<Row> const& rows) {
  std::puts(
      "| headmix, as a graph | us | TFLOP/s | floor / time | in turn with | us | ratio (quartiles) | SM MHz |\n"
      "|---|---|---|---|---|---|---|---|");
  for (Row const& r : rows) {
    if (!is_pair(r)) continue;
    std::printf("| %s | %s | %s | %s | %s | %s | **%s** (%s, %s) | %s |\n", r.text().c_str(), number(r.us, 1).c_str(),
                number(r.tflops, 0).c_str(), number(r.floor_us / r.us, 2).c_str(), r.beside.c_str(),
                number(r.beside_us, 1).c_str(), number(r.ratio, 3).c_str(), number(r.low, 3).c_str(),
                number(r.high, 3).c_str(), number(r.mhz, 0).c_str());
  }
  std::puts("");
}
void print_others(std::vector<Row> const& rows) {
  std::puts("| | what | us | TFLOP/s | floor us | floor / time | SM MHz |\n|---|---|---|---|---|---|---|");
  for (Row const& r : rows) {
    if (is_pair(r)) continue;
    std::printf("| %s | %s | %s | %s | %s | %s | %s |\n", r.group.c_str(), r.text().c_str(), number(r.us, 1).c_str(),
                number(r.tflops, 0).c_str(), number(r.floor_us, 1).c_str(), number(r.floor_us / r.us, 2).c_str(),
                number(r.mhz, 0).c_str());
  }
}

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
  print_pairs(all);
  print_others(all);
}
