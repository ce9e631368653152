// SPDX-License-Identifier: MIT
// headmix-trends: trains the configurations of a list with headmix-lm, several at a time, and keeps a record of each.
// What has a record is not trained again; what was interrupted goes on from its checkpoint.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../../examples/language_model/options.hpp"
#include "../../examples/program.hpp"
#include "list.hpp"
#include "page.hpp"
#include "records.hpp"

#ifndef HEADMIX_TRENDS_ARCH
#define HEADMIX_TRENDS_ARCH ""
#endif

namespace {

namespace fs = std::filesystem;
using trends::List, trends::Record, trends::Records, trends::Run, trends::Training;

struct Options {
  std::string list, program, text, work, records, page, commit;
  std::string families;  ///< those that are trained, with commas between; empty: all
  unsigned jobs = std::max(1u, std::thread::hardware_concurrency());
};

constexpr std::string_view usage =
    "usage: headmix-trends LIST --program HEADMIX_LM --text FOLDER --work FOLDER --records FILE [--page PAGE] [--jobs "
    "N]\n"
    "                      [--families NAME,NAME...] [--commit ID]\n"
    "\n"
    "Trains what LIST says (bench/trends/list.hpp has its form) and FILE has no record of, N trainings of one thread "
    "at a\n"
    "time. --text has the folders train and validation. --work keeps checkpoints and reports. It can be ended at any "
    "time\n"
    "(Ctrl-C, SIGTERM, even SIGKILL): the same command goes on. With --jobs 0 it says what is left to do, with "
    "--families\n"
    "it trains those alone, and what they begin with.\n"
    "Then it writes the tables of PAGE again (bench/trends/page.hpp has their marks).\n"
    "\n"
    "Exit status: 0 all is done; 2 bad arguments or a bad list; 4 some trainings failed; 128 + N signal N.\n";

Options parse(std::vector<std::string> const& arguments) {
  Options o;
  std::map<std::string, std::string*> const paths{
      {"--program", &o.program}, {"--text", &o.text},     {"--work", &o.work},        {"--records", &o.records},
      {"--page", &o.page},       {"--commit", &o.commit}, {"--families", &o.families}};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string const& a = arguments[i];
    if (!a.starts_with("--")) {
      if (!o.list.empty()) throw lm::UsageError("expected one list, found " + lm::in_quotes(a) + " too");
      o.list = a;
      continue;
    }
    if (!paths.contains(a) && a != "--jobs") throw lm::UsageError("unknown option " + lm::in_quotes(a));
    if (++i == arguments.size()) throw lm::UsageError(a + ": expected a value, found the end of the command line");
    if (a != "--jobs") {
      *paths.at(a) = arguments[i];
      continue;
    }
    std::string const& n = arguments[i];
    auto const [end, error] = std::from_chars(n.data(), n.data() + n.size(), o.jobs);
    if (error != std::errc{} || end != n.data() + n.size() || o.jobs > 1024)
      throw lm::UsageError("--jobs: expected a whole number from 0 to 1024, found " + lm::in_quotes(n));
  }
  if (o.list.empty()) throw lm::UsageError("expected a list of trainings, found none");
  for (auto const& [name, value] : paths)
    if (value->empty() && name != "--page" && name != "--commit" && name != "--families")
      throw lm::UsageError(name + ": expected a value, found none");
  return o;
}

