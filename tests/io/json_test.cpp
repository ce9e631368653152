// SPDX-License-Identifier: MIT
// The JSON reader accepts exactly the language of RFC 8259.

#include "headmix/io/json.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace headmix;

namespace {
/// Reads one value through f and the end of the text.
template <class F>
auto read(std::string_view text, F f) {
  JsonReader json(text, "t");
  auto value = f(json);
  json.end();
  return value;
}
std::string string(std::string_view text) {
  return read(text, [](JsonReader& json) { return json.string(); });
}
Index count_in(std::string_view text) {
  return read(text, [](JsonReader& json) { return json.count(); });
}
double number_in(std::string_view text) {
  return read(text, [](JsonReader& json) { return json.number(); });
}
void skip(std::string_view text) {
  read(text, [](JsonReader& json) { return json.skip(), 0; });
}
std::vector<Index> counts_in(std::string_view text) {
  return read(text, [](JsonReader& json) {
    std::vector<Index> all;
    json.array([&] { all.push_back(json.count()); });
    return all;
  });
}
constexpr std::string_view not_whole = "expected a whole number from 0 to 9223372036854775807, found ";
}  // namespace

TEST_CASE("json: strings are unescaped") {
  CHECK(string(R"("")") == "");
  CHECK(string(R"(  "a b/c"  )") == "a b/c");
  CHECK(string(R"("\"\\\/\b\f\n\r\t")") == "\"\\/\b\f\n\r\t");
  CHECK(string(R"("\u0041\u00e9\u20AC\ufffd")") == "A\xC3\xA9\xE2\x82\xAC\xEF\xBF\xBD");
  CHECK(string(R"("\ud83d\ude00\uD800\uDC00\uDBFF\uDFFF")") == "\xF0\x9F\x98\x80\xF0\x90\x80\x80\xF4\x8F\xBF\xBF");
  CHECK(string(R"("a\u0000b")") == std::string("a\0b", 3));
  std::string const raw =
      "\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF";
  CHECK(string('"' + raw + '"') == raw);
}

TEST_CASE("json: what is no string") {
  CHECK_THROWS_WITH_AS(string(R"("a)"),
                       "headmix: t: expected the end of a string, found the end of the text (byte 2 of the JSON text)",
                       Error);
  CHECK_THROWS_WITH_AS(string("'a'"), "headmix: t: expected a string, found \"'a'\" (byte 0 of the JSON text)", Error);
  CHECK_THROWS_WITH_AS(string(R"("a" "b")"),
                       "headmix: t: expected the end of the text, found a string (byte 4 of the JSON text)", Error);
  for (int c = 0; c < 0x20; ++c) {
    CHECK_THROWS_WITH_AS(string(std::string("\"a") + static_cast<char>(c) + '"'),
                         doctest::Contains("expected a control character to be escaped, found \"\\u00"), Error);
  }
  for (auto const* text : {R"("\)", R"("\x")", R"("\U0041")", R"("\'")"}) {
    CHECK_THROWS_WITH_AS(string(text), doctest::Contains("expected an escape sequence, found"), Error);
  }
  for (auto const* text : {R"("\u")", R"("\u123)", R"("\u12g4")", R"("\u+123")", R"("\u 123")", R"("\u0x1F")"}) {
    CHECK_THROWS_WITH_AS(string(text), doctest::Contains("expected four hexadecimal digits, found"), Error);
  }
  for (auto const* text : {R"("\ud800")", R"("\udbff x")", R"("\ud800\n")", R"("\ud800\ud800")", R"("\ud800\u0041")",
                           R"("\udc00")", R"("\udfff\ud800")", R"("\udc00\udc00")", R"("\ud800\ue000")"}) {
    CHECK_THROWS_WITH_AS(string(text), doctest::Contains("expected a pair of surrogates, found"), Error);
  }
}

TEST_CASE("json: bytes that are not UTF-8") {
  for (auto const* bytes :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC1", "\xC2", "\xC2\x41", "\xE0\x9F\xBF", "\xE2\x82", "\xED\xA0\x80",
        "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF", "\xF0\x90\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFE", "\xFF"}) {
    CAPTURE(quote(bytes));
    CHECK_FALSE(detail::is_utf8(bytes));
    CHECK_THROWS_WITH_AS(string(message("\"", bytes, "\"")), doctest::Contains("expected UTF-8, found \"\\x"), Error);
  }
  CHECK_THROWS_WITH_AS(string("\"a\xC3"), doctest::Contains("expected UTF-8, found \"\\xc3\" (byte 2 "), Error);
}

