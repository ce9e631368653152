// SPDX-License-Identifier: MIT
// Thousands of damaged files: each is refused with a clean error or satisfies the format, and none makes the reader
// allocate more than its size justifies. operator new is replaced for this executable and measures.

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "../fuzz/formats.hpp"
#include "headmix/core/random.hpp"

namespace {
std::size_t largest_allocation = 0, allocated = 0;

void* allocate(std::size_t bytes) {
  largest_allocation = std::max(largest_allocation, bytes);
  allocated += bytes;
  void* const p = std::malloc(bytes == 0 ? 1 : bytes);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) { return allocate(bytes); }
[[gnu::noinline]] void* operator new[](std::size_t bytes) { return allocate(bytes); }
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

using namespace headmix;
using namespace headmix::test;

namespace {

constexpr std::size_t prefix = header_prefix;

void set_header_length(Bytes& file, std::uint64_t n) { std::memcpy(file.data(), &n, std::min(file.size(), sizeof n)); }

/// Random numbers, in sequence.
class Dice {
 public:
  explicit Dice(std::uint64_t stream) : random_(20, stream) {}
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_.below(next_++, n)); }
  template <class C>
  auto const& pick(C const& from) {
    return from[below(std::size(from))];
  }

 private:
  Random random_;
  std::uint64_t next_ = 0;
};

void insert(Bytes& file, std::size_t at, std::string_view text) {
  auto const bytes = std::as_bytes(std::span(text));
  file.insert(file.begin() + static_cast<std::ptrdiff_t>(at), bytes.begin(), bytes.end());
}
void erase(Bytes& file, std::size_t at, std::size_t n) {
  auto const first = file.begin() + static_cast<std::ptrdiff_t>(at);
  file.erase(first, first + static_cast<std::ptrdiff_t>(std::min(n, file.size() - at)));
}

/// Replaces a number of the header by another one.
void change_number(Bytes& file, std::size_t at, std::size_t header_end, Dice& dice) {
  auto const is_digit = [&](std::size_t i) { return std::isdigit(std::to_integer<unsigned char>(file[i])) != 0; };
  while (at < header_end && !is_digit(at)) ++at;
  std::size_t end = at;
  while (end < header_end && is_digit(end)) ++end;
  constexpr std::string_view numbers[] = {"0",
                                          "1",
                                          "2",
                                          "3",
                                          "7",
                                          "8",
                                          "16",
                                          "24",
                                          "-1",
                                          "01",
                                          "1e1",
                                          "1.0",
                                          "4294967296",
                                          "2305843009213693952",
                                          "9223372036854775807",
                                          "9223372036854775808",
                                          "18446744073709551615",
                                          "18446744073709551616"};
  erase(file, at, end - at);
  insert(file, at, dice.pick(numbers));
}

/// One change of a file. Changes that move the end of the header correct its length in three of four cases, since
/// otherwise reading stops there.
void mutate(Bytes& file, std::vector<Bytes> const& seeds, Dice& dice) {
  constexpr std::string_view tokens[] = {"{",
                                         "}",
                                         "[",
                                         "]",
                                         ",",
                                         ":",
                                         "\"",
                                         "\\",
                                         "\\u0000",
                                         "\\ud800",
                                         "\\ud83d\\ude00",
                                         "null",
                                         "true",
                                         " ",
                                         "\n",
                                         "\t",
                                         "\"x\":",
                                         "\"dtype\"",
                                         "\"shape\"",
                                         "\"data_offsets\"",
                                         "\"__metadata__\":{}",
                                         "\"F64\"",
                                         "\"U8\"",
                                         "\xC3\xA9",
                                         "\xFF",
                                         std::string_view("\0", 1),
                                         "{}",
                                         "[]",
                                         "[0]",
                                         "[0,0]",
                                         "0,"};
  std::size_t const before = file.size();
  if (before == 0) return;
  std::size_t const header_end = static_cast<std::size_t>(
      std::min<std::uint64_t>(prefix + std::min<std::uint64_t>(header_length(file), before), before));
  std::size_t const at =
      dice.below(4) == 0 || header_end <= prefix ? dice.below(before) : prefix + dice.below(header_end - prefix);
  std::size_t const length = 1 + dice.below(dice.below(2) == 0 ? 4 : 64);
  auto const span_at = [&](Bytes const& from, std::size_t i) {
    return text_of(std::span(from).subspan(i, std::min(length, from.size() - i)));
  };
  switch (dice.below(10)) {
    case 0:
      file[at] ^= std::byte{1} << dice.below(8);
      break;
    case 1:
      file[at] = static_cast<std::byte>(dice.below(256));
      break;
    case 2:
      erase(file, at, length);
      break;
    case 3:
      insert(file, at, dice.pick(tokens));
      break;
    case 4: {
      auto const token = dice.pick(tokens);
      erase(file, at, token.size());
      insert(file, at, token);
      break;
    }
    case 5:
      file.resize(at);
      return;
    case 6: {
      auto const& other = dice.pick(seeds);
      insert(file, at, span_at(other, dice.below(other.size())));
      break;
    }
    case 7: {
      std::uint64_t const lengths[] = {0,
                                       1,
                                       2,
                                       header_length(file) - 1,
                                       header_length(file) + 1,
                                       before,
                                       before - prefix,
                                       99'999'999,
                                       100'000'000,
                                       100'000'001,
                                       std::uint64_t{1} << 63,
                                       ~std::uint64_t{0}};
      set_header_length(file, dice.pick(lengths));
      return;
    }
    case 8:
      change_number(file, std::max(std::min(prefix, before), at), header_end, dice);
      break;
    default:
      insert(file, dice.below(2) == 0 ? at : dice.below(before), span_at(file, at));
  }
  if (at >= prefix && at < header_end && dice.below(4) != 0) {
    set_header_length(file, header_length(file) + file.size() - before);
  }
}

