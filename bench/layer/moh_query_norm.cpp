// SPDX-License-Identifier: MIT
// Mixture-of-head attention with the query-norm router, inference and training: see moh.hpp.
#include "moh.hpp"

namespace {

using namespace bench;

int const registered = [] {
  add_moh<QueryNorm<estimator::all>, headmix::inference>("forward", "query_norm", {{2048, 1024, 16, 50}});
  add_moh<QueryNorm<estimator::active>>("backward", "query_norm_active", {{2048, 1024, 16, 50}});
  add_moh<QueryNorm<estimator::all>>("backward", "query_norm_all", {{2048, 1024, 16, 50}});
  return 0;
}();

}  // namespace