TEST_CASE("json: counts are whole numbers without sign, fraction and exponent") {
  CHECK(count_in("0") == 0);
  CHECK(count_in(" 9223372036854775807\n") == (std::numeric_limits<Index>::max)());
  for (auto const* text : {"-1", "-0", "+1", "01", "00", "1.0", "1e3", "1E0", "0x10", "9223372036854775808",
                           "99999999999999999999999999", "1_000", "NaN", "true", "null", "1'"}) {
    CHECK_THROWS_WITH_AS(count_in(text), doctest::Contains(message(not_whole, quote(text)).c_str()), Error);
  }
  CHECK_THROWS_WITH_AS(count_in("\"1\""), doctest::Contains(message(not_whole, "a string").c_str()), Error);
  CHECK_THROWS_WITH_AS(count_in("[1]"), doctest::Contains(message(not_whole, "an array").c_str()), Error);
  CHECK_THROWS_WITH_AS(count_in("{}"), doctest::Contains(message(not_whole, "an object").c_str()), Error);
  CHECK_THROWS_WITH_AS(count_in(" "), doctest::Contains(message(not_whole, "the end of the text").c_str()), Error);
  CHECK_THROWS_WITH_AS(count_in("1 2"), doctest::Contains("expected the end of the text, found \"2\""), Error);
  CHECK_THROWS_WITH_AS(count_in(std::string_view("1\0", 2)), doctest::Contains("found \"1\\u0000\""), Error);
}

TEST_CASE("json: numbers") {
  CHECK(number_in("0") == 0);
  CHECK(std::signbit(number_in("-0")));
  CHECK(number_in("-12.5e-1") == -1.25);
  CHECK(number_in("1E+2") == 100);
  CHECK(number_in("0.1") == 0.1);
  CHECK(number_in("1e0007") == 1e7);
  CHECK(number_in("123456789012345678901234567890") == 123456789012345678901234567890.);
  for (auto const* text : {"", "-", "+1", "01", "-01", ".5", "5.", "1.e3", "1e", "1e+", "--1", "1-1", "0x1p3", "inf",
                           "-Infinity", "nan", "1e999", "1,5"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(number_in(text), Error);
  }
}

TEST_CASE("json: true and false") {
  auto const boolean = [](std::string_view text) {
    return read(text, [](JsonReader& json) { return json.boolean(); });
  };
  CHECK(boolean(" true "));
  CHECK_FALSE(boolean("false"));
  for (auto const* text : {"", "True", "truefalse", "1", "null", "\"true\"", "[true]"}) {
    CHECK_THROWS_WITH_AS(boolean(text), doctest::Contains("expected true or false, found "), Error);
  }
}

TEST_CASE("json: arrays") {
  CHECK(counts_in("[]").empty());
  CHECK(counts_in(" [ \n] ").empty());
  CHECK(counts_in("[1,2 , 3]") == std::vector<Index>{1, 2, 3});
  CHECK_THROWS_WITH_AS(counts_in("[1,2,]"), doctest::Contains("t: [2]: expected a whole number"), Error);
  CHECK_THROWS_WITH_AS(counts_in("[,1]"), doctest::Contains("t: [0]: expected a whole number"), Error);
  CHECK_THROWS_WITH_AS(counts_in("[1 2]"), doctest::Contains("expected a comma or the end of the array, found \"2\""),
                       Error);
  CHECK_THROWS_WITH_AS(counts_in("[1"), doctest::Contains("expected a comma or the end of the array, found the end"),
                       Error);
  CHECK_THROWS_WITH_AS(counts_in("[1}"), doctest::Contains("expected a comma or the end of the array, found \"}\""),
                       Error);
  CHECK_THROWS_WITH_AS(counts_in("{}"), doctest::Contains("expected an array, found an object"), Error);
}

TEST_CASE("json: objects give the members in their order, an error the way to it") {
  std::string keys;
  JsonReader json(R"( { "b" : 1 , "a" : {"x\n":[7, -1]} } )", "t");
  CHECK_THROWS_WITH_AS(json.object([&](std::string const& key) {
    keys += key;
    if (key == "b") return json.skip();
    json.object([&](std::string const&) { json.array([&] { (void)json.count(); }); });
  }),
                       doctest::Contains(R"(t: "a": "x\u000a": [1]: expected a whole number)"), Error);
  CHECK(keys == "ba");
  CHECK_THROWS_WITH_AS(skip(R"({"a":[{"b":0},{1:2}]})"), doctest::Contains("t: \"a\": [1]: expected a string, found"),
                       Error);
}

TEST_CASE("json: a key that comes twice, however it is written") {
  CHECK_NOTHROW(skip(R"({"a":{"a":1},"b":{"a":1}})"));
  CHECK_THROWS_WITH_AS(skip(R"({"a":1,"b":2, "a":3})"),
                       "headmix: t: \"a\": expected every key once, found it again (byte 14 of the JSON text)", Error);
  CHECK_THROWS_WITH_AS(skip(R"({"":1,"":2})"), doctest::Contains("t: \"\": expected every key once"), Error);
  CHECK_THROWS_WITH_AS(skip(R"({"\u0061":1,"a":2})"), doctest::Contains("t: \"a\": expected every key once"), Error);
}

TEST_CASE("json: skipping checks what it skips") {
  for (auto const* text :
       {"null", "true", "false", "-1.5e9", "1e999", "\"x\"", "[]", "{}", "\t[1,[2,{\"a\":[null]}],\"b\"]\r\n"}) {
    CAPTURE(text);
    CHECK_NOTHROW(skip(text));
  }
  for (auto const* text : {"",
                           "nul",
                           "True",
                           "nulll",
                           "tru e",
                           "1.",
                           "[1,]",
                           "[,]",
                           "{,}",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{\"a\":1,}",
                           "{a:1}",
                           "{1:1}",
                           "{\"a\":1 \"b\":2}",
                           "{\"a\":1;\"b\":2}",
                           "{\"a\"=1}",
                           "[1]]",
                           "{}{}",
                           "[1}",
                           "{]",
                           "// c\n1",
                           "1 // c",
                           "/**/1",
                           "\xEF\xBB\xBF{}",
                           "[\v1]",
                           "[\f1]",
                           "[\xC2\xA0]",
                           "\"\\q\""}) {
    CAPTURE(text);
    CHECK_THROWS_AS(skip(text), Error);
  }
}

TEST_CASE("json: the text of a value, and null") {
  std::string found;
  read(R"({"a": [1, {"b":"]"}] , "c":null, "d": 1e3})", [&](JsonReader& json) {
    json.object([&](std::string const&) { found += message(json.null() ? "-" : json.value(), ";"); });
    return 0;
  });
  CHECK(found == R"([1, {"b":"]"}];-;1e3;)");
  CHECK_THROWS_WITH_AS(read("[nul]",
                            [](JsonReader& json) {
                              json.array([&] { static_cast<void>(json.null() ? "" : json.value()); });
                              return 0;
                            }),
                       "headmix: t: [0]: expected a value, found \"nul\" (byte 1 of the JSON text)", Error);
}

