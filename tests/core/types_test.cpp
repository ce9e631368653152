// SPDX-License-Identifier: MIT
// Type lists, names of types, and messages.

#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "headmix/core/error.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/type_list.hpp"
#include "headmix/core/type_name.hpp"

using namespace headmix;

namespace some {
struct W_q {};
template <class T, int N>
struct holder {
  struct inner {};
};
template <class T>
struct of_a_type {};
template <int N>
struct of_a_number {};
struct renamed {
  static constexpr char const* name = "router.weight";
};
}  // namespace some
namespace {
struct hidden {};
}  // namespace

TEST_CASE("type_list: push_unique keeps the order and every type once") {
  using one = detail::push_unique<detail::push_unique<detail::push_unique<type_list<>, int>, char>, int>;
  CHECK(std::is_same_v<one, type_list<int, char>>);
  CHECK(detail::contains<one, char>);
  CHECK_FALSE(detail::contains<one, long>);
  CHECK_FALSE(detail::contains<type_list<>, int>);
}
TEST_CASE("type_list: concat and reverse") {
  CHECK(std::is_same_v<concat<>, type_list<>>);
  CHECK(std::is_same_v<concat<type_list<int>, type_list<>, type_list<char, long>>, type_list<int, char, long>>);
  CHECK(std::is_same_v<detail::reverse<type_list<int, char, long>>, type_list<long, char, int>>);
  CHECK(std::is_same_v<detail::reverse<type_list<>>, type_list<>>);
  CHECK(type_list<int, int>::size == 2);
}
TEST_CASE("type_list: for_each visits in order") {
  std::string seen;
  for_each(type_list<char, short, int>{}, [&]<class T>() { seen += std::to_string(sizeof(T)); });
  CHECK(seen == "124");
}
TEST_CASE("type_list: position_in says where a type stands") {
  using list = type_list<char, int, unsigned>;
  CHECK(detail::position_in<list, char>::value == 0);
  CHECK(detail::position_in<list, int>::value == 1);
  CHECK(detail::position_in<list, unsigned>::value == 2);
}
TEST_CASE("type_name: is the unqualified name") {
  CHECK(type_name<some::W_q>() == "W_q");
  CHECK(type_name<hidden>() == "hidden");
  CHECK(type_name<int>() == "int");
}
TEST_CASE("type_name: of a class in a template and of a local class") {
  struct local {};
  CHECK(type_name<some::holder<some::W_q, 3>::inner>() == "inner");
  CHECK(type_name<local>() == "local");
}
TEST_CASE("type_name: template arguments that are types are no part of it, numbers are") {
  CHECK(type_name<some::of_a_type<some::W_q>>() == "of_a_type");
  CHECK(type_name<some::of_a_type<some::holder<some::W_q, 3>::inner>>() == "of_a_type");
  CHECK(type_name<some::holder<some::W_q, 3>>() == "holder");
  CHECK(type_name<some::of_a_number<3>>() == "of_a_number<3>");
}
TEST_CASE("type_name: a class may name itself") { CHECK(type_name<some::renamed>() == "router.weight"); }
TEST_CASE("message: puts texts and numbers together") {
  std::string const text = "b";
  CHECK(message("a", text, std::string_view("c"), 1, -2L) == "abc1-2");
  CHECK(message("n = ", std::size_t{18446744073709551615u}) == "n = 18446744073709551615");
}
TEST_CASE("error: starts with the library's name and is a runtime_error") {
  CHECK_THROWS_WITH_AS(fail("x has ", 3, " rows"), "headmix: x has 3 rows", Error);
  CHECK_THROWS_AS(fail("x"), std::runtime_error);
}
TEST_CASE("scalar: what is accumulated in what") {
  CHECK(std::is_same_v<accumulator_t<float>, float>);
  CHECK(std::is_same_v<accumulator_t<double>, double>);
  CHECK(std::is_same_v<accumulator_t<double const>, double>);
  CHECK(std::is_same_v<storage_t<kind::integer, double>, Int>);
  CHECK(std::is_same_v<storage_t<kind::accumulator, float>, float>);
  CHECK(std::is_same_v<storage_t<kind::real, double>, double>);
}
