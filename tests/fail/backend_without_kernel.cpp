// expect: BackendPolicy.*b\.softmax\(y, a\)
// SPDX-License-Identifier: MIT
#include "headmix/backend/reference.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/program/program.hpp"

using namespace headmix;
struct without_softmax : Reference<double> {
#ifdef MUST_FAIL
  void softmax() = delete;
#endif
};
struct x : input<tokens, size<4>> {};
Program<roots<x>, without_softmax>* use();
