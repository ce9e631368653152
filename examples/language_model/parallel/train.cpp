// SPDX-License-Identifier: MIT
// The job in several processes.

#include "../train.hpp"

#include <chrono>

#include "../training.hpp"
#include "on_ranks.hpp"
#include "sublayers.hpp"

namespace lm {
namespace {

headmix::Mpi* here = nullptr;  // while in_processes() runs

/// FNV-1a of the options that decide what is trained, and of what is divided.
std::uint64_t hash_of(Options const& o) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  auto const add = [&hash](std::string_view text) {
    for (char const c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  };
  for (auto const& [option, value] : settings(o)) add(option), add(value);
  add(name(o.parallel));
  return hash >> 1;
}
/// A signal came a while ago, and no step has ended since: the others are gone.
bool waits_in_vain() {
  using clock = std::chrono::steady_clock;
  static clock::time_point since;
  if (noted_signal() == 0) return false;
  if (since == clock::time_point{}) since = clock::now();
  return clock::now() - since > std::chrono::seconds(5);
}

template <bool DividesTokens>
int train_on(Options const& o, Text const& text, Ranked const& backend, MakeSublayer<Ranked> attention,
             MakeSublayer<Ranked> network) {
  OnRanks<DividesTokens> ranks(backend);
  return train(o, text, backend, attention, network, ranks);
}

}  // namespace

int in_processes(std::function<int()> const& body) {
  return headmix::run_mpi(nullptr, nullptr, [&](headmix::Mpi& ranks) {
    here = &ranks;
    ranks.set_interrupt(waits_in_vain);
    try {
      return body();
    } catch (std::exception const& e) {
      std::string const reason = program::reason(e);
      bool const alone = !ranks.failed();
      ranks.fail_all(reason);
      if (alone && ranks.names_failure()) program::complain(headmix::message("rank ", ranks.rank(), ": ", reason));
      return static_cast<int>(program::refused);
    }
  });
}

int train_parallel(Options const& o) {
  headmix::Mpi& ranks = *here;
  headmix::detail::check_equal_on_all_ranks(ranks, "the seed (--seed)", o.seed);
  headmix::detail::check_equal_on_all_ranks(ranks, "the hash of the options", hash_of(o));
  if (ranks.rank() == 0) {
    for (auto const& note : o.notes) program::complain("note: " + note);
  }
  Text const text = load_text(o);
  if (ranks.rank() == 0) {
    create_report_folder(o);
    create_checkpoint_folder(o);
  }
  ranks.barrier();
  note_signals();
  headmix::thread_pool threads(o.threads);
  Ranked const backend(ranks, headmix::Cpu<float, headmix::thread_pool>(threads));
  auto const attention = [&](MakeSublayer<Ranked> dense, MakeSublayer<Ranked> moa, MakeSublayer<Ranked> moh) {
    return o.attention == Attention::dense ? dense : o.attention == Attention::moa ? moa : moh;
  };
  if (o.parallel == Parallel::heads) {
    return train_on<false>(o, text, backend, attention(&dense_by_heads, nullptr, &moh_by_heads), &network_by_heads);
  }
  if (!divides_tokens(o)) return train_on<false>(o, text, backend, &moa_by_experts, &network_by_data);
  return train_on<true>(o, text, backend, attention(&dense_by_data, &moa_by_data, &moh_by_data),
                        o.parallel == Parallel::experts ? &network_by_experts : &network_by_data);
}

}  // namespace lm
