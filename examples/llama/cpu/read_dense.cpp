// SPDX-License-Identifier: MIT
#include "../compute.hpp"
#include "../reader.hpp"

template std::unique_ptr<llama::Reader> llama::make_reader<llama::Dense>(Config const&, Weights<Compute>&, Index);
