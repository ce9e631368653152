// SPDX-License-Identifier: MIT
// Rows of a table by number (an embedding), and the same rows summed back into it.
#include "../expression.hpp"
#include "headmix/expr/select.hpp"

namespace {

using namespace bench;

int const registered = [] {
  add("gather_rows", headmix::gather_rows(table{}, id{}));
  return 0;
}();

}  // namespace