TEST_CASE("json: nesting ends at 64 levels") {
  auto const nested = [](std::string const& open, std::string const& close, int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += open;
    text += "0";
    for (int i = 0; i < n; ++i) text += close;
    return text;
  };
  CHECK_NOTHROW(skip(nested("[", "]", 64)));
  CHECK_NOTHROW(skip(nested(R"({"a":)", "}", 64)));
  CHECK_THROWS_WITH_AS(skip(nested("[", "]", 65)), doctest::Contains("expected at most 64 levels, found more"), Error);
  CHECK_THROWS_WITH_AS(skip(nested(R"({"a":)", "}", 65)), doctest::Contains("expected at most 64 levels"), Error);
  CHECK_THROWS_WITH_AS(skip(nested("[", "", 1000000)), doctest::Contains("expected at most 64 levels"), Error);
}

TEST_CASE("quote: a JSON string in printable ASCII") {
  CHECK(quote("plain text") == "\"plain text\"");
  CHECK(quote(std::string_view("\"\\\0\n\x1B\x7F", 6)) == R"("\"\\\u0000\u000a\u001b\u007f")");
  CHECK(quote("\xC3\xA9\xF0\x9F\x98\x80") == R"("\u00e9\ud83d\ude00")");
  CHECK(quote("\xF4\x8F\xBF\xBF\xF0\x90\x80\x80") == R"("\udbff\udfff\ud800\udc00")");
  CHECK(quote("a\xFFz\xC3") == R"("a\xffz\xc3")");
  CHECK(quote("abcdef", 3) == "\"abc...\"");
  CHECK(quote("abc", 3) == "\"abc\"");
  CHECK(quote("ab\xC3\xA9z", 3) == R"("ab\u00e9...")");
}

TEST_CASE("quote: reading gives back the text") {
  std::string all;
  for (char32_t c = 0; c < 0x110000; c += c < 0x1000 ? 1 : 97) {
    if (c < 0xD800 || c > 0xDFFF) detail::append_utf8(all, c);
  }
  CHECK(detail::is_utf8(all));
  CHECK(string(quote(all)) == all);
}
