// SPDX-License-Identifier: MIT
#include "../compute.hpp"
#include "../trainer.hpp"

template std::unique_ptr<llama::Trainer> llama::make_trainer<llama::Dense>(Config const&, Weights<Compute>&);
