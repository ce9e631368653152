// SPDX-License-Identifier: MIT
#include "../compute.hpp"
#include "../trainer.hpp"

template std::unique_ptr<llama::Trainer> llama::make_trainer<llama::TwoStage>(Config const&, Weights<Compute>&);
