#pragma once
// SPDX-License-Identifier: MIT
// The end of the programs: an exit status for the result, and a line on stderr for every error. Failed writes, to
// stdout or to a file, are errors, not the end of the process.

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

/// Exit status of a program; see the table of README.md.
enum Status { done = 0, not_written = 1, refused = 2, not_finite = 3, failed = 4, signalled = 128 };

/// The beginning of every line on stderr.
inline char const* name = "";

/// Prints a line on stderr.
inline void complain(std::string const& text) { std::fprintf(stderr, "%s: %s\n", name, text.c_str()); }

/// The text of an exception without the name of the library, for a line that begins with the program's name.
inline std::string reason(std::exception const& e) {
  if (dynamic_cast<std::bad_alloc const*>(&e) != nullptr) return "not enough memory";
  std::string text = e.what();
  if (text.starts_with("headmix: ")) text.erase(0, 9);
  return text;
}

/// True if all output so far has reached stdout; complains once otherwise.
inline bool flush_stdout() {
  static bool good = true;
  if (!good) return false;
  errno = 0;
  good = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  // The reason is unknown if an earlier write failed.
  std::string const why = errno == 0 ? "some of it was lost" : std::generic_category().message(errno);
  if (!good) complain("cannot write to stdout: " + why);
  return good;
}

/// Runs the program: the exit status is the result of `body`, `refused` after an exception, which is printed to stderr,
/// or `unwritten` if stdout could not be written.
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
  // If a standard stream is closed, the next opened file would take its number and receive the program's output.
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
