// SPDX-License-Identifier: MIT
// Failures of headmix-lm in several processes: a process is killed, interrupted, has other options, or cannot write the
// checkpoint. All processes end, one line has the reason, and the checkpoint can be resumed.

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "child.hpp"

using namespace headmix;
using namespace headmix::test;
namespace fs = std::filesystem;

namespace {

using Arguments = std::vector<std::string>;
using Clock = std::chrono::steady_clock;

/// The parts between bars; none for an empty text.
Arguments parts_of(std::string_view text) {
  Arguments parts;
  while (!text.empty()) {
    auto const end = text.find('|');
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return parts;
}
void append(Arguments& to, Arguments const& more) { to.insert(to.end(), more.begin(), more.end()); }

/// The command line of mpirun, with these numbers of processes of each program.
Arguments mpirun(std::vector<std::pair<int, Arguments>> const& programs) {
  Arguments all{HEADMIX_MPIEXEC};
  for (auto const& [n, program] : programs) {
    if (all.size() > 1) all.emplace_back(":");
    append(all, {HEADMIX_MPIEXEC_NUMPROC_FLAG, std::to_string(n)});
    append(all, parts_of(HEADMIX_MPIEXEC_PREFLAGS));
    append(all, program);
    append(all, parts_of(HEADMIX_MPIEXEC_POSTFLAGS));
  }
  return all;
}

std::string contents(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
/// True if the process runs; a zombie does not.
bool runs(pid_t process) {
  std::error_code error;
  return !fs::read_symlink(message("/proc/", process, "/exe"), error).empty();
}
/// The processes of headmix-lm below that one, by rank if their environment has it.
std::vector<pid_t> ranks_below(pid_t process) {
  std::vector<std::pair<std::string, pid_t>> ranks;
  std::vector<pid_t> family{process};
  for (std::size_t i = 0; i < family.size(); ++i) {
    for (auto const& entry : fs::directory_iterator("/proc")) {
      std::string const folder = entry.path(), number = entry.path().filename();
      if (number.find_first_not_of("0123456789") != std::string::npos) continue;
      // After the name, which is in parentheses: the state, and the parent.
      std::string const stat = contents(folder + "/stat");
      auto const parent = stat.rfind(')');
      if (parent == std::string::npos || std::stol(stat.substr(parent + 4)) != family[i]) continue;
      auto const id = static_cast<pid_t>(std::stol(number));
      family.push_back(id);
      std::error_code error;
      if (!fs::equivalent(folder + "/exe", HEADMIX_LM, error)) continue;
      std::string rank;
      for (std::string_view const variable : {"OMPI_COMM_WORLD_RANK=", "PMI_RANK="}) {
        std::string const environment = '\0' + contents(folder + "/environ");
        if (auto const at = environment.find('\0' + std::string(variable)); at != std::string::npos)
          rank = environment.substr(at + 1 + variable.size(), 1);
      }
      ranks.emplace_back(rank, id);
    }
  }
  std::sort(ranks.begin(), ranks.end());
  std::vector<pid_t> ids;
  for (auto const& rank : ranks) ids.push_back(rank.second);
  return ids;
}

/// The lines of headmix-lm without the progress and the sizes, and without those of mpirun.
Arguments said(std::string const& err) {
  Arguments lines;
  std::size_t begin = 0;
  while (begin < err.size()) {
    auto const end = std::min(err.find_first_of("\r\n", begin), err.size());
    std::string const line = err.substr(begin, end - begin);
    if (line.starts_with("headmix-lm: ") || line.starts_with("rank ")) lines.push_back(line);
    begin = end + 1;
  }
  return lines;
}
/// The program has failed, with one of these as the only line.
void check_refusal(Ended const& ended, Arguments const& expected) {
  CAPTURE(ended.err);
  CHECK(ended.status == 2);
  CHECK(ended.out.empty());
  auto const lines = said(ended.err);
  REQUIRE(lines.size() == 1);
  CHECK(std::find(expected.begin(), expected.end(), lines[0]) != expected.end());
}
/// The message of one of two ranks, whichever prints it.
Arguments of_some_rank(std::string const& reason) {
  return {"headmix-lm: rank 0: " + reason, "headmix-lm: rank 1: " + reason};
}

/// A training with a checkpoint after every third step, in two processes that share batches of two.
struct Divided : Training {
  [[nodiscard]] Arguments options(long steps, Arguments const& more = {}) const {
    Arguments all{"--batch", "2", "--checkpoint", saved, "--every", "3"};
    append(all, more);
    return arguments(steps, all);
  }
  [[nodiscard]] Arguments with_data(long steps, Arguments const& more = {}) const {
    Arguments all = options(steps, {"--parallel", "data"});
    append(all, more);
    return all;
  }
  /// Continues for two steps, in one process.
  void check_checkpoint(long steps) const {
    auto const resume = [&](std::string const& last) {
      Ended const ended = Child(options(steps, {"--resume", "--stop-after", last})).end();
      CAPTURE(ended.err);
      CHECK(ended.status == 0);
      std::string const json = json_line(ended);
      return std::stol(json.substr(json.find("\"steps\": ") + 9));
    };
    long const done = resume("1");
    CHECK(done > 0);
    CHECK(resume(std::to_string(done + 2)) == done + 2);
  }

  std::string saved = folder / "saved";
  std::string file = saved + "/checkpoint.safetensors";
};
constexpr long endless = 1'000'000'000;

/// Two training processes that have saved a checkpoint.
class Ranks {
 public:
  explicit Ranks(Divided const& t, Arguments const& more = {}) : mpirun_(mpirun({{2, t.with_data(endless, more)}})) {
    mpirun_.wait_for("step ");
    while (!fs::exists(t.file)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ids_ = ranks_below(mpirun_.id());
    REQUIRE(ids_.size() == 2);
  }
  void send(std::size_t rank, int signal) const { kill(ids_[rank], signal); }
  [[nodiscard]] Child& launcher() { return mpirun_; }
  /// All processes end within this time.
  Ended end(std::chrono::seconds limit = std::chrono::seconds(10)) {
    auto const begin = Clock::now();
    Ended const ended = mpirun_.end();
    while ((runs(ids_[0]) || runs(ids_[1])) && Clock::now() - begin < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    CHECK_FALSE(runs(ids_[0]));
    CHECK_FALSE(runs(ids_[1]));
    CHECK(Clock::now() - begin < limit);
    return ended;
  }

 private:
  Child mpirun_;
  std::vector<pid_t> ids_;
};

/// All processes have ended by this signal, with results and a checkpoint.
void check_signalled(Divided const& t, Ended const& ended, std::string const& signal) {
  CAPTURE(ended.err);
  auto const lines = said(ended.err);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].starts_with("headmix-lm: " + signal + " after "));
  CHECK(lines[0].ends_with("; --resume continues after these"));
  CHECK(has(json_line(ended), "\"ended_by\": \"signal\""));
  CHECK(files_in(t.report).size() == 2);
  t.check_checkpoint(endless);
}

}  // namespace

TEST_CASE("headmix-lm: of several processes one is killed, and the last checkpoint is whole") {
  for (std::size_t const rank : {std::size_t{0}, std::size_t{1}}) {
    Divided const t;
    Ranks ranks(t);
    ranks.send(rank, SIGKILL);
    Ended const ended = ranks.end();
    CAPTURE(ended.err);
    CHECK(ended.status != 0);
    CHECK(ended.out.empty());
    CHECK(said(ended.err).empty());  // only mpirun knows the signal, and names it
    CHECK((has(ended.err, "ignal 9") || has(ended.err, "KILLED") || has(ended.err, "Killed")));
    t.check_checkpoint(endless);
  }
}

TEST_CASE("headmix-lm: of several processes one is interrupted, and all end with results and a checkpoint") {
  for (std::size_t const rank : {std::size_t{0}, std::size_t{1}}) {
    Divided const t;
    Ranks ranks(t);
    ranks.send(rank, SIGINT);
    Ended const ended = ranks.end();
    CHECK(ended.status == 128 + SIGINT);
    check_signalled(t, ended, "SIGINT");
  }
}

TEST_CASE("headmix-lm: mpirun is interrupted, as by Ctrl-C, and all end with a checkpoint") {
  Divided const t;
  Ranks ranks(t);
  ranks.launcher().send(SIGINT);
  Ended const ended = ranks.end();
  CHECK(ended.status != 0);
  CHECK(said(ended.err).size() <= 1);  // mpirun does not wait long for the output of its processes
  t.check_checkpoint(endless);
}

TEST_CASE("headmix-lm: a process that hangs, as on a machine that does, ends all after --timeout") {
  for (std::size_t const rank : {std::size_t{0}, std::size_t{1}}) {
    Divided const t;
    Ranks ranks(t, {"--timeout", "2"});
    ranks.send(rank, SIGSTOP);
    Ended const ended = ranks.end(std::chrono::seconds(30));
    CAPTURE(ended.err);
    CHECK(ended.status == 4);
    CHECK(ended.out.empty());
    // After the progress, since rank 0 is stopped inside its line. The other rank waits in a sum of the step, or in the
    // barrier of a checkpoint.
    std::string const line =
        message("headmix-lm: rank ", 1 - rank, ": no answer within 2 s from rank ", rank, " in ");
    auto const at = ended.err.find("headmix-lm: ");
    REQUIRE(at != std::string::npos);
    CHECK(ended.err.substr(at).starts_with(line));
    CHECK(has(ended.err, message(" of ", endless, " steps\n")));
    CHECK(ended.err.find("headmix-lm: ", at + 1) == std::string::npos);
    t.check_checkpoint(endless);
  }
}

TEST_CASE("headmix-lm: all processes must begin with the same parameters and the same state") {
  Divided const t;
  auto const save_in = [&](std::string const& folder, std::string const& seed) {
    fs::create_directories(folder);
    auto const arguments =
        t.arguments(9, {"--batch", "2", "--checkpoint", folder, "--stop-after", "3", "--seed", seed});
    CHECK(Child(arguments).end().status == 0);
  };
  save_in(t.folder / "a/saved", "1");
  save_in(t.folder / "b/saved", "2");
  auto const begin = [&](std::vector<std::string> const& of_first, std::vector<std::string> const& of_second) {
    Arguments const in_folder{"/bin/sh", "-c", "cd \"$0\" && exec \"$@\""};
    Arguments first = in_folder, second = in_folder;
    append(first, {t.folder / "a"});
    append(second, {t.folder / "b"});
    append(first, t.arguments(9, {"--batch", "2", "--parallel", "data"}));
    append(second, t.arguments(9, {"--batch", "2", "--parallel", "data"}));
    append(first, of_first);
    append(second, of_second);
    auto const before = files_in(t.folder.path);
    Ended ended = Child(mpirun({{1, first}, {1, second}})).end();
    CHECK(files_in(t.folder.path) == before);
    return ended;
  };
  // Different files of the same name.
  Ended const other = begin({"--from", "saved"}, {"--from", "saved"});
  CAPTURE(other.err);
  CHECK(other.status == 2);
  CHECK(other.out.empty());
  auto const lines = said(other.err);
  REQUIRE(lines.size() == 1);
  CHECK(has(lines[0], ": the digest of "));
  CHECK(has(lines[0], " must be the same on all ranks; it is "));
  CHECK(lines[0].ends_with(" on rank 1"));
  // A checkpoint with which only some processes begin.
  std::string const same = ": --from: expected the same on all ranks, found ";
  check_refusal(begin({"--from", "saved"}, {}), {"headmix-lm: rank 0" + same + "saved on rank 0, but not on rank 1",
                                                 "headmix-lm: rank 1" + same + "none on rank 1, but not on rank 0"});
  // Two trainings of equal seed and number of steps, from different parameters.
  fs::rename(t.folder / "a/saved", t.folder / "a/start");
  fs::rename(t.folder / "b/saved", t.folder / "b/start");
  for (std::string const folder : {"a", "b"}) {
    auto const from = t.arguments(9, {"--batch", "2", "--checkpoint", t.folder / (folder + "/saved"), "--stop-after",
                                      "3", "--from", t.folder / (folder + "/start")});
    CHECK(Child(from).end().status == 0);
  }
  Ended const resumed = begin({"--checkpoint", "saved", "--resume"}, {"--checkpoint", "saved", "--resume"});
  CAPTURE(resumed.err);
  CHECK(resumed.status == 2);
  REQUIRE(said(resumed.err).size() == 1);
  CHECK(has(said(resumed.err)[0], ": the digest of "));
}

TEST_CASE("headmix-lm: all processes must have the same options") {
  Divided const t;
  CHECK(Child(t.options(endless, {"--stop-after", "3"})).end().status == 0);
  auto const before = files_in(t.folder.path);
  // The rank that detects it first prints it.
  auto const check = [&](std::string const& option, std::string const& first, std::string const& second) {
    auto const with = [&](std::string const& value) { return t.with_data(endless, {"--resume", option, value}); };
    auto const begin = Clock::now();
    Ended const ended = Child(mpirun({{1, with(first)}, {1, with(second)}})).end();
    CHECK(Clock::now() - begin < std::chrono::seconds(10));
    std::string const same = ": " + option + ": expected the same on all ranks, found ";
    check_refusal(ended, {"headmix-lm: rank 0" + same + first + " on rank 0, but not on rank 1",
                          "headmix-lm: rank 1" + same + second + " on rank 1, but not on rank 0"});
    CHECK(files_in(t.folder.path) == before);
  };
  check("--seed", "1", "2");
  check("--batch", "2", "4");
  check("--parallel", "heads", "data");
  check("--stop-after", "9", "0");
  t.check_checkpoint(endless);
}

TEST_CASE("headmix-lm: all processes must have the same text, and find the same checkpoint") {
  Divided const t;
  CHECK(Child(t.options(endless, {"--stop-after", "3"})).end().status == 0);
  fs::create_directories(t.folder / "a");
  fs::create_directories(t.folder / "b");
  fs::rename(t.saved, t.folder / "a/saved");
  fs::create_directory(t.folder / "b/saved");
  // Equal names in different folders, as on machines without a shared file system.
  auto const check = [&](Arguments const& arguments, Arguments const& expected) {
    Arguments in_folder{"/bin/sh", "-c", "cd \"$0\" && exec \"$@\""}, first = in_folder, second = in_folder;
    first.push_back(t.folder / "a");
    second.push_back(t.folder / "b");
    append(first, arguments);
    append(second, arguments);
    check_refusal(Child(mpirun({{1, first}, {1, second}})).end(), expected);
  };
  Arguments arguments = t.with_data(endless, {"--resume", "--checkpoint", "saved"});
  std::string const steps =
      ": the steps of the checkpoint must be the same on all ranks; it is 3 on rank 0 and 0 on rank 1";
  check(arguments, {"headmix-lm: rank 0" + steps, "headmix-lm: rank 1" + steps});
  std::string const text = contents(t.folder / "text"), same = ": --text: expected the same on all ranks, found ";
  write_file(t.folder / "a/text", text);
  write_file(t.folder / "b/text", "Another text. " + text);
  append(arguments, {"--text", "text"});
  check(arguments, {message("headmix-lm: rank 0", same, text.size(), " bytes on rank 0, but not on rank 1"),
                    message("headmix-lm: rank 1", same, text.size() + 14, " bytes on rank 1, but not on rank 0")});
  fs::rename(t.folder / "a/saved", t.saved);
  t.check_checkpoint(endless);
}

TEST_CASE("headmix-lm: a mistake in the options of all processes is one line") {
  Divided const t;
  check_refusal(Child(mpirun({{2, t.with_data(endless, {"--lr", "much"})}})).end(),
                of_some_rank("--lr: expected a number from 1e-12 to 100, found 'much'"));
  // Also if only one process has it.
  check_refusal(Child(mpirun({{1, t.with_data(endless)}, {1, t.with_data(endless, {"--lr", "much"})}})).end(),
                {"headmix-lm: rank 1: --lr: expected a number from 1e-12 to 100, found 'much'"});
  check_refusal(Child(mpirun({{2, t.options(endless, {"--parallel", "heads"})}})).end(),
                of_some_rank("--heads: expected enough for each of 2 processes to have one with --parallel heads, "
                             "found 1"));
  CHECK(files_in(t.folder.path).size() == 1);
}

TEST_CASE("headmix-lm: a checkpoint folder that cannot be written is refused by several processes, too") {
  Divided const t;
  write_file(t.saved, "in the way");
  check_refusal(
      Child(mpirun({{2, t.with_data(endless)}})).end(),
      {"headmix-lm: rank 0: --checkpoint: expected a folder, cannot create '" + t.saved + "': Not a directory"});
  CHECK(text_of(read_all(t.saved)) == "in the way");
}

TEST_CASE("headmix-lm: a checkpoint that cannot be written ends all processes, and the one before it stays") {
  Divided const t;
  Ranks ranks(t);
  fs::rename(t.saved, t.saved + " before");
  Ended const ended = ranks.end();
  CAPTURE(ended.err);
  CHECK(ended.status == 4);
  auto const lines = said(ended.err);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].starts_with("headmix-lm: rank 0: " + t.file + ": cannot "));
  fs::rename(t.saved + " before", t.saved);
  t.check_checkpoint(endless);
}

TEST_CASE("headmix-lm: a loss that is no number ends all processes with the results of the steps before it") {
  Divided const t;
  Ended const ended = Child(mpirun({{2, t.with_data(1000, {"--lr", "100", "--warmup", "0"})}})).end();
  CAPTURE(ended.err);
  CHECK(ended.status == 3);
  auto const lines = said(ended.err);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].starts_with("headmix-lm: the loss of step "));
  CHECK(has(json_line(ended), "\"ended_by\": \"loss_not_finite\""));
}
