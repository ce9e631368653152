#pragma once
// SPDX-License-Identifier: MIT
// What might hang or crash, in a process of its own with a watchdog.

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <exception>
#include <string>

#include "headmix/core/error.hpp"

namespace headmix::test {

/// The text that f() returns, or that of what it throws, in a child of fork(); or else how the child ended. After
/// `seconds` that is "it hangs".
template <class F>
std::string in_child(F const& f, unsigned seconds = 30) {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  pid_t const child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    for (int const s : {SIGALRM, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTERM}) std::signal(s, SIG_DFL);
    alarm(seconds);
    std::string text;
    try {
      text = f();
    } catch (std::exception const& e) {
      text = e.what();
    } catch (...) {
      text = "an exception of another type";
    }
    _exit(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 4096> bytes;
  for (ssize_t n; (n = read(ends[0], bytes.data(), bytes.size())) > 0;) {
    text.append(bytes.data(), static_cast<std::size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    return WTERMSIG(status) == SIGALRM ? "it hangs" : message("it is ended by signal ", WTERMSIG(status));
  }
  return WEXITSTATUS(status) == 0 ? text : message("it ends with status ", WEXITSTATUS(status));
}

}  // namespace headmix::test
