#pragma once
// SPDX-License-Identifier: MIT
// A program as text, JSON and Graphviz dot. program/listing.hpp makes one of a module or a program.

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "headmix/core/error.hpp"
#include "headmix/core/view.hpp"

namespace headmix {

/// A program in words and numbers. Unknown numbers are -1: those that depend on unknown extents, and offsets before a
/// pass is planned.
struct Listing {
  /// A dynamic size that extents mention.
  struct size {
    std::string name;
    Index value;
  };
  /// Leaves and their gradients, outputs of calls, and values derived without a call.
  struct value {
    std::string name;
    std::string kind;                    ///< "parameter", "input", ..., "gradient", "value", "view", "number"
    std::array<std::string, 3> extents;  ///< matrices, rows and columns: numbers, or formulas of sizes
    std::string type;                    ///< of an element; empty for a number
    Index bytes = -1;
    Index offset = -1;            ///< in the workspace
    Index first = -1, last = -1;  ///< calls that use it
    bool kept = false;            ///< until the next forward pass
    int source = -1;              ///< the value that a view is made of
  };
  /// A call of a kernel.
  struct call {
    std::string kernel;                  ///< the operation
    std::string text;                    ///< the operation of its operands
    std::vector<int> outputs, operands;  ///< values
    std::vector<std::string> makes;      ///< operations that a fused kernel does at once
    bool accumulates = false;            ///< adds to its output
    Index scratch = -1;                  ///< bytes
    Index macs = -1;                     ///< multiply-adds; 0 of an operation that has none
    double seconds = -1;
  };

  std::string name;  ///< of the layer, the mode and the backend
  std::vector<size> sizes;
  std::vector<value> values;
  std::size_t leaves = 0;  ///< values 0 .. leaves - 1 are the leaves, the next ones their gradients
  std::vector<call> calls;
  std::size_t forward_calls = 0;
  std::vector<std::string> checks;  ///< of extents, when memory is bound
  Index workspace = -1;             ///< bytes

  /// Sets the seconds of each call, see seconds_of_calls() in program/observe.hpp.
  void add_seconds(std::vector<double> const& seconds) {
    if (seconds.size() != calls.size()) {
      fail("listing: expected the seconds of ", calls.size(), " calls, found those of ", seconds.size());
    }
    for (std::size_t c = 0; c < calls.size(); ++c) calls[c].seconds = seconds[c];
  }

  /// A table of leaves, two lines for each call (what it writes, and how), and the checks. 120 columns, where names are
  /// no longer than theirs.
  [[nodiscard]] std::string text() const {
    std::string all = name + ": " + number(static_cast<Index>(forward_calls)) + " calls forward";
    if (calls.size() > forward_calls)
      all += ", " + number(static_cast<Index>(calls.size() - forward_calls)) + " backward";
    if (workspace >= 0) all += ", workspace of " + number(workspace) + " bytes";
    all += '\n';
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      all += (i == 0 ? "sizes: " : ", ") + sizes[i].name;
      if (sizes[i].value >= 0) all += " = " + number(sizes[i].value);
    }
    if (!sizes.empty()) all += '\n';
    all += '\n';
    add_row(all, {"", "leaf", "extents", "type", "bytes", "calls", "kind"});
    for (std::size_t i = 0; i < leaves; ++i) add_value(all, "", values[i], values[i].kind);
    add_calls(all, "forward", 0, forward_calls);
    add_calls(all, "backward", forward_calls, calls.size());
    if (!checks.empty()) all += "\nchecks\n";
    for (std::string const& c : checks) add_wrapped(all, "  ", c);
    return all;
  }

