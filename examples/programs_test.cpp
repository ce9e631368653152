// SPDX-License-Identifier: MIT
// Failures of headmix-lm and headmix-replay: killed, interrupted, on a full disk, without their folder, with a
// non-finite loss. Checks files, stdout, stderr, and the exit status.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "child.hpp"
#include "headmix/io/safetensors.hpp"

using namespace headmix;
using namespace headmix::test;
namespace fs = std::filesystem;

namespace {

/// Limits file sizes in the new process: a full disk without privileges.
void limit_files(rlim_t bytes) {
  rlimit const limit{bytes, bytes};
  setrlimit(RLIMIT_FSIZE, &limit);
}

void redirect(int stream, char const* path) {
  int const file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  dup2(file, stream);
  close(file);
}

/// The results of a training that ended early are printed and reported.
void check_early_end(Training const& t, Ended const& ended, std::string const& by) {
  std::string const json = json_line(ended);
  CHECK(json.starts_with("{\"val_loss\": null, \"train_loss\": "));
  CHECK(has(json, "\"ended_by\": \"" + by + "\", \"planned_steps\": "));
  auto const files = files_in(t.report);
  REQUIRE(files.size() == 2);
  std::string const& report = files.at("report.json");
  CHECK(report.starts_with(json.substr(0, json.size() - 2)));  // without "}\n", since it continues
  CHECK(has(report, "\"train_curve\": [[1, 5."));
  CHECK(report.ends_with("}\n"));
  CHECK(files.at("loss.svg").ends_with("</svg>\n"));
}

}  // namespace

TEST_CASE("headmix-lm: killed while it trains, it leaves the old report as it was") {
  Training const t;
  Ended const first = Child(t.arguments(2)).end();
  CHECK(first.status == 0);
  CHECK_FALSE(has(json_line(first), "ended_by"));
  auto const before = files_in(t.folder.path);
  CHECK(before.size() == 3);
  Child second(t.endless());
  second.wait_for("step ");
  Ended const ended = second.end(SIGKILL);
  CHECK(ended.status == SIGKILL - 1000);
  CHECK(ended.out.empty());
  CHECK(files_in(t.folder.path) == before);
}

TEST_CASE("headmix-lm: interrupted, it ends with the results so far") {
  struct {
    int signal;
    char const* name;
  } const signals[] = {{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}};
  for (auto const& [signal, name] : signals) {
    Training const t;
    Child child(t.endless());
    child.wait_for("step ");
    Ended const ended = child.end(signal);
    CHECK(ended.status == 128 + signal);
    CHECK(has(ended.err, message("\nheadmix-lm: ", name, " after ")));
    check_early_end(t, ended, "signal");
  }
}

TEST_CASE("headmix-lm: interrupted twice, it ends at once") {
  Training const t;
  // After the first signal it writes to a stdout without a reader.
  Child child(t.endless(), [] {
    int const flags = fcntl(STDOUT_FILENO, F_GETFL);
    fcntl(STDOUT_FILENO, F_SETFL, flags | O_NONBLOCK);
    while (write(STDOUT_FILENO, "x", 1) == 1) continue;
    fcntl(STDOUT_FILENO, F_SETFL, flags);
  });
  child.wait_for("step ");
  child.send(SIGINT);
  child.wait_for("headmix-lm: SIGINT after ");
  // Sent before anything is read: the program cannot have continued.
  CHECK(child.end(SIGINT).status == SIGINT - 1000);
}

TEST_CASE("headmix-lm: a signal that its parent has it ignore is ignored") {
  Training const t;
  Child child(t.endless(), [] { std::signal(SIGINT, SIG_IGN); });
  child.wait_for("step ");
  child.send(SIGINT);
  Ended const ended = child.end(SIGTERM);
  CHECK(ended.status == 128 + SIGTERM);
}

