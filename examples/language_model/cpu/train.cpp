// SPDX-License-Identifier: MIT
#include "../train.hpp"

#include "../training.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"

int lm::train_cpu(Options const& options, Text const& text) {
  return with_scalar(options, [&]<class T>(std::type_identity<T>) {
    using Backend = headmix::Cpu<T, headmix::thread_pool>;
    headmix::thread_pool threads(options.threads);
    MakeSublayer<Backend> variant = nullptr;
    if constexpr (std::is_same_v<T, float>) variant = &make_feed_forward_variant<Backend>;
    return train(options, text, Backend(threads),
                 {&make_dense<Backend>, &make_moa<Backend>, &make_moh<Backend>, &make_mae<Backend>}, variant);
  });
}