  /// An object: `name`, `workspace`, `sizes`, `leaves` and `forward_calls` (how many), `values`, `calls`, `checks`.
  /// Members that are not known are left out; `outputs`, `operands` and `source` are numbers of values.
  [[nodiscard]] std::string json() const {
    std::string all = "{\"name\": " + quoted(name);
    add_member(all, "workspace", workspace);
    all += ",\n\"sizes\": [";
    each(all, sizes, [&](size const& s) {
      all += "{\"name\": " + quoted(s.name);
      add_member(all, "value", s.value);
      all += '}';
    });
    all += "],\n\"leaves\": " + std::to_string(leaves) + ", \"forward_calls\": " + std::to_string(forward_calls);
    all += ",\n\"values\": [";
    each(all, values, [&](value const& v) {
      all += "{\"name\": " + quoted(v.name) + ", \"kind\": " + quoted(v.kind) + ", \"extents\": [";
      for (std::size_t i = 0; i < 3; ++i) {
        all += (i == 0 ? "" : ", ") + (is_number(v.extents[i]) ? v.extents[i] : quoted(v.extents[i]));
      }
      all += ']';
      if (!v.type.empty()) all += ", \"type\": " + quoted(v.type);
      add_member(all, "bytes", v.bytes);
      add_member(all, "offset", v.offset);
      add_member(all, "first", v.first);
      add_member(all, "last", v.last);
      if (v.kept) all += ", \"kept\": true";
      add_member(all, "source", v.source);
      all += '}';
    });
    all += "],\n\"calls\": [";
    each(all, calls, [&](call const& c) {
      all += "{\"kernel\": " + quoted(c.kernel) + ", \"text\": " + quoted(c.text);
      add_numbers(all, "outputs", c.outputs);
      add_numbers(all, "operands", c.operands);
      if (!c.makes.empty()) {
        all += ", \"makes\": [";
        for (std::string const& m : c.makes) all += (&m == c.makes.data() ? "" : ", ") + quoted(m);
        all += ']';
      }
      if (c.accumulates) all += ", \"accumulates\": true";
      add_member(all, "scratch", c.scratch);
      add_member(all, "macs", c.macs);
      if (c.seconds >= 0) all += ", \"seconds\": " + decimal("%.9f", c.seconds);
      all += '}';
    });
    all += "],\n\"checks\": [";
    each(all, checks, [&](std::string const& c) { all += quoted(c); });
    return all + "]}\n";
  }

  /// A graph for Graphviz: a box for each call, an ellipse for each leaf and each gradient of one; an edge from the
  /// call that writes a value to those that read it.
  [[nodiscard]] std::string dot() const {
    std::string all = "digraph " + quoted(name) + " {\n  node [shape=box];\n";
    for (std::size_t i = 0; i < 2 * leaves; ++i) {
      if (values[i].first < 0) continue;
      all += "  v" + std::to_string(i) + " [shape=ellipse, label=" + label(values[i]) + "];\n";
    }
    std::vector<int> writer(values.size(), -1);
    for (std::size_t c = 0; c < calls.size(); ++c) {
      std::string const node = "c" + std::to_string(c);
      std::string outputs;
      for (int const n : calls[c].outputs) outputs += "\n" + values[index(n)].name + " " + extents_of(values[index(n)]);
      all += "  " + node + " [label=" + quoted(std::to_string(c) + " " + calls[c].kernel + outputs);
      all += c < forward_calls ? "];\n" : ", style=dashed];\n";
      std::vector<int> read = calls[c].operands;
      if (calls[c].accumulates) read.insert(read.end(), calls[c].outputs.begin(), calls[c].outputs.end());
      for (int& n : read) {
        while (values[index(n)].source >= 0) n = values[index(n)].source;
      }
      std::sort(read.begin(), read.end());
      read.erase(std::unique(read.begin(), read.end()), read.end());
      for (int const n : read) {
        if (index(n) >= leaves && index(n) < 2 * leaves) continue;
        if (index(n) < leaves) {
          all += "  v" + std::to_string(n) + " -> " + node + ";\n";
        } else if (int const w = writer[index(n)]; w >= 0) {
          all += "  c" + std::to_string(w) + " -> " + node + " [label=" + quoted(values[index(n)].name) + "];\n";
        }
      }
      for (int const n : calls[c].outputs) {
        writer[index(n)] = static_cast<int>(c);
        if (index(n) < 2 * leaves) all += "  " + node + " -> v" + std::to_string(n) + ";\n";
      }
    }
    return all + "}\n";
  }

 private:
  static constexpr std::size_t columns = 120;

