// SPDX-License-Identifier: MIT
#include "kinds.hpp"

std::unique_ptr<translation::Translator> translation::make_moa(Sizes const& sizes, std::uint64_t seed) {
  return std::make_unique<TranslatorOf<Moa>>(sizes, seed);
}