TEST_CASE("headmix-lm: interrupted, it saves, and goes on with the same bits") {
  Training const t;
  auto const with = [&t](std::string const& saved, std::vector<std::string> more) {
    more.insert(more.end(), {"--checkpoint", t.folder / saved});
    return t.arguments(1'000'000'000, more);
  };
  Child child(with("saved", {"--every", "0"}));
  child.wait_for("step ");
  Ended const ended = child.end(SIGINT);
  CHECK(ended.status == 128 + SIGINT);
  CHECK(has(ended.err, "; --resume continues after these\n"));
  check_early_end(t, ended, "signal");
  std::string const json = json_line(ended);
  std::string const steps = std::to_string(std::stol(json.substr(json.find("\"steps\": ") + 9)) + 5);
  // All fields except times.
  auto const report = [&](Ended const& e) {
    CHECK(e.status == 0);
    check_early_end(t, e, "stop_after");
    std::string all = files_in(t.report).at("report.json");
    CHECK(has(all, "\"steps\": " + steps + ", "));
    auto const speed = all.find("\"tokens_per_s\"");
    return all.erase(speed, all.find(',', speed) - speed);
  };
  std::string const resumed = report(Child(with("saved", {"--resume", "--stop-after", steps})).end());
  CHECK(report(Child(with("other", {"--stop-after", steps})).end()) == resumed);
}

TEST_CASE("headmix-lm: fine-tuning moves the parameters that it names, and no others") {
  Training const t;
  auto const trained = [&t](std::string const& to, std::vector<std::string> more) {
    more.insert(more.end(), {"--attention", "mae", "--heads", "4", "--checkpoint", t.folder / to});
    CHECK(Child(t.arguments(6, more)).end().status == 0);
    return Safetensors::read(t.folder / to + "/checkpoint.safetensors");
  };
  Safetensors const before = trained("before", {});
  std::string const gates = "0.attn.W_1 0.attn.W_2 0.attn.b_1 0.attn.b_2 ";
  for (auto const& [mode, expected] :
       {std::pair<std::string, std::string>{"gates", gates},
        {"gates_and_outputs", "0.attn.W_1 0.attn.W_2 0.attn.W_o 0.attn.b_1 0.attn.b_2 "}}) {
    Safetensors const after = trained(mode, {"--from", t.folder / "before", "--fine-tune", mode});
    std::string moved;
    for (auto const& [name, tensor] : after.tensors()) {
      if (name.starts_with("optimiser.") || name.starts_with("extra.") || !before.tensors().contains(name)) continue;
      if (!std::ranges::equal(tensor.bytes, before.tensors().at(name).bytes)) moved += name + ' ';
    }
    CHECK(moved == expected);
  }
}

TEST_CASE("headmix-lm: a checkpoint that cannot be written ends the training, and the one before it stays") {
  Training const t;
  std::vector<std::string> const more{"--every", "2", "--checkpoint", t.folder / "saved", "--resume"};
  fs::create_directory(t.folder / "saved");
  CHECK(Child(t.arguments(7, more)).end().status == 0);
  auto const before = files_in(t.folder / "saved");
  CHECK(before.size() == 1);
  // Other options and a truncated checkpoint are refused.
  Ended const other = Child(t.arguments(8, more)).end();
  CHECK(other.status == 2);
  CHECK(other.err == "headmix-lm: --resume: other options than those of the checkpoint in '" + t.folder / "saved" +
                         "': --steps: expected 7, found 8\n");
  std::string const path = t.folder / "saved/checkpoint.safetensors", whole = text_of(read_all(path));
  write_file(path, whole.substr(0, whole.size() - 1));
  Ended const cut = Child(t.arguments(7, more)).end();
  CHECK(cut.status == 2);
  CHECK(has(cut.err, "checkpoint.safetensors: expected "));
  fs::remove(path);
  CHECK(Child(t.arguments(7, {"--checkpoint", t.folder / "saved", "--stop-after", "3"})).end().status == 0);
  auto const third = files_in(t.folder / "saved");
  Ended const full = Child(t.arguments(7, more), [] { limit_files(600); }).end();
  CHECK(full.status == 1);  // the status of the report, which cannot be written either
  CHECK(has(full.err, "checkpoint.safetensors: cannot write: File too large after 4 of 7 steps\n"));
  CHECK(has(json_line(full), "\"ended_by\": \"error\""));
  CHECK(files_in(t.folder / "saved") == third);
}

TEST_CASE("headmix-lm: on a full disk the results are printed, and the old report stays") {
  Training const t;
  CHECK(Child(t.arguments(2)).end().status == 0);
  auto const before = files_in(t.folder.path);
  Ended const ended = Child(t.arguments(40), [] { limit_files(600); }).end();
  CHECK(ended.status == 1);
  CHECK(has(json_line(ended), "\"steps\": 40, "));
  for (auto const* file : {"/report.json", "/loss.svg"}) {
    CHECK(has(ended.err, "\nheadmix-lm: --report: " + t.report + file + ": cannot write: File too large\n"));
  }
  CHECK(files_in(t.folder.path) == before);
}

TEST_CASE("headmix-lm: a picture that cannot be written does not take the report with it") {
  if (!fs::exists("/dev/full")) {
    MESSAGE("skipped: there is no /dev/full");
    return;
  }
  Training const t;
  fs::create_directory(t.report);
  fs::create_symlink("/dev/full", t.report + "/loss.svg");
  Ended const ended = Child(t.arguments(2)).end();
  CHECK(ended.status == 1);
  CHECK(has(ended.err, "headmix-lm: --report: " + t.report + "/loss.svg: cannot write: No space left on device\n"));
  CHECK(fs::is_symlink(t.report + "/loss.svg"));
  CHECK(files_in(t.report).at("report.json").starts_with(json_line(ended).substr(0, 50)));
}

TEST_CASE("headmix-lm: a stdout that takes nothing is an error, and the report is written") {
  Training const t;
  auto const check = [&](Ended const& ended, std::string const& why) {
    CHECK(ended.status == 1);
    CHECK(ended.out.empty());
    CHECK(has(ended.err, "headmix-lm: cannot write to stdout: " + why + "\n"));
    CHECK(files_in(t.report).size() == 2);
    fs::remove_all(t.report);
  };
  if (fs::exists("/dev/full")) {
    check(Child(t.arguments(2), [] { redirect(STDOUT_FILENO, "/dev/full"); }).end(), "No space left on device");
    Ended const help = Child({HEADMIX_LM, "--help"}, [] { redirect(STDOUT_FILENO, "/dev/full"); }).end();
    CHECK(help.status == 1);
    CHECK(has(help.err, "headmix-lm: cannot write to stdout: "));
  }
  check(Child(t.arguments(2), [] { close(STDOUT_FILENO); }).end(), "Bad file descriptor");
  Child child(t.endless());
  child.wait_for("step ");
  child.close_stdout();
  check(child.end(SIGINT), "Broken pipe");
}

TEST_CASE("headmix-lm: without a reader of stderr it trains on") {
  Training const t;
  Ended const ended = Child(t.arguments(5), [] { close(STDERR_FILENO); }).end();
  CHECK(ended.status == 0);
  CHECK(has(json_line(ended), "\"steps\": 5, "));
  CHECK(files_in(t.report).size() == 2);
}

TEST_CASE("headmix-lm: a report folder that goes meanwhile is created again") {
  Training const t;
  Child child(t.endless());
  child.wait_for("step ");
  fs::remove_all(t.report);
  Ended const ended = child.end(SIGINT);
  CHECK(ended.status == 128 + SIGINT);
  check_early_end(t, ended, "signal");
}

TEST_CASE("headmix-lm: something in the way of one file of the report does not keep the others from being written") {
  Training const t;
  Child child(t.endless());
  child.wait_for("step ");
  fs::create_directory(t.report + "/report.json");
  Ended const ended = child.end(SIGINT);
  CHECK(ended.status == 1);
  CHECK(has(ended.err, "headmix-lm: --report: " + t.report + "/report.json: cannot create: Is a directory\n"));
  CHECK(has(json_line(ended), "\"ended_by\": \"signal\""));
  CHECK(files_in(t.report).at("loss.svg").ends_with("</svg>\n"));
}

TEST_CASE("headmix-lm: where no folder can be created again, the results are printed") {
  Training const t;
  Child child(t.endless());
  child.wait_for("step ");
  fs::remove_all(t.report);
  write_file(t.report, "in the way");
  Ended const ended = child.end(SIGINT);
  CHECK(ended.status == 1);
  CHECK(has(ended.err, "headmix-lm: --report: expected a folder, cannot create '" + t.report + "': "));
  CHECK(has(json_line(ended), "\"ended_by\": \"signal\""));
  CHECK(text_of(read_all(t.report)) == "in the way");
}

TEST_CASE("headmix-lm: a report that cannot be written is refused before anything is trained") {
  Training const t;
  write_file(t.report, "in the way");
  Ended const ended = Child(t.endless()).end();
  CHECK(ended.status == 2);
  CHECK(ended.err == "headmix-lm: --report: expected a folder, cannot create '" + t.report + "': Not a directory\n");
  fs::remove(t.report);
  fs::create_directories(t.report + "/report.json");
  Ended const folder = Child(t.endless()).end();
  CHECK(folder.status == 2);
  CHECK(folder.err == "headmix-lm: --report: " + t.report + "/report.json: cannot create: Is a directory\n");
}

TEST_CASE("headmix-lm: a loss that is no number ends the training, with the steps before it") {
  Training const t;
  // Weight decay multiplies the weights by 1 - 100 * 0.1 in each step.
  Ended const ended = Child(t.arguments(1000, {"--lr", "100", "--warmup", "0"})).end();
  CHECK(ended.status == 3);
  auto const at = ended.err.find("\nheadmix-lm: the loss of step ");
  REQUIRE(at != std::string::npos);
  int const step = std::stoi(ended.err.substr(at + 30));
  CHECK(1 < step);
  CHECK(step < 1000);
  CHECK(has(ended.err, message("the loss of step ", step, " is ")));
  CHECK(has(json_line(ended), message("\"steps\": ", step - 1, ", \"ended_by\": \"loss_not_finite\"")));
  check_early_end(t, ended, "loss_not_finite");
}

#ifdef __linux__
TEST_CASE("headmix-lm: an error in the middle keeps the results of the steps before it") {
  Training const t;
  auto arguments = t.arguments(4000);
  arguments.erase(arguments.begin() + 3, arguments.begin() + 5);  // a report would allocate memory, too
  Child child(arguments);
  child.wait_for("step ");
  // No more memory from now on: the loss curve needs some, at the latest in the validation.
  rlimit const none{1, 1};
  REQUIRE(prlimit(child.id(), RLIMIT_AS, &none, nullptr) == 0);
  Ended const ended = child.end();
  CHECK(ended.status == 4);
  CHECK(has(ended.err, "\nheadmix-lm: not enough memory after "));
  CHECK(has(json_line(ended), "\"ended_by\": \"error\""));
}
#endif

#ifdef __linux__
TEST_CASE("headmix-lm: threads that the system refuses are one line, and nothing is trained") {
  Training const t;
  auto const limit_memory = [] {
    rlimit const gigabyte{1 << 30, 1 << 30};
    setrlimit(RLIMIT_AS, &gigabyte);
  };
  Ended const ended = Child(t.arguments(2, {"--threads", "4096"}), limit_memory).end();
  CAPTURE(ended.err);
  CHECK(ended.status == 2);
  CHECK(ended.out.empty());
  CHECK(ended.err.starts_with("headmix-lm: thread_pool: expected 4096 threads, found "));
  CHECK(ended.err.ends_with(": the system refuses the next one (Resource temporarily unavailable)\n"));
}
#endif

namespace {
/// A folder for the output of headmix-replay, and its expected content.
struct Replay {
  [[nodiscard]] std::vector<std::string> to(std::string const& out) const {
    return {HEADMIX_REPLAY, HEADMIX_TEST_CASES "/moa-default.safetensors", out};
  }
  Replay() {
    Ended const ended = Child(to(folder / "right")).end();
    CHECK(ended.err.empty());
    REQUIRE(ended.status == 0);
    right = text_of(read_all(folder / "right"));
  }
  Folder folder;
  std::string right;
};
}  // namespace

TEST_CASE("headmix-replay: a link and the mode of the file behind it stay") {
  Replay const r;
  write_file(r.folder / "target", "old");
  chmod((r.folder / "target").c_str(), 0600);
  fs::create_symlink("target", r.folder.path / "link");
  CHECK(Child(r.to(r.folder / "link")).end().status == 0);
  CHECK(fs::is_symlink(r.folder.path / "link"));
  CHECK(text_of(read_all(r.folder / "target")) == r.right);
  CHECK(fs::status(r.folder / "target").permissions() == fs::perms(0600));
  CHECK(r.folder.files() == 3);
}

TEST_CASE("headmix-replay: stdout as the output, into a pipe or a file") {
  Replay const r;
  CHECK(Child(r.to("/dev/stdout")).end().out == r.right);
  std::string const file = r.folder / "redirected";
  Ended const ended = Child(r.to("/dev/stdout"), [&] { redirect(STDOUT_FILENO, file.c_str()); }).end();
  CHECK(ended.status == 0);
  CHECK(text_of(read_all(file)) == r.right);
  CHECK(r.folder.files() == 2);
}

TEST_CASE("headmix-replay: an output that cannot be written has a status of its own, the path and the reason") {
  Replay const r;
  auto const check = [&](Ended const& ended, std::string const& path, std::string const& why) {
    CHECK(ended.status == 1);
    CHECK(ended.out.empty());
    CHECK(ended.err == "headmix-replay: " + path + ": cannot " + why + "\n");
  };
  std::string const out = r.folder / "out";
  check(Child(r.to(out + "/none")).end(), out + "/none", "create: No such file or directory");
  check(Child(r.to(r.folder.path)).end(), r.folder.path, "create: Is a directory");
  write_file(out, "old");
  check(Child(r.to(out), [] { limit_files(1000); }).end(), out, "write: File too large");
  if (fs::exists("/dev/full")) {
    check(Child(r.to("/dev/full")).end(), "/dev/full", "write: No space left on device");
    Ended const help = Child({HEADMIX_REPLAY, "--help"}, [] { redirect(STDOUT_FILENO, "/dev/full"); }).end();
    CHECK(help.status == 1);
    CHECK(help.err == "headmix-replay: cannot write to stdout: No space left on device\n");
  }
  Child child(r.to("/dev/stdout"));
  child.close_stdout();
  check(child.end(), "/dev/stdout", "write: Broken pipe");
  if (geteuid() != 0) {
    fs::permissions(r.folder.path, fs::perms(0500));
    check(Child(r.to(out)).end(), out, "create: Permission denied");
    fs::permissions(r.folder.path, fs::perms(0700));
  }
  CHECK(text_of(read_all(out)) == "old");
  CHECK(r.folder.files() == 2);
}
