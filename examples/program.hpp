#pragma once
// SPDX-License-Identifier: MIT
// How the programs end: with an exit status that says what happened, and a line on stderr for everything that went
// wrong. What cannot be written, to stdout or to a file, is an error like others, not the end of the process.

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <system_error>

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#endif

namespace program {

/// What a program returns. The table of README.md says more.
enum Status { done = 0, not_written = 1, refused = 2, not_finite = 3, failed = 4, signalled = 128 };

/// Before every line on stderr.
inline char const* name = "";

/// Prints a line on stderr.
inline void complain(std::string const& text) { std::fprintf(stderr, "%s: %s\n", name, text.c_str()); }

/// The text of an exception, without the name of the library, for a line that begins with that of the program.
inline std::string reason(std::exception const& e) {
  if (dynamic_cast<std::bad_alloc const*>(&e) != nullptr) return "not enough memory";
  std::string text = e.what();
  if (text.starts_with("headmix: ")) text.erase(0, 9);
  return text;
}

/// Whether all that was printed so far has reached stdout; complains once if it has not.
inline bool flush_stdout() {
  static bool good = true;
  if (!good) return false;
  errno = 0;
  good = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  // The reason is gone if an earlier part was lost.
  std::string const why = errno == 0 ? "some of it was lost" : std::generic_category().message(errno);
  if (!good) complain("cannot write to stdout: " + why);
  return good;
}

/// Runs the program: what `body` returns is the exit status, `refused` after an exception, which is said on stderr, and
/// `unwritten` if something did not reach stdout.
template <class Body>
int run(char const* program_name, Body body, int unwritten = not_written) {
  name = program_name;
#ifdef SIGPIPE
  std::signal(SIGPIPE, SIG_IGN);
#endif
#ifdef SIGXFSZ
  std::signal(SIGXFSZ, SIG_IGN);
#endif
#if defined(__unix__) || defined(__APPLE__)
  // Where a standard stream is closed, the next file would take its place, and what we print would end up in it.
  for (int stream = 0; stream < 3; ++stream) {
    if (fcntl(stream, F_GETFD) < 0 && open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY) < 0) continue;
  }
#endif
  int status = refused;
  try {
    status = body();
  } catch (std::exception const& e) {
    complain(reason(e));
  } catch (...) {
    complain("an exception of an unknown type");
  }
  return flush_stdout() ? status : unwritten;
}

}  // namespace program
