// SPDX-License-Identifier: MIT
// headmix-replay-refusals REPLAY CASES FOLDER: gives headmix-replay cases with one mistake each. It must exit with
// status 2, say one line that names the culprit, and write no output.

#include <sys/wait.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "headmix/io/safetensors.hpp"

namespace {

using headmix::dtype;

/// A case that can be changed. Tensors refer to the memory of the file and of `more`.
struct Case {
  explicit Case(std::string const& path)
      : file(headmix::Safetensors::read(path)), tensors(file.tensors()), options(file.metadata()) {}
  void resize(std::string const& name, dtype type, std::vector<headmix::Index> shape) {
    std::size_t bytes = type == dtype::f64 || type == dtype::i64 ? 8
                        : type == dtype::u8                      ? 1
                        : type == dtype::f16                     ? 2
                                                                 : 4;
    for (auto const n : shape) bytes *= static_cast<std::size_t>(n);
    more.emplace_back(bytes);
    tensors[name] = {type, shape, more.back()};
  }
  headmix::Safetensors file;
  headmix::TensorMap tensors;
  headmix::Metadata options;
  std::vector<std::vector<std::byte>> more;
};

struct Refusal {
  char const* name;     ///< of the case that is changed
  char const* culprit;  ///< what the message must contain
  std::function<void(Case&)> change;
};

std::vector<Refusal> const refusals{
    {"moa-default", "\"layer\"", [](Case& c) { c.options.erase("layer"); }},
    {"moa-default", "\"layer\"", [](Case& c) { c.options["layer"] = "mha"; }},
    {"moa-default", "\"colour\"", [](Case& c) { c.options["colour"] = "red"; }},
    {"moa-default", "\"shared_heads\"", [](Case& c) { c.options["shared_heads"] = "1"; }},
    {"moa-default", "\"dloss.cv\"", [](Case& c) { c.options["dloss.cv"] = "1"; }},
    {"moa-default", "\"experts\"", [](Case& c) { c.options.erase("experts"); }},
    {"moa-default", "\"experts\"", [](Case& c) { c.options["experts"] = "0"; }},
    {"moa-default", "\"experts\"", [](Case& c) { c.options["experts"] = "six"; }},
    {"moa-default", "\"experts\"", [](Case& c) { c.options["experts"] = "6.0"; }},
    {"moa-default", "\"experts\"", [](Case& c) { c.options["experts"] = " 6"; }},
    {"moa-default", "\"experts\"", [](Case& c) { c.options["experts"] = "99999999999999999999"; }},
    {"moa-default", "\"top_k\"", [](Case& c) { c.options["top_k"] = "7"; }},
    {"moa-default", "\"top_k\"", [](Case& c) { c.options["top_k"] = "-1"; }},
    {"moa-default", "\"head_dim\"", [](Case& c) { c.options["head_dim"] = ""; }},
    {"moa-default", "\"kv_heads\"", [](Case& c) { c.options["kv_heads"] = "0"; }},
    {"moa-default", "\"query.weight\"", [](Case& c) { c.options["kv_heads"] = "2"; }},
    {"moa-default", "\"query.weight\"", [](Case& c) { c.options["kv_heads"] = c.options["head_dim"] = "2147483647"; }},
    {"moa-default", "\"gate\"", [](Case& c) { c.options["gate"] = "Raw"; }},
    {"moa-default", "\"mask\"", [](Case& c) { c.options["mask"] = "full"; }},
    {"moa-default", "\"z_padding\"", [](Case& c) { c.options["z_padding"] = "yes"; }},
    {"moa-default", "\"dloss.z\"", [](Case& c) { c.options["dloss.z"] = "nan"; }},
    {"moa-default", "\"dloss.z\"", [](Case& c) { c.options["dloss.z"] = "1e999"; }},
    {"moa-default", "\"dloss.z\"", [](Case& c) { c.options["dloss.z"] = "0x1p3"; }},
    {"moa-default", "\"dloss.z\"", [](Case& c) { c.options["dloss.z"] = "1,5"; }},
    {"moa-default", "\"x\"", [](Case& c) { c.tensors.erase("x"); }},
    {"moa-default", "\"x\"",
     [](Case& c) {
       c.resize("x", dtype::f16, {2, 5, 8});
     }},
    {"moa-default", "\"x\"",
     [](Case& c) {
       c.resize("x", dtype::i64, {2, 5, 8});
     }},
    {"moa-default", "\"x\"",
     [](Case& c) {
       c.resize("x", dtype::f64, {10, 8});
     }},
    {"moa-default", "\"x\"",
     [](Case& c) {
       c.resize("x", dtype::f64, {2, 0, 8});
     }},
    {"moa-default", "\"dy\"", [](Case& c) { c.tensors.erase("dy"); }},
    {"moa-default", "\"dy\"",
     [](Case& c) {
       c.resize("dy", dtype::f32, {2, 5, 8});
     }},
    {"moa-default", "\"dy\"",
     [](Case& c) {
       c.resize("dy", dtype::f64, {2, 8, 5});
     }},
    {"moa-default", "\"value.weight\"", [](Case& c) { c.tensors.erase("value.weight"); }},
    {"moa-default", "\"output.weight\"",
     [](Case& c) {
       c.resize("output.weight", dtype::f64, {6, 8, 4});
     }},
    {"moa-default", "\"router.bias\"", [](Case& c) { c.resize("router.bias", dtype::f64, {6}); }},
    {"moa-default", "\"key.bias\"",
     [](Case& c) {
       c.resize("key.bias", dtype::f64, {1, 4});
     }},
    {"moa-default", "\"memory.valid\"",
     [](Case& c) {
       c.resize("memory.valid", dtype::u8, {2, 5});
     }},
    {"moa-default", "\"x.valid\"",
     [](Case& c) {
       c.resize("x.valid", dtype::i64, {2, 5});
     }},
    {"moa-default", "\"x.valid\"",
     [](Case& c) {
       c.resize("x.valid", dtype::u8, {5, 2});
     }},
    {"moa-default", "\"x.valid\"",
     [](Case& c) {
       c.resize("x.valid", dtype::u8, {2, 5});
       c.more.back()[3] = std::byte{2};
     }},
    {"moa-cross-kv-heads", "\"mask\"", [](Case& c) { c.options["mask"] = "causal"; }},
    {"moa-cross-kv-heads", "\"memory\"",
     [](Case& c) {
       c.resize("memory", dtype::f64, {3, 7, 5});
     }},
    {"moa-cross-kv-heads", "\"key.weight\"",
     [](Case& c) { c.tensors.erase("memory"), c.tensors.erase("memory.valid"); }},
};

std::string read_file(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Test {
 public:
  Test(std::string replay, std::string const& folder)
      : replay_(std::move(replay)),
        in_(folder + "/refusal.safetensors"),
        out_(folder + "/refusal.out.safetensors"),
        said_(folder + "/refusal.txt") {}

  [[nodiscard]] std::string const& in() const { return in_; }
  /// Runs the file in() and says what is wrong with how it was refused.
  void expect_refusal(std::string const& what, std::string const& culprit) {
    std::filesystem::remove(out_);
    auto const quote = [](std::string const& s) { return "'" + s + "'"; };
    int const status =
        std::system((quote(replay_) + ' ' + quote(in_) + ' ' + quote(out_) + " >" + quote(said_) + " 2>&1").c_str());
    std::string const said = read_file(said_);
    bool const one_line = !said.empty() && said.find('\n') == said.size() - 1;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 2 || !one_line || said.find(culprit) == std::string::npos ||
        std::filesystem::exists(out_)) {
      std::printf("%s: expected status 2 and one line with %s and no output; found status %d, output %s, and:\n%s\n",
                  what.c_str(), culprit.c_str(), status, std::filesystem::exists(out_) ? "written" : "none",
                  said.c_str());
      ++failures_;
    }
  }
  [[nodiscard]] int failures() const { return failures_; }

 private:
  std::string replay_, in_, out_, said_;
  int failures_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  std::string const cases = std::string(argv[2]) + '/', suffix = ".safetensors";
  Test test(argv[1], argv[3]);
  for (auto const& r : refusals) {
    Case c(cases + r.name + suffix);
    r.change(c);
    headmix::write_safetensors(test.in(), c.tensors, c.options);
    test.expect_refusal(std::string(r.name) + " with another " + r.culprit, r.culprit);
  }
  // Files that are broken as such: cut off anywhere, or with a length that cannot be.
  std::string const whole = read_file(cases + "moa-default" + suffix);
  for (std::size_t n = 0; n < whole.size(); n += whole.size() / 40) {
    std::ofstream(test.in(), std::ios::binary) << whole.substr(0, n);
    test.expect_refusal("a file cut off after " + std::to_string(n) + " bytes", "refusal.safetensors");
  }
  std::string wrong = whole;
  for (std::size_t i = 0; i < 8; ++i) wrong[i] = '\xff';
  std::ofstream(test.in(), std::ios::binary) << wrong;
  test.expect_refusal("a header length of 2^64 - 1", "header");
  std::printf("%zu mistakes, %d not refused as they should\n", refusals.size() + 42, test.failures());
  return test.failures() == 0 ? 0 : 1;
}
