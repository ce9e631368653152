// expect: rows_of_kv_heads is for scores that do not depend on the head
#include "headmix/layer/scores.hpp"

using namespace headmix;

struct picks : selection<tokens, size<2>, size<4>> {};
struct q : input<times<size<2>, tokens>, size<3>> {};
struct k : input<tokens, size<6>> {};
struct v : input<tokens, size<6>> {};

constexpr auto y = attention<causal, size<2>>(q{}, k{}, v{}, rows_of_kv_heads<size<2>>(picks{}), alibi{});
