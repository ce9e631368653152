// SPDX-License-Identifier: MIT
// Training in several processes.

#include "../train.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../training.hpp"
#include "headmix/core/digest.hpp"
#include "on_ranks.hpp"
#include "sublayers.hpp"

namespace lm {
namespace {

headmix::Mpi* here = nullptr;  // while in_processes() runs

template <class Bytes>
Index hash_of(Bytes const& bytes) {
  return static_cast<Index>(headmix::detail::digest_of(std::as_bytes(std::span(bytes))));
}
/// Fails unless all processes have the same value; `hash` is its hash.
void check_same(headmix::Mpi& ranks, std::string_view option, Index hash, std::string_view value) {
  std::vector<Index> const one(static_cast<std::size_t>(ranks.size()), 1);
  std::vector<Index> all(one.size());
  ranks.all_gather(all.data(), static_cast<Index const*>(&hash), one);
  auto const other = std::find_if(all.begin(), all.end(), [hash](Index h) { return h != hash; });
  if (other == all.end()) return;
  throw UsageError(headmix::message(option, ": expected the same on all ranks, found ", value, " on rank ",
                                    ranks.rank(), ", but not on rank ", other - all.begin()));
}
/// Compares the options that determine the training and the communication.
void check_same_options(headmix::Mpi& ranks, Options const& o) {
  auto const check = [&ranks](std::string_view option, std::string_view value) {
    check_same(ranks, option, hash_of(value), value.empty() ? "none" : value);
  };
  check("--parallel", name(o.parallel));
  check("--attention", name(o.attention));  // these two determine which others exist
  check("--ffn", name(o.ffn));
  for (auto const& [option, value] : settings(o)) check(option, value);
  check("--report", o.report);
  check("--checkpoint", o.checkpoint);
  check("--from", o.from);
  check("--every", std::to_string(o.every));
  check("--stop-after", std::to_string(o.stop_after));
  check("--resume", o.resume ? "on" : "off");
  check("--sample", std::to_string(o.sample));
}
/// With divided heads, every process must have one.
void check_heads(Index ranks, Options const& o) {
  Index const shared = o.attention == Attention::moh ? o.shared_heads : 0;
  for (Index r = 0; r < ranks; ++r) {
    if (headmix::share_of(shared, r, ranks) + headmix::share_of(o.heads - shared, r, ranks) > 0) continue;
    throw UsageError(headmix::message("--heads: expected enough for each of ", ranks,
                                      " processes to have one with --parallel heads, found ", o.heads));
  }
}
/// True if a signal was received and no step has ended for a while: other processes are gone.
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
      ranks.fail_all(reason);
      if (ranks.names_failure()) program::complain(headmix::message("rank ", ranks.rank(), ": ", reason));
      return static_cast<int>(dynamic_cast<FailedTraining const*>(&e) != nullptr ? program::failed : program::refused);
    }
  });
}

int train_parallel(Options const& o) {
  headmix::Mpi& ranks = *here;
  ranks.set_timeout(static_cast<double>(o.timeout));
  check_same_options(ranks, o);
  if (o.parallel == Parallel::heads) check_heads(ranks.size(), o);
  if (ranks.rank() == 0) {
    for (auto const& note : o.notes) program::complain("note: " + note);
  }
  Text const text = load_text(o);
  check_same(ranks, "--text", hash_of(text.bytes), headmix::message(text.size(), " bytes"));
  check_same(ranks, "--validation-text", text.size() - text.train,
             headmix::message(text.size() - text.train, " bytes"));
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
  if (!divides_tokens(o)) return train_on<false>(o, text, backend, &moa_by_experts, &network_by_heads);
  return train_on<true>(o, text, backend, attention(&dense_by_data, &moa_by_data, &moh_by_data),
                        o.parallel == Parallel::experts ? &network_by_experts : &network_by_data);
}

}  // namespace lm
