#pragma once
// SPDX-License-Identifier: MIT
// The guarantees of the file readers for any bytes, shared by the tests that damage files and the fuzzers: a clean
// headmix::Error or a result that satisfies the format. A violation is a std::logic_error.

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "../io/files.hpp"
#include "headmix/io/json.hpp"
#include "headmix/io/safetensors.hpp"

namespace headmix::test {

/// Fails unless `holds`.
inline void promise(bool holds, char const* what) {
  if (!holds) throw std::logic_error(message("broken promise: ", what));
}

/// The text of an error begins as expected and is printable, whatever bytes the file holds.
inline void check_error(Error const& e, std::string_view begin) {
  std::string_view const text = e.what();
  promise(text.substr(0, begin.size()) == begin, "an error names the file");
  promise(std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c <= 0x7E; }),
          "an error is printable");
}

constexpr std::size_t header_prefix = sizeof(std::uint64_t);

inline std::uint64_t header_length(std::span<std::byte const> file) {
  std::uint64_t n = 0;
  if (!file.empty()) std::memcpy(&n, file.data(), std::min(file.size(), sizeof n));
  return n;
}

/// Checks an accepted safetensors file, from the raw bytes and without the code under test.
inline void check_taken(Safetensors const& f, std::span<std::byte const> file) {
  std::size_t const data_begin = header_prefix + header_length(file);
  promise(data_begin <= file.size(), "the header lies in the file");
  std::vector<std::span<std::byte const>> spans;
  for (auto const& [name, t] : f.tensors()) {
    std::string_view const type = name_of(t.type);
    std::size_t expected = type.ends_with("64") ? 8 : type.ends_with("32") ? 4 : type.ends_with("16") ? 2 : 1;
    for (Index const n : t.shape) {
      promise(n >= 0, "extents are not negative");
      expected *= static_cast<std::size_t>(n);
    }
    promise(t.type == dtype::other || t.bytes.size() == expected, "a tensor has the bytes of its shape");
    promise(name != "__metadata__", "__metadata__ is no tensor");
    if (!t.bytes.empty()) spans.push_back(t.bytes);
  }
  std::sort(spans.begin(), spans.end(), [](auto a, auto b) { return a.data() < b.data(); });
  std::string data;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    promise(i == 0 || spans[i].data() == spans[i - 1].data() + spans[i - 1].size(), "tensors follow each other");
    data += text_of(spans[i]);
  }
  promise(data == text_of(file.subspan(data_begin)), "tensors hold the bytes of the file");
}

/// Written and read again, a file is unchanged. Unknown dtypes cannot be written.
inline void check_round_trip(Safetensors const& f, std::string const& path) {
  for (auto const& [name, t] : f.tensors()) {
    if (t.type == dtype::other) return;
  }
  write_safetensors(path, f.tensors(), f.metadata());
  auto const copy = Safetensors::read(path);
  promise(same(copy.tensors(), f.tensors()) && copy.metadata() == f.metadata(), "what is written is what is read");
}

/// Reads JSON by functions that the first byte selects: skipping, objects, arrays, strings, numbers.
inline void check_json(std::string_view how_and_text) {
  if (how_and_text.empty()) return;
  struct Taker {
    JsonReader& json;
    int how;
    void take(int depth) {
      switch ((how + depth) % 5) {
        case 0:
          return json.skip();
        case 1:
          return json.object([&](std::string const& key) {
            promise(detail::is_utf8(key), "a key is UTF-8");
            take(depth + 1);
          });
        case 2:
          return json.array([&] { take(depth + 1); });
        case 3:
          return promise(detail::is_utf8(json.string()), "a string is UTF-8");
        default:
          if (how % 2 == 1) return promise(json.count() >= 0, "a count is not negative");
          promise(std::isfinite(json.number()), "a number is finite");
      }
    }
  };
  try {
    JsonReader json(how_and_text.substr(1), "f");
    Taker{json, static_cast<unsigned char>(how_and_text[0])}.take(0);
    json.end();
  } catch (Error const& e) {
    check_error(e, "headmix: ");
  }
}

}  // namespace headmix::test
