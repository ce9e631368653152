#pragma once
// SPDX-License-Identifier: MIT
// Runs code that might hang or crash in a child process with a watchdog.

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <exception>
#include <fstream>
#include <string>

#include "headmix/core/error.hpp"

// With a sanitizer, address space does not measure memory.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEADMIX_TEST_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define HEADMIX_TEST_SANITIZER 1
#endif
#endif

namespace headmix::test {

/// The text that f() returns or throws, in a child of fork(); or the way in which the child ended, "it hangs" after
/// `seconds`.
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

#if defined(__linux__) && !defined(HEADMIX_TEST_SANITIZER)
/// Limits this process to this many more bytes.
inline void limit_memory(std::size_t more) {
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  REQUIRE(pages > 0);
  rlim_t const bytes = static_cast<rlim_t>(pages) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + more;
  rlimit const limit{bytes, RLIM_INFINITY};
  REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
}
#endif

}  // namespace headmix::test