  static std::size_t index(int n) { return static_cast<std::size_t>(n); }
  static bool is_number(std::string const& s) {
    return std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
  }
  /// With a comma before every three digits; "-" where it is not known.
  static std::string number(Index n) {
    if (n < 0) return "-";
    std::string s = std::to_string(n);
    for (std::size_t i = s.size(); i > 3; i -= 3) s.insert(i - 3, 1, ',');
    return s;
  }
  static std::string decimal(char const* format, double x) {
    char text[64];
    std::snprintf(text, sizeof(text), format, x);
    return text;
  }
  static std::string extents_of(value const& v) {
    auto const& x = v.extents;
    return (x[0] == "1" ? "[" : "[" + x[0] + ", ") + x[1] + ", " + x[2] + "]";
  }
  static std::string calls_of(value const& v) {
    if (v.first < 0) return "-";
    return std::to_string(v.first) + "-" + (v.kept ? "" : std::to_string(v.last));
  }
  /// Texts in their columns; what is wider pushes the next ones.
  static void add_row(std::string& all, std::array<std::string, 7> const& cells) {
    constexpr std::size_t end[] = {5, 40, 64, 73, 87, 96, columns};
    constexpr bool right[] = {true, false, false, false, true, true, false};
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      std::size_t const begin = i == 0 ? 0 : (std::max)(end[i - 1], line.size()) + 1;
      if (cells[i].empty()) continue;
      line.resize(begin, ' ');
      if (right[i] && begin + cells[i].size() < end[i]) line.resize(end[i] - cells[i].size(), ' ');
      line += cells[i];
    }
    all += line + '\n';
  }
  static void add_value(std::string& all, std::string const& call, value const& v, std::string const& last) {
    add_row(all, {call, v.name, extents_of(v), v.type, number(v.bytes), calls_of(v), last});
  }
  /// Lines of at most `columns`, broken at spaces; the next ones are indented further.
  static void add_wrapped(std::string& all, std::string indent, std::string_view s) {
    while (!s.empty()) {
      std::size_t const room = columns - indent.size();
      std::size_t cut = s.size() <= room ? s.size() : s.rfind(' ', room);
      if (cut == std::string_view::npos || cut == 0) cut = (std::min)(s.find(' ', 1), s.size());
      all += indent;
      all += s.substr(0, cut);
      all += '\n';
      s.remove_prefix((std::min)(cut + 1, s.size()));
      indent.resize(10, ' ');
    }
  }
  void add_calls(std::string& all, char const* pass, std::size_t begin, std::size_t end) const {
    if (begin == end) return;
    all += '\n';
    add_row(all, {"", pass, "extents", "type", "bytes", "calls", "multiply-adds"});
    Index sum = 0;
    for (std::size_t c = begin; c < end; ++c) {
      call const& k = calls[c];
      for (std::size_t i = 0; i < k.outputs.size(); ++i) {
        std::string cost = i > 0 || k.macs == 0 ? "" : number(k.macs);
        if (i == 0 && k.seconds >= 0) cost += (cost.empty() ? "" : ", ") + decimal("%.3f ms", 1000 * k.seconds);
        add_value(all, i == 0 ? std::to_string(c) : "", values[index(k.outputs[i])], cost);
      }
      std::string how = (k.accumulates ? "+= " : "= ") + k.text;
      for (std::string const& m : k.makes) how += (&m == k.makes.data() ? " [fuses " : ", ") + m;
      if (!k.makes.empty()) how += ']';
      if (k.scratch > 0) how += " [scratch: " + number(k.scratch) + " bytes]";
      add_wrapped(all, "      ", how);
      sum = sum < 0 || k.macs < 0 ? -1 : sum + k.macs;
    }
    if (sum >= 0) add_row(all, {"", "all of them", "", "", "", "", number(sum)});
  }

  static std::string quoted(std::string_view s) {
    std::string all = "\"";
    for (char const c : s) {
      if (c == '"' || c == '\\') all += '\\';
      if (c == '\n') {
        all += "\\n";
      } else if (c >= 0 && c < ' ') {
        all += std::string("\\u00") + (c < 16 ? '0' : '1') + "0123456789abcdef"[c % 16];
      } else {
        all += c;
      }
    }
    return all + '"';
  }
  static std::string label(value const& v) { return quoted(v.name + "\n" + extents_of(v)); }
  static void add_member(std::string& all, char const* key, Index n) {
    if (n >= 0) all += ", \"" + std::string(key) + "\": " + std::to_string(n);
  }
  static void add_numbers(std::string& all, char const* key, std::vector<int> const& numbers) {
    all += ", \"" + std::string(key) + "\": [";
    for (std::size_t i = 0; i < numbers.size(); ++i) all += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
    all += ']';
  }
  template <class T, class F>
  static void each(std::string& all, std::vector<T> const& list, F const& add) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      all += i == 0 ? "\n  " : ",\n  ";
      add(list[i]);
    }
  }
};

}  // namespace headmix
