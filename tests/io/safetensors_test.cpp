// SPDX-License-Identifier: MIT
// Safetensors files: every legal oddity, every error with its message, and files on disk that fail half-way.

#include "headmix/io/safetensors.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>

#include "files.hpp"

using namespace headmix;
using namespace headmix::test;

namespace {
Safetensors parse(std::string_view header, std::string_view data = "") {
  return Safetensors::parse(file_of(header, data), "f");
}
/// The error of a file with one tensor `entry` and 8 bytes of data.
void entry_fails(std::string const& entry, std::string const& error) {
  CAPTURE(entry);
  CHECK_THROWS_WITH_AS(parse(R"({"x":)" + entry + "}", "12345678"), doctest::Contains(error.c_str()), Error);
}
template <class T>
tensor_view tensor(std::vector<T> const& values, std::vector<Index> shape) {
  return {dtype_of<T>, std::move(shape), std::as_bytes(std::span(values))};
}
}  // namespace

TEST_CASE("safetensors: names, types, shapes, values and metadata") {
  std::string const data("\0\0\x80\x3F\0\0\0\xC0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x07", 17);
  auto const f = parse(
      R"({"__metadata__":{"layer":"moa","top_k":"2"},"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
      R"("i":{"dtype":"I64","shape":[1],"data_offsets":[8,16]},"m":{"dtype":"U8","shape":[1,1],"data_offsets":[16,17]}})",
      data);
  CHECK(f.metadata() == Metadata{{"layer", "moa"}, {"top_k", "2"}});
  CHECK(f.tensors().size() == 3);
  CHECK(f.tensor("w").type == dtype::f32);
  CHECK(f.tensor("w").shape == std::vector<Index>{1, 2});
  CHECK(f.values<float>("w") == std::vector<float>{1, -2});
  CHECK(f.values<std::int64_t>("i") == std::vector<std::int64_t>{-1});
  CHECK(f.values<std::uint8_t>("m") == std::vector<std::uint8_t>{7});
  CHECK(text_of(f.tensor("i").bytes) == data.substr(8, 8));
}

TEST_CASE("safetensors: tensors in any order, at any alignment, with entries and fields in any order") {
  auto const f = parse(
      R"({"b":{"data_offsets":[1,9],"shape":[1],"dtype":"F64"},"c":{"shape":[1],"dtype":"I16","data_offsets":[9,11]},)"
      R"("a":{"shape":[],"data_offsets":[0,1],"dtype":"I8"}})",
      std::string("\xFE\0\0\0\0\0\0\xF8\x3F\x02\x01", 11));
  CHECK(f.values<double>("b") == std::vector<double>{1.5});
  CHECK(f.values<std::int16_t>("c") == std::vector<std::int16_t>{0x102});
  CHECK(f.values<std::int8_t>("a") == std::vector<std::int8_t>{-2});
  CHECK(f.tensor("a").shape.empty());
}

TEST_CASE("safetensors: any JSON layout and escapes") {
  auto const f = parse(
      "\n\t { \"\\u0061\\ud83d\\ude00\\n\\/\" :\r\n{\"\\u0064type\" : \"\\u0055\\u0038\",\"sh\\u0061pe\":[ 1 "
      ",\n1],\"data_offsets\"\t:[0 , 1]},"
      "\"__meta\\u0064ata__\":{\"\\\"\":\"\\u0000\\\\\"}\n} \n ",
      "x");
  CHECK(f.tensors().size() == 1);
  CHECK(text_of(f.tensor("a\xF0\x9F\x98\x80\n/").bytes) == "x");
  CHECK(f.tensor("a\xF0\x9F\x98\x80\n/").shape == std::vector<Index>{1, 1});
  CHECK(f.metadata() == Metadata{{"\"", std::string("\0\\", 2)}});
}

TEST_CASE("safetensors: nothing, empty tensors, single numbers") {
  CHECK(parse("{}").tensors().empty());
  CHECK(parse("{}").metadata().empty());
  CHECK(parse(R"({"__metadata__":{}})").tensors().empty());
  auto const f = parse(
      R"({"y":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"e":{"dtype":"F64","shape":[3,0,2],"data_offsets":[1,1]},)"
      R"("z":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)"
      R"("w":{"dtype":"F32","shape":[0],"data_offsets":[3,3]},"w2":{"dtype":"I8","shape":[0],"data_offsets":[3,3]},)"
      R"("big":{"dtype":"F64","shape":[0,1152921504606846975],"data_offsets":[0,0]}})",
      "abc");
  CHECK(f.tensors().size() == 7);
  CHECK(f.values<double>("e").empty());
  CHECK(text_of(f.tensor("z").bytes) == "bc");
  // Without data, the memory is not read.
  auto const none = parse(R"({"e":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})");
  CHECK(none.values<float>("e").empty());
}

