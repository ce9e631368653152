#pragma once
// SPDX-License-Identifier: MIT
// Child processes for the tests, and the training of headmix-lm that tests run.

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/files.hpp"

namespace headmix::test {

/// The exit status and the output of a program.
struct Ended {
  int status;  ///< signal - 1000 if a signal ended it
  std::string out, err;
};

/// A running program, with pipes as its stdout and stderr.
class Child {
 public:
  /// Runs `prepare` in the new process before the program.
  explicit Child(
      std::vector<std::string> arguments, std::function<void()> const& prepare = [] {}) {
    std::array<int, 2> out{}, err{};
    REQUIRE(pipe(out.data()) == 0);
    REQUIRE(pipe(err.data()) == 0);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      dup2(out[1], STDOUT_FILENO);
      dup2(err[1], STDERR_FILENO);
      for (int const end : {out[0], out[1], err[0], err[1]}) close(end);
      for (int const s : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ}) std::signal(s, SIG_DFL);
      alarm(60);  // this process ends even if the test does not
      prepare();
      std::vector<char*> argv;
      for (auto& a : arguments) argv.push_back(a.data());
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(out[1]);
    close(err[1]);
    pipes_ = {pollfd{out[0], POLLIN, 0}, pollfd{err[0], POLLIN, 0}};
  }
  Child(Child const&) = delete;
  Child& operator=(Child const&) = delete;
  ~Child() {
    if (pid_ > 0) end(SIGKILL);
  }

  [[nodiscard]] pid_t id() const { return pid_; }
  /// Waits until stderr contains this text.
  void wait_for(std::string_view text) {
    while (said_[1].find(text) == std::string::npos) REQUIRE(read(1));
  }
  void send(int signal) const { kill(pid_, signal); }
  /// Closes the reading end: further output of the program has no reader.
  void close_stdout() { close(std::exchange(pipes_[0].fd, -1)); }
  /// Sends the signal, unless it is 0, and waits for the end.
  Ended end(int signal = 0) {
    if (signal != 0) send(signal);
    while (pipes_[0].fd >= 0 || pipes_[1].fd >= 0) {
      if (poll(pipes_.data(), pipes_.size(), -1) < 0 && errno != EINTR) break;
      for (std::size_t i = 0; i < pipes_.size(); ++i) {
        if (pipes_[i].fd >= 0 && pipes_[i].revents != 0 && !read(i)) close(std::exchange(pipes_[i].fd, -1));
      }
    }
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status) - 1000, said_[0], said_[1]};
  }

 private:
  bool read(std::size_t i) {
    std::array<char, 4096> bytes;
    auto const n = ::read(pipes_[i].fd, bytes.data(), bytes.size());
    if (n > 0) said_[i].append(bytes.data(), static_cast<std::size_t>(n));
    return n > 0;
  }

  pid_t pid_ = -1;
  std::array<pollfd, 2> pipes_{};
  std::array<std::string, 2> said_;
};

/// All files below a folder, with their contents.
inline std::map<std::string, std::string> files_in(std::string const& folder) {
  std::map<std::string, std::string> files;
  for (auto const& item : std::filesystem::recursive_directory_iterator(folder)) {
    std::string const path = item.path();
    if (item.is_regular_file()) files[path.substr(folder.size() + 1)] = text_of(read_all(path));
  }
  return files;
}

inline bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

#ifdef HEADMIX_LM
/// A folder with a text and a report of headmix-lm, and a model too small to be of use.
struct Training {
  [[nodiscard]] std::vector<std::string> arguments(long steps, std::vector<std::string> const& more = {}) const {
    std::vector<std::string> all{HEADMIX_LM,
                                 "--text",
                                 folder / "text",
                                 "--report",
                                 report,
                                 "--attention",
                                 "dense",
                                 "--heads",
                                 "1",
                                 "--width",
                                 "8",
                                 "--context",
                                 "4",
                                 "--batch",
                                 "1",
                                 "--layers",
                                 "1",
                                 "--sample",
                                 "4",
                                 "--threads",
                                 "1",
                                 "--progress",
                                 "on",
                                 "--steps",
                                 std::to_string(steps)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  /// Arguments of a training that takes weeks.
  [[nodiscard]] std::vector<std::string> endless() const { return arguments(1'000'000'000); }

  Training() {
    std::string text;
    for (int i = 0; i < 10; ++i) text += "A short text, since this takes its time. ";
    write_file(folder / "text", text);
  }
  Folder folder;
  std::string report = folder / "report";
};
#endif

/// The last line of stdout, which must contain the results.
inline std::string json_line(Ended const& ended) {
  CAPTURE(ended.out);
  CAPTURE(ended.err);
  REQUIRE(ended.out.ends_with("}\n"));
  auto const line = ended.out.rfind('\n', ended.out.size() - 2) + 1;  // 0 if it is the only one
  std::string json = ended.out.substr(line);
  CHECK(json.starts_with("{\"val_loss\": "));
  return json;
}

}  // namespace headmix::test