std::string file_text(fs::path const& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Of the repository that the list lies in.
std::string commit_of(std::string const& list) {
  std::string const command =
      "git -C '" + fs::absolute(list).parent_path().string() + "' rev-parse --short HEAD 2>/dev/null";
  std::array<char, 64> line{};
  if (FILE* const git = popen(command.c_str(), "r")) {
    if (std::fgets(line.data(), line.size(), git) == nullptr) line[0] = 0;
    pclose(git);
  }
  std::string commit = line.data();
  if (commit.ends_with('\n')) commit.pop_back();
  return commit.empty() ? "unknown" : commit;
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
  return "unknown";
}

/// Of a string that stands for others, as 8 hexadecimal digits: FNV-1a.
std::string short_hash(std::string_view text) {
  std::uint32_t hash = 0x811C9DC5u;
  for (char const c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193u;
  std::array<char, 16> digits;
  std::snprintf(digits.data(), digits.size(), "%08x", hash);
  return digits.data();
}

// Signals reach the trainings too, which save checkpoints and end.
std::array<pid_t, 1024> children{};
volatile std::sig_atomic_t got_signal = 0;
void on_signal(int signal) {
  got_signal = signal;
  for (pid_t const child : children)
    if (child > 0) kill(child, SIGTERM);
}

class Trends {
 public:
  Trends(Options const& o, List const& list) : o_(o), list_(list), records_(o.records) {
    std::istringstream names(o.families);
    for (std::string name; std::getline(names, name, ',');) {
      auto const is_it = [&name](trends::Family const& f) { return f.name == name; };
      if (std::none_of(list.families.begin(), list.families.end(), is_it))
        throw lm::UsageError("--families: expected families of the list, found " + lm::in_quotes(name));
      wanted_.insert(name);
    }
  }

  /// The trainings that can be begun, in the order of the list and, before reported ones, those that choose rates;
  /// then one seed of all runs after another. `left` counts also those that wait for others.
  std::vector<Training> ready(std::size_t& left) const {
    std::vector<Training> can;
    left = 0;
    auto const can_begin = [&](Training const& t) {
      bool const known = std::any_of(can.begin(), can.end(), [&](auto const& c) { return words(c) == words(t); });
      if (!known && !failed_.contains(words(t))) can.push_back(t);
    };
    auto const add = [&](Training const& t) {
      if (records_.find(words(t)) != nullptr) return;
      ++left;
      if (t.run->base.empty()) return can_begin(t);
      Training const base = base_of(t);
      if (base.rate.empty()) return;  // it waits for a choice
      can_begin(has_checkpoint(base) ? t : base);
    };
    for (auto const& family : list_.families)
      for (auto const& rate : family.rates)
        if (chooses(family) && wants(family)) add({&list_.runs[family.first], list_.select, rate});
    for (auto const& seed : list_.seeds) {
      for (auto const& run : list_.runs) {
        if (!wants(list_.families[run.family])) continue;
        std::string const rate = rate_of(run);
        if (rate.empty()) {
          ++left;  // it waits for the choice of its rate
        } else {
          add({&run, seed, rate});
        }
      }
    }
    return can;
  }

  int train() {
    fs::create_directories(o_.work);
    wait_for_lock();
    struct sigaction action {};
    action.sa_handler = on_signal;
    for (int const s : {SIGINT, SIGTERM, SIGHUP}) sigaction(s, &action, nullptr);
    std::size_t left = 0;
    while (true) {
      std::vector<Training> const can = ready(left);
      for (auto const& t : can) {
        if (running_.size() >= o_.jobs || got_signal != 0) break;
        if (!is_running(t)) begin(t);
      }
      if (running_.empty()) break;
      int status = 0;
      pid_t const ended = waitpid(-1, &status, 0);
      if (ended > 0) end(ended, status);
    }
    if (got_signal != 0) return program::signalled + got_signal;
    std::printf("%zu trainings are left\n", left);
    return failed_.empty() ? program::done : program::failed;
  }

  int show() const {
    std::size_t left = 0;
    for (auto const& t : ready(left)) std::printf("%s\n", words(t).c_str());
    std::printf("%zu trainings are left\n", left);
    return program::done;
  }

  void write_page() const {
    trends::write_page(o_.page, list_, records_, [this](Run const& run) { return rate_of(run); });
  }

 private:
  /// Trainings have it too, so that those of a headmix-trends that was killed have ended.
  void wait_for_lock() const {
    std::string const path = fs::path(o_.work) / "lock";
    int const lock = open(path.c_str(), O_CREAT | O_RDWR, 0644);
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0) return;
    if (lock >= 0 && errno == EWOULDBLOCK) {
      program::complain("waits for another headmix-trends with --work " + o_.work);
      if (flock(lock, LOCK_EX) == 0) return;
    }
    throw lm::UsageError("--work: cannot lock " + lm::in_quotes(path) + ": " + std::strerror(errno));
  }

  static constexpr char const* end_mark = "ended";  ///< a file in the folder of a training that has
  struct Running {
    Training training;
    fs::path folder;
  };

  [[nodiscard]] bool wants(trends::Family const& family) const {
    return wanted_.empty() || wanted_.contains(family.name);
  }
  [[nodiscard]] std::string words(Training const& t) const { return trends::joined(t.words(list_)); }
  [[nodiscard]] fs::path folder(Training const& t) const {
    return fs::path(o_.work) / (t.run->name + "-" + t.seed + "-" + short_hash(words(t)));
  }
  /// That of its last step: one that is trained again, or was interrupted, has one too, but no such mark.
  [[nodiscard]] bool has_checkpoint(Training const& t) const {
    return records_.find(words(t)) != nullptr && fs::exists(folder(t) / "checkpoint" / "checkpoint.safetensors") &&
           fs::exists(folder(t) / end_mark);
  }
  [[nodiscard]] bool is_running(Training const& t) const {
    return std::any_of(running_.begin(), running_.end(),
                       [&](auto const& r) { return words(r.second.training) == words(t); });
  }
  [[nodiscard]] static bool own_rate(Run const& run) {
    return std::find(run.options.begin(), run.options.end(), "--lr") != run.options.end();
  }
  /// Whether a run of the family needs the choice.
  [[nodiscard]] bool chooses(trends::Family const& family) const {
    return std::any_of(list_.runs.begin(), list_.runs.end(),
                       [&](Run const& r) { return &list_.families[r.family] == &family && !own_rate(r); });
  }
  /// The rate of a run, empty where it is not chosen yet.
  [[nodiscard]] std::string rate_of(Run const& run) const {
    auto const& family = list_.families[run.family];
    if (own_rate(run)) return family.rates.front();
    std::string best;
    double least = 0;
    for (auto const& rate : family.rates) {
      Record const* const r = records_.find(words({&list_.runs[family.first], list_.select, rate}));
      if (r == nullptr) return {};
      double const loss = r->number("val_loss");
      if (loss == loss && (best.empty() || loss < least)) {
        best = rate;
        least = loss;
      }
    }
    return best;
  }
  /// Also trained where it is done but its checkpoint is gone.
  [[nodiscard]] Training base_of(Training const& t) const {
    Run const* const base = list_.run(t.run->base);
    return {base, t.seed, rate_of(*base)};
  }

  void begin(Training const& t) {
    fs::path const in = folder(t);
    fs::create_directories(in / "checkpoint");
    fs::remove(in / end_mark);
    std::vector<std::string> arguments{o_.program};
    for (auto word : t.words(list_)) {
      if (word.starts_with('@')) word = (folder(base_of(t)) / "checkpoint").string();
      arguments.push_back(word);
    }
    fs::path text(o_.text);
    auto const& options = t.run->options;
    if (auto const own = std::find(options.begin(), options.end(), "--text"); own != options.end()) text /= own[1];
    for (std::string const& word : std::initializer_list<std::string>{
             "--text", text / "train", "--validation-text", text / "validation", "--threads", "1", "--sample", "0",
             "--progress", "off", "--checkpoint", in / "checkpoint", "--resume", "--report", in / "report"})
      arguments.push_back(word);
    std::printf("begins: %s\n", words(t).c_str());
    std::fflush(stdout);
    std::vector<char*> argv;
    for (auto& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    std::string const out = in / "out", err = in / "err";
    pid_t const parent = getpid(), child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);  // whatever happens to this process
      if (getppid() != parent) _exit(127);
      dup2(open(out.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644), STDOUT_FILENO);
      dup2(open(err.c_str(), O_CREAT | O_APPEND | O_WRONLY, 0644), STDERR_FILENO);
      execv(argv[0], argv.data());
      std::perror(argv[0]);
      _exit(127);
    }
    if (child < 0) throw lm::UsageError(std::string("cannot start a process: ") + std::strerror(errno));
    *std::find(children.begin(), children.end(), 0) = child;
    if (got_signal != 0) kill(child, SIGTERM);  // it came before the child was known
    running_[child] = {t, in};
  }

  void end(pid_t child, int status) {
    std::replace(children.begin(), children.end(), child, pid_t{0});
    auto const found = running_.find(child);
    if (found == running_.end()) return;
    Training const t = found->second.training;
    fs::path const in = found->second.folder;
    running_.erase(found);
    // A loss that is not finite is a result.
    bool const done =
        WIFEXITED(status) && (WEXITSTATUS(status) == program::done || WEXITSTATUS(status) == program::not_finite);
    if (!done) {
      if (got_signal != 0) return;
      failed_.insert(words(t));
      std::string const why = WIFEXITED(status) ? "exit status " + std::to_string(WEXITSTATUS(status))
                                                : "signal " + std::to_string(WTERMSIG(status));
      program::complain(t.run->name + ", seed " + t.seed + ": " + why + "; see " + (in / "err").string());
      return;
    }
    std::ofstream(in / end_mark).close();
    std::string results = file_text(in / "out");
    if (results.ends_with('\n')) results.pop_back();
    results.erase(0, results.rfind('\n') + 1);
    // A record says nothing of where this machine has its files.
    std::string const texts = (fs::path(o_.text) / "").string();
    for (std::size_t at = 0; (at = results.find(texts, at)) != std::string::npos;) results.erase(at, texts.size());
    Record record = trends::make_record({{"name", trends::json_quoted(t.run->name)},
                                         {"family", trends::json_quoted(list_.families[t.run->family].name)},
                                         {"options", trends::json_quoted(words(t))},
                                         {"commit", trends::json_quoted(o_.commit)},
                                         {"arch", trends::json_quoted(HEADMIX_TRENDS_ARCH)},
                                         {"machine", trends::json_quoted(cpu_model())},
                                         {"side_by_side", std::to_string(o_.jobs)}},
                                        results, file_text(in / "report" / "report.json"), 40);
    std::string const loss = trends::json_value(results, "val_loss");
    if (Record const* const before = records_.find(words(t))) {
      // Only for its checkpoint; and a proof.
      if (trends::json_value(before->json, "val_loss") != loss)
        program::complain(t.run->name + ", seed " + t.seed + ": expected the loss of its record, " +
                          trends::json_value(before->json, "val_loss") + ", found " + loss);
    } else {
      records_.add(std::move(record));
    }
    std::printf("%s %s: %s, seed %s, lr %s\n", t.run->name.c_str(), t.seed.c_str(), loss.c_str(), t.seed.c_str(),
                trends::json_value(results, "lr").c_str());
    std::fflush(stdout);
    bool const kept =
        std::any_of(list_.runs.begin(), list_.runs.end(), [&](Run const& r) { return r.base == t.run->name; });
    std::error_code error;
    if (!kept) fs::remove_all(in / "checkpoint", error);
  }

  Options const& o_;
  List const& list_;
  Records records_;
  std::map<pid_t, Running> running_;
  std::set<std::string> failed_, wanted_;
};

}  // namespace

int main(int argc, char** argv) {
  return program::run("headmix-trends", [&] {
    std::vector<std::string> const arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    if (std::find(arguments.begin(), arguments.end(), "--help") != arguments.end()) {
      std::fputs(std::string(usage).c_str(), stdout);
      return static_cast<int>(program::done);
    }
    Options options = parse(arguments);
    List const list = trends::read_list(options.list);
    if (options.commit.empty()) options.commit = commit_of(options.list);
    Trends trends(options, list);
    int const status = options.jobs == 0 ? trends.show() : trends.train();
    if (!options.page.empty()) trends.write_page();
    return status;
  });
}