TEST_CASE("safetensors: dtypes have the sizes of the format") {
  struct {
    char const* name;
    int size;
  } const known[] = {{"F64", 8}, {"F32", 4}, {"F16", 2},  {"BF16", 2},    {"I64", 8},
                     {"I32", 4}, {"I16", 2}, {"I8", 1},   {"U64", 8},     {"U32", 4},
                     {"U16", 2}, {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
  for (auto const& [name, size] : known) {
    auto const entry = [&, name = name](int bytes) {
      return parse(message(R"({"x":{"dtype":")", name, R"(","shape":[3],"data_offsets":[0,)", bytes, "]}}"),
                   std::string(static_cast<std::size_t>(bytes), 'x'));
    };
    CHECK(name_of(entry(3 * size).tensor("x").type) == name);
    CHECK_THROWS_WITH_AS(entry(3 * size + 1), doctest::Contains(message(3 * size, " apart for ", name).c_str()), Error);
  }
  static_assert(dtype_of<double> == dtype::f64 && dtype_of<float> == dtype::f32);
  static_assert(dtype_of<std::int64_t> == dtype::i64 && dtype_of<Int> == dtype::i32 && dtype_of<Index> == dtype::i64);
  static_assert(dtype_of<std::uint64_t> == dtype::u64 && dtype_of<std::uint16_t> == dtype::u16);
}

TEST_CASE("safetensors: a tensor that is missing or of another type") {
  auto const f = parse(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "12345678");
  CHECK_THROWS_WITH_AS(f.tensor("y\n"), R"(headmix: f: expected a tensor "y\u000a", found none)", Error);
  CHECK_THROWS_WITH_AS((void)f.values<double>("x"), R"(headmix: f: "x": expected F64, found F32)", Error);
  CHECK_THROWS_WITH_AS((void)f.values<std::int32_t>("x"), R"(headmix: f: "x": expected I32, found F32)", Error);
}

TEST_CASE("safetensors: a file cut off anywhere") {
  auto const whole = file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "12345678");
  CHECK_NOTHROW((void)Safetensors::parse(whole));
  for (std::size_t n = 0; n < whole.size(); ++n) {
    CHECK_THROWS_AS((void)Safetensors::parse(std::span(whole).first(n)), Error);
  }
  auto const cut = [&](std::size_t n) { return Safetensors::parse(std::span(whole).first(n), "f"); };
  CHECK_THROWS_WITH_AS(cut(0), "headmix: f: expected 8 bytes of header length, found 0", Error);
  CHECK_THROWS_WITH_AS(cut(7), "headmix: f: expected 8 bytes of header length, found 7", Error);
  CHECK_THROWS_WITH_AS(cut(8), "headmix: f: expected 54 bytes of header, found 0", Error);
  CHECK_THROWS_WITH_AS(cut(61), "headmix: f: expected 54 bytes of header, found 53", Error);
  CHECK_THROWS_WITH_AS(cut(62), "headmix: f: expected 8 bytes of data, found 0", Error);
  CHECK_THROWS_WITH_AS(cut(69), "headmix: f: expected 8 bytes of data, found 7", Error);
}

TEST_CASE("safetensors: bytes after the data") {
  CHECK_THROWS_WITH_AS(parse("{}", "x"), "headmix: f: expected 0 bytes of data, found more", Error);
  CHECK_THROWS_WITH_AS(parse(R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "abc"),
                       "headmix: f: expected 2 bytes of data, found more", Error);
}

TEST_CASE("safetensors: a header length that is a lie") {
  auto const claim = [](std::size_t length) { return Safetensors::parse(file_of("{}", "", length), "f"); };
  CHECK_THROWS_WITH_AS(claim(3), "headmix: f: expected 3 bytes of header, found 2", Error);
  CHECK_THROWS_WITH_AS(claim(100'000'000), "headmix: f: expected 100000000 bytes of header, found 2", Error);
  CHECK_THROWS_WITH_AS(
      claim(100'000'001),
      "headmix: f: no safetensors file: expected a header of at most 100000000 bytes, found a length "
      "of 100000001 in the first 8 bytes, \"\\u0001\\xe1\\xf5\\u0005\\u0000\\u0000\\u0000\\u0000\"",
      Error);
  CHECK_THROWS_WITH_AS(claim(std::size_t(-2)), doctest::Contains("found a length of 18446744073709551614"), Error);
  auto const of = [](std::string_view text) { return Safetensors::parse(std::as_bytes(std::span(text)), "f"); };
  CHECK_THROWS_WITH_AS(of("version https://git-lfs"), doctest::Contains("in the first 8 bytes, \"version \""), Error);
  CHECK_THROWS_WITH_AS(of(std::string_view("PK\3\4\0\0\x10\10 ...", 12)),
                       doctest::Contains(" (a zip archive, as torch.save() writes)"), Error);
  CHECK_THROWS_WITH_AS(claim(0), doctest::Contains("expected an object, found the end of the text"), Error);
  CHECK_THROWS_WITH_AS(claim(1), doctest::Contains("expected a string, found the end of the text"), Error);
}

TEST_CASE("safetensors: a header that is not one JSON object") {
  for (auto const* header : {"", " ", "[]", "null", "1", "\"x\"", "\xEF\xBB\xBF{}"}) {
    CAPTURE(header);
    CHECK_THROWS_WITH_AS(parse(header), doctest::Contains("headmix: f: expected an object, found "), Error);
  }
  for (std::string const& rest : {std::string("x"), std::string("{}"), std::string(1, '\0'), std::string("  ,")}) {
    CHECK_THROWS_WITH_AS(parse("{}" + rest), doctest::Contains("headmix: f: expected the end of the text, found "),
                         Error);
  }
  CHECK_NOTHROW(parse("{}      "));
}

TEST_CASE("safetensors: entries with fields that are missing, unknown, double or of another type") {
  entry_fails("[]", R"(f: "x": expected an object, found an array)");
  entry_fails("null", R"(f: "x": expected an object, found "null")");
  entry_fails("{}", R"(f: "x": expected dtype, shape and data_offsets, found no dtype)");
  entry_fails(R"({"dtype":"F32","data_offsets":[0,8]})", "data_offsets, found no shape");
  entry_fails(R"({"dtype":"F32","shape":[2]})", "data_offsets, found no data_offsets");
  entry_fails(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"strides":[1]})",
              R"(f: "x": "strides": expected dtype, shape or data_offsets, found this field)");
  entry_fails(R"({"dtype":"F32","shape":[2],"dtype":"F32","data_offsets":[0,8]})",
              R"(f: "x": "dtype": expected every key once, found it again)");
  entry_fails(R"({"dtype":"F32","shape":[2],"sh\u0061pe":[2],"data_offsets":[0,8]})",
              R"(f: "x": "shape": expected every key once, found it again)");
  entry_fails(R"({"dtype":4})", R"(f: "x": "dtype": expected a string, found "4")");
  entry_fails(R"({"dtype":["F32"]})", R"(f: "x": "dtype": expected a string, found an array)");
  entry_fails(R"({"shape":2})", R"(f: "x": "shape": expected an array, found "2")");
  entry_fails(R"({"shape":"2"})", R"(f: "x": "shape": expected an array, found a string)");
  entry_fails(R"({"shape":{}})", R"(f: "x": "shape": expected an array, found an object)");
  entry_fails(R"({"shape":[[2]]})", R"(f: "x": "shape": [0]: expected a whole number)");
  entry_fails(R"({"shape":["2"]})", R"(f: "x": "shape": [0]: expected a whole number)");
  entry_fails(R"({"data_offsets":{"begin":0}})", R"(f: "x": "data_offsets": expected an array, found an object)");
  entry_fails(R"({"data_offsets":[]})", R"(f: "x": "data_offsets": expected two numbers, found 0)");
  entry_fails(R"({"data_offsets":[8]})", R"(f: "x": "data_offsets": expected two numbers, found 1)");
  entry_fails(R"({"data_offsets":[0,8,8]})", R"(f: "x": "data_offsets": [2]: expected two numbers, found more)");
}