/// The text of an error without the parts that depend on the file.
std::string kind_of(std::string text) {
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  for (std::size_t begin; (begin = text.find('"')) != std::string::npos;) {
    std::size_t end = begin + 1;
    while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
    text.erase(begin, end + 1 - begin);
  }
  return text;
}

/// A valid file with all features of the format.
Bytes small_file() {
  return file_of(
      R"({"__metadata__":{"layer":"moa","\u00e9\ud83d\ude00":"\"\\\n"},"x":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      "\"\xC3\xA9\":{\"shape\":[],\"data_offsets\":[8,16],\"dtype\":\"I64\"},"
      R"( "e":{"dtype":"F64","shape":[0,3],"data_offsets":[16,16]},"m":{"dtype":"BOOL","shape":[3],"data_offsets":[16,19]}}  )",
      "0123456789012345678");
}
/// A file whose header requests the most memory: every two bytes of it are an extent.
Bytes long_shape() {
  std::string shape = "1";
  for (int i = 0; i < 1000; ++i) shape += ",1";
  return file_of(R"({"x":{"dtype":"U8","shape":[)" + shape + R"(],"data_offsets":[0,1]}})", "x");
}
Bytes many_keys() {
  std::string keys;
  for (int i = 0; i < 500; ++i) keys += message(i ? "," : "", "\"", i, "\":\"\"");
  return file_of(R"({"__metadata__":{)" + keys + "}}");
}

struct Outcome {
  bool accepted = false;
  std::string error;
};
/// Reads a file; checks memory, and the content if it was accepted.
Outcome try_file(Bytes const& file) {
  Outcome out;
  largest_allocation = allocated = 0;
  try {
    auto const f = Safetensors::parse(file, "f");
    std::size_t const largest = largest_allocation, sum = allocated;
    out.accepted = true;
    check_taken(f, file);
    largest_allocation = largest;
    allocated = sum;
  } catch (Error const& e) {
    out.error = e.what();
    check_error(e, "headmix: f: ");
  }
  // A reading step of 64 KiB, and an extent of 8 bytes for every two bytes of the header, in a vector that doubles.
  REQUIRE(largest_allocation <= 65536 + 8 * file.size());
  REQUIRE(allocated <= 4 * 65536 + 64 * file.size());
  return out;
}

}  // namespace

TEST_CASE("fuzz: the files that it starts from are valid") {
  for (auto const& seed : {small_file(), long_shape(), many_keys()}) CHECK(try_file(seed).accepted);
}

TEST_CASE("fuzz: a damaged file is refused cleanly, or keeps what the format promises") {
  std::vector<Bytes> const seeds{small_file(), read_all(HEADMIX_TEST_CASES "/moa-default.safetensors"),
                                 read_all(HEADMIX_TEST_CASES "/moh-default.expected.safetensors"), long_shape(),
                                 many_keys()};
  Folder const folder;
  std::set<std::string> errors;
  int accepted = 0, refused = 0;
  for (std::uint64_t round = 0; round < 8000; ++round) {
    CAPTURE(round);
    Dice dice(round);
    // Half of the files are the small one, where more changes matter.
    Bytes file = seeds[round % 2 == 0 ? 0 : dice.below(seeds.size())];
    for (std::size_t n = 1 + dice.below(1 + dice.below(3)); n > 0; --n) mutate(file, seeds, dice);
    auto const outcome = try_file(file);
    ++(outcome.accepted ? accepted : refused);
    if (!outcome.accepted) errors.insert(kind_of(outcome.error));
    if (outcome.accepted && accepted % 16 == 0) {
      check_round_trip(Safetensors::parse(file), folder / "copy");
    }
  }
  // Mutations cause acceptance, refusal, and every kind of error.
  CHECK(accepted > 200);
  CHECK(refused > 5000);
  CHECK(errors.size() > 80);
}

TEST_CASE("fuzz: memory is asked for by what has come, not by what is claimed") {
  auto const liar = file_of("{}", "", 99'999'999);
  CHECK_FALSE(try_file(liar).accepted);
  CHECK(largest_allocation == 65536);
  auto const huge =
      file_of(R"({"x":{"dtype":"U8","shape":[4611686018427387904],"data_offsets":[0,4611686018427387904]}})", "x");
  CHECK_FALSE(try_file(huge).accepted);
  CHECK(largest_allocation == 65536);
}
