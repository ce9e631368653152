// expect: headmix: a dynamic size has no value; give it: at<...>.n.
// SPDX-License-Identifier: MIT
#include "headmix/count/count.hpp"
#include "headmix/layer/multi_head.hpp"

using namespace headmix;
using layer = MultiHead<dynamic, 2, 4>;
#ifdef MUST_FAIL
Index n = count_parameters<layer>();
#else
Index n = count_parameters<layer>(at<layer::model_dim>(8));
#endif