TEST_CASE("safetensors: a tensor of an unknown dtype has its bytes and is no obstacle to others") {
  for (auto const* name : {"F4", "f32", "C64", "", "F32 ", "UNKNOWN"}) {
    CAPTURE(name);
    auto const f =
        parse(message(R"({"a":{"dtype":")", name,
                      R"(","shape":[3,2],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})"),
              "12345");
    CHECK(f.tensor("a").type == dtype::other);
    CHECK(f.tensor("a").shape == std::vector<Index>{3, 2});
    CHECK(text_of(f.tensor("a").bytes) == "123");
    CHECK(text_of(f.tensor("b").bytes) == "45");
    CHECK_THROWS_WITH_AS(static_cast<void>(f.values<float>("a")), R"(headmix: f: "a": expected F32, found UNKNOWN)",
                         Error);
    CHECK_THROWS_WITH_AS(write_safetensors("unwritten", f.tensors()),
                         R"(headmix: unwritten: "a": expected a dtype that has a name, found UNKNOWN)", Error);
  }
  entry_fails(R"({"dtype":"F4","shape":[1],"data_offsets":[8,0]})",
              R"(f: "x": expected data_offsets that ascend, found [8, 0])");
  entry_fails(R"({"dtype":"F4","shape":[1],"data_offsets":[1,8]})",
              "expected to begin at 0, where the data begins, found 1");
}

