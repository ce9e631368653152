// SPDX-License-Identifier: MIT
// Output files: complete or absent, flushed to disk before they are renamed, with the mode and the links of the
// replaced file.

#include "headmix/io/file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <thread>

#include "files.hpp"

using namespace headmix;
using namespace headmix::test;

namespace {
std::string content(std::string const& path) { return text_of(read_all(path)); }

mode_t mode_of(std::string const& path) {
  struct stat status {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

/// Writing fails with this reason and leaves no file.
void fails(std::string const& path, std::string const& reason) {
  CHECK_THROWS_WITH_AS(write_file(path, "new"), message("headmix: ", path, ": cannot ", reason).c_str(), Error);
}

/// Called instead of fsync while it is set.
std::function<int(int)> on_fsync;
}  // namespace

#ifdef __linux__
#include <sys/syscall.h>

extern "C" int fsync(int file) { return on_fsync ? on_fsync(file) : static_cast<int>(syscall(SYS_fsync, file)); }

TEST_CASE("files: the content is on the disk before it has the name, and the name before the end") {
  Folder const folder;
  std::string const path = folder / "a";
  write_file(path, "old");
  std::vector<std::string> seen;
  on_fsync = [&](int file) {
    struct stat status {};
    fstat(file, &status);
    seen.push_back(S_ISDIR(status.st_mode) ? "folder" : message(status.st_size, " bytes"));
    seen.push_back(content(path));
    return 0;
  };
  write_file(path, "newer");
  on_fsync = nullptr;
  CHECK(seen == std::vector<std::string>{"5 bytes", "old", "folder", "newer"});
}

TEST_CASE("files: a disk that fails only when asked for certain leaves the old file, and no other") {
  Folder const folder;
  std::string const path = folder / "a";
  write_file(path, "old");
  on_fsync = [](int) {
    errno = EIO;
    return -1;
  };
  fails(path, "write: Input/output error");
  CHECK(content(path) == "old");
  CHECK(folder.files() == 1);
  // Errors of the folder are ignored: some folders cannot be synchronised, and the file is already in place.
  int error = EINVAL;
  on_fsync = [&](int file) {
    struct stat status {};
    fstat(file, &status);
    errno = error;
    return S_ISDIR(status.st_mode) ? -1 : 0;
  };
  write_file(path, "newer");
  error = EIO;
  fails(path, "write: Input/output error");
  on_fsync = nullptr;
  CHECK(content(path) == "new");
  CHECK(folder.files() == 1);
}
#endif

TEST_CASE("files: the mode of the old file is kept, a new one has that of every new file") {
  Folder const folder;
  std::string const path = folder / "a";
  mode_t const mask = umask(027);
  write_file(path, "old");
  CHECK(mode_of(path) == 0640);
  for (mode_t const mode : {0600u, 0755u, 0666u}) {
    chmod(path.c_str(), mode);
    write_file(path, "new");
    CHECK(mode_of(path) == mode);
  }
  umask(mask);
}

TEST_CASE("files: a file that we may not write to is not replaced") {
  Folder const folder;
  std::string const path = folder / "a";
  write_file(path, "old");
  chmod(path.c_str(), 0444);
  if (geteuid() == 0) {
    MESSAGE("skipped: root may write to every file");
    return;
  }
  fails(path, "create: Permission denied");
  CHECK(content(path) == "old");
  CHECK(folder.files() == 1);
}

TEST_CASE("files: a link stays, and what it leads to is replaced") {
  Folder const folder;
  namespace fs = std::filesystem;
  fs::create_directory(folder.path / "deep");
  write_file(folder / "target", "old");
  chmod((folder / "target").c_str(), 0600);
  fs::create_symlink("../target", folder.path / "deep/relative");
  fs::create_symlink(folder.path / "deep/relative", folder.path / "absolute");
  fs::create_symlink("absolute", folder.path / "link");
  write_file(folder / "link", "new");
  for (auto const* link : {"link", "absolute", "deep/relative"}) CHECK(fs::is_symlink(folder.path / link));
  CHECK(content(folder / "target") == "new");
  CHECK(mode_of(folder / "target") == 0600);
  CHECK(folder.files() == 4);

  fs::create_symlink("deep/none", folder.path / "to nothing");
  write_file(folder / "to nothing", "new");
  CHECK(fs::is_symlink(folder.path / "to nothing"));
  CHECK(content(folder / "deep/none") == "new");

  fs::create_symlink("no folder/none", folder.path / "to no folder");
  fails(folder / "to no folder", "create: No such file or directory");
  fs::create_symlink("loop", folder.path / "loop");
  fails(folder / "loop", "create: Too many levels of symbolic links");
  CHECK(fs::is_symlink(folder.path / "loop"));
}

TEST_CASE("files: one that is open is written by who has opened it") {
  Folder const folder;
  std::string const path = folder / "a";
  write_file(path, "old ");
  int const file = open(path.c_str(), O_RDWR);
  struct stat before {
  }, after{};
  fstat(file, &before);
  write_file(message("/dev/fd/", file), "new");
  stat(path.c_str(), &after);
  close(file);
  CHECK(content(path) == "old new");
  CHECK(before.st_ino == after.st_ino);
  CHECK(folder.files() == 1);
  write_file("/dev/null", "new");
  CHECK(std::filesystem::is_character_file("/dev/null"));
}

TEST_CASE("files: names as long as they can be") {
  Folder const folder;
  write_file(folder / std::string(255, 'x'), "new");
  CHECK(content(folder / std::string(255, 'x')) == "new");
  fails(folder / std::string(256, 'x'), "create: File name too long");
  CHECK(folder.files() == 1);
}

TEST_CASE("files: without commit there is none") {
  Folder const folder;
  write_file(folder / "a", "old");
  for (auto const* name : {"a", "b"}) OutputFile(folder / name).write(std::as_bytes(std::span("new")));
  CHECK(content(folder / "a") == "old");
  CHECK(folder.files() == 1);
}

TEST_CASE("files: what others left under our names is neither taken nor in the way") {
  Folder const folder;
  std::string mine;
  {
    OutputFile const file(folder / "a");
    mine = std::filesystem::directory_iterator(folder.path)->path().filename();
  }
  auto const dash = mine.rfind('-') + 1;
  int const count = std::stoi(mine.substr(dash));
  for (int i = 1; i <= 200; ++i) {
    int const stale = open((folder / message(mine.substr(0, dash), count + i, ".tmp")).c_str(), O_CREAT | O_WRONLY, 0);
    REQUIRE(stale >= 0);
    close(stale);
  }
  write_file(folder / "a", "new");
  CHECK(content(folder / "a") == "new");
  CHECK(folder.files() == 201);
}

TEST_CASE("files: a process that is killed while it writes leaves the old file, and the next one can write") {
  Folder const folder;
  std::string const path = folder / "a";
  write_file(path, "old");
  pid_t const child = fork();
  if (child == 0) {
    OutputFile file(path);
    file.write(std::vector<std::byte>(100'000));
    std::raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
  CHECK(content(path) == "old");
  CHECK(folder.files() == 2);
  write_file(path, "new");
  CHECK(content(path) == "new");
  CHECK(folder.files() == 2);
}

TEST_CASE("files: a folder that goes while one is written") {
  Folder const folder;
  std::filesystem::create_directory(folder.path / "deep");
  std::string const path = folder / "deep/a";
  OutputFile file(path);
  file.write(std::as_bytes(std::span("new")));
  std::filesystem::remove_all(folder.path / "deep");
  CHECK_THROWS_WITH_AS(file.commit(), message("headmix: ", path, ": cannot write: No such file or directory").c_str(),
                       Error);
  CHECK(folder.files() == 0);
}

TEST_CASE("files: threads that write the same file leave one of theirs") {
  Folder const folder;
  auto const write = [&](char letter) {
    for (int i = 0; i < 10; ++i) write_file(folder / "a", std::string(10'000, letter));
  };
  std::thread one(write, 'x'), other(write, 'y');
  one.join();
  other.join();
  std::string const found = content(folder / "a");
  CHECK(found == std::string(10'000, found[0]));
  CHECK(folder.files() == 1);
}
