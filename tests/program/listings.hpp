#pragma once
// SPDX-License-Identifier: MIT
// Committed listings, listings/<name>.txt: the kernel calls of each layer, so that a change of calls changes a text
// file.

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "headmix/program/listing.hpp"
#include "headmix/program/module.hpp"

namespace headmix::test {

inline std::string text_of_file(std::string const& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}
/// The first line that differs.
inline std::string first_difference(std::string const& a, std::string const& b) {
  std::istringstream in_a(a), in_b(b);
  for (int n = 1;; ++n) {
    std::string line_a, line_b;
    bool const more_a = static_cast<bool>(std::getline(in_a, line_a)),
               more_b = static_cast<bool>(std::getline(in_b, line_b));
    if (!more_a && !more_b) return "none";
    if (line_a != line_b || more_a != more_b) {
      return message("line ", n, "\n  expected: ", line_b, "\n  found:    ", line_a);
    }
  }
}

/// Compares a listing with listings/<name>.txt, or writes this file.
inline void check_listing(Listing const& listing, std::string const& name) {
  std::string const path = std::string(HEADMIX_TEST_CASES) + "/../program/listings/" + name + ".txt";
  std::string const found = listing.text();
  if (std::getenv("HEADMIX_RENEW_LISTINGS") != nullptr) std::ofstream(path) << found;
  std::string const expected = text_of_file(path);
  INFO("tests/program/listings/" << name << ".txt, " << first_difference(found, expected));
  INFO("the test program with HEADMIX_RENEW_LISTINGS=1 -tc='*listing*' writes what is found; look at git diff");
  CHECK((found == expected));
}

/// The listing of a layer over 6 tokens. No pass is run, so it has no addresses and no scratch memory, which differ
/// between machines.
template <class L, class Backend, class Mode = training, Extent... X>
Listing listing_of(size_value<X>... sizes) {
  Module<L, Backend, Mode> m(uninitialized{}, Backend(), sizes...);
  m.program().set(tokens{}, 6);
  return listing(m);
}

}  // namespace headmix::test