TEST_CASE("safetensors: extents and offsets that are no whole numbers, or too large") {
  for (auto const* bad : {"-1", "1.0", "2e0", "01", "9223372036854775808", "1e99", "true"}) {
    auto const found = message("expected a whole number from 0 to 9223372036854775807, found \"", bad, "\"");
    entry_fails(message(R"({"shape":[1,)", bad, "]}"), R"(f: "x": "shape": [1]: )" + found);
    entry_fails(message(R"({"data_offsets":[)", bad, ",8]}"), R"(f: "x": "data_offsets": [0]: )" + found);
  }
  // Products that a 64-bit multiplication would wrap to 8.
  for (auto const* shape : {"2305843009213693953", "4294967296,4294967296,2", "0,4294967296,4294967296",
                            "4294967296,4294967296,0", "9223372036854775807,9223372036854775807"}) {
    entry_fails(message(R"({"dtype":"F64","shape":[)", shape, R"(],"data_offsets":[0,8]})"),
                R"(f: "x": expected a size that fits into memory, found F64 [)");
  }
  entry_fails(R"({"dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,8]})",
              "expected data_offsets 9223372036854775807 apart for U8 [9223372036854775807], found [0, 8]");
}

TEST_CASE("safetensors: offsets that do not fit the shape") {
  entry_fails(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})",
              R"(f: "x": expected data_offsets 12 apart for F32 [3], found [0, 8])");
  entry_fails(R"({"dtype":"F32","shape":[],"data_offsets":[0,8]})", "4 apart for F32 [], found [0, 8]");
  entry_fails(R"({"dtype":"F32","shape":[2,0],"data_offsets":[0,8]})", "0 apart for F32 [2, 0], found [0, 8]");
  entry_fails(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})", "8 apart for F32 [2], found [8, 0]");
  entry_fails(R"({"dtype":"U8","shape":[0],"data_offsets":[9223372036854775807,0]})", "0 apart for U8 [0], found [922");
  entry_fails(R"({"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,8]})",
              "1 apart for U8 [1, 1, 1, 1, 1, 1, 1, 1, ...], found [0, 8]");
  entry_fails(R"({"dtype":"F32","shape":[4],"data_offsets":[0,16]})", "f: expected 16 bytes of data, found 8");
  // A size of most of the address space: refused when the data ends, before memory is requested.
  entry_fails(R"({"dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,9223372036854775807]})",
              "f: expected 9223372036854775807 bytes of data, found 8");
}

TEST_CASE("safetensors: gaps and overlaps") {
  auto const two = [](std::string const& a, std::string const& b) {
    return parse(message(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)", a,
                         R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)", b, "}}"),
                 "123456789");
  };
  CHECK_THROWS_WITH_AS(two("[0,4]", "[5,9]"),
                       R"(headmix: f: "b": data_offsets: expected to begin at 4, where "a" ends, found 5)", Error);
  CHECK_THROWS_WITH_AS(two("[3,7]", "[0,4]"),
                       R"(headmix: f: "a": data_offsets: expected to begin at 4, where "b" ends, found 3)", Error);
  CHECK_THROWS_WITH_AS(two("[0,4]", "[0,4]"),
                       R"(headmix: f: "b": data_offsets: expected to begin at 4, where "a" ends, found 0)", Error);
  CHECK_THROWS_WITH_AS(two("[1,5]", "[5,9]"),
                       R"(headmix: f: "a": data_offsets: expected to begin at 0, where the data begins, found 1)",
                       Error);
  CHECK_THROWS_WITH_AS(
      parse(
          R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"e":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}})",
          "1234"),
      R"(headmix: f: "e": data_offsets: expected to begin at 4, where "a" ends, found 2)", Error);
}

TEST_CASE("safetensors: names that come twice") {
  CHECK_THROWS_WITH_AS(parse(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                             R"("\u0061":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
                       doctest::Contains(R"(f: "a": expected every key once)"), Error);
  CHECK_THROWS_WITH_AS(parse(R"({"__metadata__":{},"__metadata__":{}})"),
                       doctest::Contains(R"(f: "__metadata__": expected every key once)"), Error);
  CHECK_THROWS_WITH_AS(parse(R"({"__metadata__":{"k":"1","k":"1"}})"),
                       doctest::Contains(R"(f: "__metadata__": "k": expected every key once)"), Error);
}

TEST_CASE("safetensors: metadata other than text") {
  for (auto const* value : {"1", "null", "true", "[]", "{}"}) {
    CHECK_THROWS_WITH_AS(parse(message(R"({"__metadata__":{"k":)", value, "}}")),
                         doctest::Contains(R"(f: "__metadata__": "k": expected a string, found )"), Error);
  }
  CHECK_THROWS_WITH_AS(parse(R"({"__metadata__":["k"]})"),
                       doctest::Contains(R"(f: "__metadata__": expected an object, found an array)"), Error);
  CHECK_THROWS_WITH_AS(parse(R"({"__metadata__":null})"), doctest::Contains("expected an object, found \"null\""),
                       Error);
}

TEST_CASE("safetensors: a message is one short line of ASCII whatever the name") {
  std::string name = R"(\u0000\n\u001b[31m\u202e\u00e9\ud83d\ude00)";
  for (int i = 0; i < 1000; ++i) name += "long";
  std::string text;
  try {
    (void)parse("{\"" + name + "\":{\"dtype\":1}}");
  } catch (Error const& e) {
    text = e.what();
  }
  CHECK(text.find(R"("\u0000\u000a\u001b[31m\u202e\u00e9\ud83d\ude00longlong)") != std::string::npos);
  CHECK(text.find("long...\": \"dtype\": expected a string") != std::string::npos);
  CHECK(text.size() < 300);
  for (char const c : text) CHECK((c >= 0x20 && c <= 0x7E));
}

TEST_CASE("safetensors: moving takes the tensors along") {
  auto f = parse(R"({"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", "abc");
  auto g = std::move(f);
  CHECK(text_of(g.tensor("x").bytes) == "abc");
  g = parse(R"({"y":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "z");
  CHECK(g.tensors().size() == 1);
  CHECK(text_of(g.tensor("y").bytes) == "z");
  static_assert(!std::is_copy_constructible_v<Safetensors> && !std::is_copy_assignable_v<Safetensors>);
}

TEST_CASE("safetensors: what is written is read again") {
  Folder const folder;
  std::vector<double> const d{1.5, -2, 3, 4, 5, 6};
  std::vector<float> const s{0.25f};
  std::vector<std::uint8_t> const m{1, 0, 1};
  std::vector<std::int64_t> const i{-1, 1, std::int64_t{1} << 62};
  std::string const half = "\x01\x02\x03\x04";
  TensorMap const tensors{{"w\n\xC3\xA9\xF0\x9F\x98\x80\"\\", tensor(d, {2, 3})},
                          {std::string("\0", 1), tensor(s, {})},
                          {"", tensor(m, {3, 1})},
                          {"i", tensor(i, {3})},
                          {"e", tensor(std::vector<float>{}, {4, 0})},
                          {"h", {dtype::bf16, {2}, std::as_bytes(std::span(half))}},
                          {"t", {dtype::boolean, {1, 3}, std::as_bytes(std::span(m))}}};
  Metadata const metadata{{"", ""}, {"layer", "moa"}, {"\t\"", "\xE2\x82\xAC\x7F\n"}};
  write_safetensors(folder / "a", tensors, metadata);
  auto const back = Safetensors::read(folder / "a");
  CHECK(same(back.tensors(), tensors));
  CHECK(back.metadata() == metadata);
  CHECK(back.values<double>("w\n\xC3\xA9\xF0\x9F\x98\x80\"\\") == d);
  CHECK(folder.files() == 1);
}

TEST_CASE("safetensors: the bytes that the reference writer writes") {
  Folder const folder;
  std::vector<float> const f{1, 2};
  std::vector<double> const d{3};
  std::vector<std::uint8_t> const u{9};
  write_safetensors(folder / "a",
                    {{"u", tensor(u, {1})}, {"b", tensor(f, {2, 1})}, {"d", tensor(d, {})}, {"a", tensor(f, {2})}},
                    {{"k", "v"}});
  std::string const header =
      R"({"__metadata__":{"k":"v"},"d":{"dtype":"F64","shape":[],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},"b":{"dtype":"F32","shape":[2,1],"data_offsets":[16,24]},)"
      R"("u":{"dtype":"U8","shape":[1],"data_offsets":[24,25]}})";
  std::string const padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  std::string const floats = text_of(std::as_bytes(std::span(f)));
  CHECK(text_of(read_all(folder / "a")) ==
        text_of(file_of(padded, text_of(std::as_bytes(std::span(d))) + floats + floats + "\x09")));
  write_safetensors(folder / "a", {});
  CHECK(text_of(read_all(folder / "a")) == text_of(file_of("{}      ")));
}

TEST_CASE("safetensors: tensors that cannot be written, and no file is") {
  Folder const folder;
  std::string const path = folder / "a";
  std::vector<float> const f(6);
  auto const fails = [&](TensorMap const& tensors, Metadata const& metadata, std::string const& error) {
    CHECK_THROWS_WITH_AS(write_safetensors(path, tensors, metadata), message("headmix: ", path, ": ", error).c_str(),
                         Error);
  };
  fails({{"x", tensor(f, {2, 2})}}, {}, R"("x": expected 16 bytes for F32 [2, 2], found 24 bytes)");
  fails({{"x", tensor(f, {-2, -3})}}, {},
        R"("x": expected a size that fits into memory for F32 [-2, -3], found 24 bytes)");
  fails({{"x", tensor(f, {Index{1} << 62, 4})}}, {},
        R"("x": expected a size that fits into memory for F32 [4611686018427387904, 4], found 24 bytes)");
  fails({{"__metadata__", tensor(f, {6})}}, {}, R"("__metadata__": expected another name for a tensor)");
  fails({{"x\xFF", tensor(f, {6})}}, {}, R"(expected a name in UTF-8, found "x\xff")");
  fails({}, {{"k\xC3", ""}}, R"(expected a name in UTF-8, found "k\xc3")");
  fails({}, {{"k", "\x80"}}, R"("k": expected text in UTF-8, found "\x80")");
  CHECK(folder.files() == 0);
}

TEST_CASE("safetensors: a header that no reader would take is not written [slow]") {
  Folder const folder;
  std::string const path = folder / "a";
  CHECK_THROWS_WITH_AS(
      write_safetensors(path, {}, {{"k", std::string(16'666'667, '\1')}}),  // \u0001 each
      message("headmix: ", path, ": expected a header of at most 100000000 bytes, found 100000032").c_str(), Error);
  CHECK(folder.files() == 0);
}

TEST_CASE("safetensors: files that cannot be read") {
  Folder const folder;
  std::string const path = folder / "none";
  CHECK_THROWS_WITH_AS((void)Safetensors::read(path),
                       message("headmix: ", path, ": cannot open: No such file or directory").c_str(), Error);
  CHECK_THROWS_WITH_AS((void)Safetensors::read(folder.path),
                       message("headmix: ", folder.path.string(), ": cannot read: Is a directory").c_str(), Error);
  std::ofstream(path) << "short";
  CHECK_THROWS_WITH_AS((void)Safetensors::read(path),
                       message("headmix: ", path, ": expected 8 bytes of header length, found 5").c_str(), Error);
  chmod(path.c_str(), 0);
  if (geteuid() != 0) {
    CHECK_THROWS_WITH_AS((void)Safetensors::read(path),
                         message("headmix: ", path, ": cannot open: Permission denied").c_str(), Error);
  }
  // The file is endless; reading stops after the header.
  CHECK_THROWS_WITH_AS((void)Safetensors::read("/dev/zero"), doctest::Contains("/dev/zero: expected an object"), Error);
}

TEST_CASE("safetensors: a pipe is read as a file is") {
  auto const file = file_of(R"({"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", "abc");
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  REQUIRE(write(ends[1], file.data(), file.size()) == static_cast<ssize_t>(file.size()));
  close(ends[1]);
  auto const f = Safetensors::read(message("/dev/fd/", ends[0]));
  close(ends[0]);
  CHECK(text_of(f.tensor("x").bytes) == "abc");
}

TEST_CASE("safetensors: data larger than one reading step") {
  Folder const folder;
  std::vector<std::int32_t> v(300'001);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<std::int32_t>(i * 2654435761u);
  write_safetensors(folder / "a", {{"v", tensor(v, {300'001})}});
  CHECK(Safetensors::read(folder / "a").values<std::int32_t>("v") == v);
  std::filesystem::resize_file(folder / "a", std::filesystem::file_size(folder / "a") - 1);
  CHECK_THROWS_WITH_AS((void)Safetensors::read(folder / "a"),
                       doctest::Contains("expected 1200004 bytes of data, found 1200003"), Error);
}

TEST_CASE("safetensors: a disk that is full leaves the old file, and no other") {
  Folder const folder;
  std::string const path = folder / "a";
  std::vector<float> const small_data(4), large(100'000);
  write_safetensors(path, {{"x", tensor(small_data, {4})}});
  auto const before = read_all(path);
  // A file size limit acts as a full disk, without privileges.
  auto const old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{}, tight{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
  tight = {100'000, old.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &tight) == 0);
  std::string error;
  try {
    write_safetensors(path, {{"x", tensor(large, {100'000})}});
  } catch (Error const& e) {
    error = e.what();
  }
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, old_handler);
  CHECK(error == message("headmix: ", path, ": cannot write: File too large"));
  CHECK(text_of(read_all(path)) == text_of(before));
  CHECK(folder.files() == 1);
}

TEST_CASE("safetensors: a path that cannot be written") {
  Folder const folder;
  auto const fails = [](std::string const& path, char const* reason) {
    CHECK_THROWS_WITH_AS(write_safetensors(path, {}), message("headmix: ", path, ": cannot ", reason).c_str(), Error);
  };
  fails(folder / "none/a", "create: No such file or directory");
  fails(folder.path.string(), "create: Is a directory");
  CHECK(folder.files() == 0);
  // Through a symbolic link, so that a faulty writer cannot replace the device itself.
  std::filesystem::create_symlink("/dev/full", folder.path / "full");
  fails(folder / "full", "write: No space left on device");
  CHECK(std::filesystem::is_symlink(folder.path / "full"));
  CHECK(folder.files() == 1);
}

TEST_CASE("safetensors: a pipe or device is written as it is, not replaced") {
  Folder const folder;
  std::string const path = folder / "pipe";
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  int const reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  write_safetensors(path, {});
  std::array<char, 100> got{};
  CHECK(read(reader, got.data(), got.size()) == 16);
  close(reader);
  CHECK(std::filesystem::is_fifo(path));
  CHECK(folder.files() == 1);
}

TEST_CASE("safetensors: the reference cases, read, written and read again") {
  Folder const folder;
  int files = 0;
  for (auto const& item : std::filesystem::directory_iterator(HEADMIX_TEST_CASES)) {
    CAPTURE(item.path().string());
    auto const f = Safetensors::read(item.path());
    CHECK(f.tensors().size() >= 2);
    bool const is_case = item.path().string().find(".expected.") == std::string::npos;
    CHECK(f.metadata().contains("layer") == is_case);
    CHECK(f.tensors().contains(is_case ? "dy" : "y"));
    write_safetensors(folder / "copy", f.tensors(), f.metadata());
    auto const copy = Safetensors::read(folder / "copy");
    CHECK(same(copy.tensors(), f.tensors()));
    CHECK(copy.metadata() == f.metadata());
    for (auto const& [name, t] : f.tensors()) {
      if (t.type == dtype::f64) {
        for (double const value : f.values<double>(name)) CHECK(std::abs(value) < 1e6);
      }
    }
    ++files;
  }
  CHECK(files == 28);
}
