// SPDX-License-Identifier: MIT
// headmix-replay-refusals REPLAY CASES FOLDER: gives headmix-replay cases with one mistake each. It must exit with
// status 2, print one line that names the culprit, and write no output.

#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "headmix/io/safetensors.hpp"

namespace {

using headmix::dtype;

/// A case to be changed. Tensors refer to the memory of the file and of `more`.
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
  char const* name;     ///< of the changed case
  char const* culprit;  ///< what the message must contain
  void (*change)(Case&);
};

constexpr Refusal refusals[] = {
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
    {"moh-default", "\"experts\"", [](Case& c) { c.options["experts"] = "6"; }},
    {"moh-default", "\"heads\"", [](Case& c) { c.options.erase("heads"); }},
    {"moh-default", "\"heads\"", [](Case& c) { c.options["heads"] = "0"; }},
    {"moh-default", "\"query.weight\"", [](Case& c) { c.options["heads"] = "7"; }},
    {"moh-default", "\"query.weight\"", [](Case& c) { c.options["heads"] = c.options["head_dim"] = "2147483647"; }},
    {"moh-default", "\"shared_heads\"", [](Case& c) { c.options.erase("shared_heads"); }},
    {"moh-default", "\"shared_heads\"", [](Case& c) { c.options["shared_heads"] = "7"; }},
    {"moh-default", "\"shared_heads\"", [](Case& c) { c.options["shared_heads"] = "-1"; }},
    {"moh-default", "\"routed_top_k\"", [](Case& c) { c.options["routed_top_k"] = "0"; }},
    {"moh-default", "\"routed_top_k\"", [](Case& c) { c.options["routed_top_k"] = "5"; }},
    {"moh-default", "\"routed_top_k\"", [](Case& c) { c.options["shared_heads"] = "6"; }},
    {"moh-default", "\"routed_top_k\"", [](Case& c) { c.options.erase("routed_top_k"); }},
    {"moh-default", "\"router.routed\"",
     [](Case& c) {
       // No choice among no heads.
       c.options["shared_heads"] = "6", c.options["routed_top_k"] = "0";
       c.resize("router.shared", dtype::f64, {12, 6});
       c.tensors.erase("router.group");
     }},
    {"moh-default", "\"router.shared\"", [](Case& c) { c.options["shared_heads"] = "3"; }},
    {"moh-default", "\"head_dim\"", [](Case& c) { c.options["head_dim"] = "4 "; }},
    {"moh-default", "\"kv_heads\"", [](Case& c) { c.options["kv_heads"] = "4"; }},
    {"moh-default", "\"kv_heads\"", [](Case& c) { c.options["kv_heads"] = "12"; }},
    {"moh-default", "\"kv_heads\"", [](Case& c) { c.options["kv_heads"] = "0"; }},
    {"moh-default", "\"key.weight\"", [](Case& c) { c.options["kv_heads"] = "3"; }},
    {"moh-default", "\"router\"", [](Case& c) { c.options["router"] = "norm"; }},
    {"moh-default", "\"scale\"", [](Case& c) { c.options["scale"] = "Paper"; }},
    {"moh-default", "\"mask\"", [](Case& c) { c.options["mask"] = "Causal"; }},
    {"moh-default", "\"rope_theta\"", [](Case& c) { c.options["rope_theta"] = "-1"; }},
    {"moh-default", "\"rope_theta\"", [](Case& c) { c.options["rope_theta"] = "inf"; }},
    {"moh-default", "\"dloss.z\"", [](Case& c) { c.options["dloss.z"] = "1"; }},
    {"moh-default", "\"router.shared\"", [](Case& c) { c.tensors.erase("router.shared"); }},
    {"moh-default", "\"router.group\"", [](Case& c) { c.tensors.erase("router.group"); }},
    {"moh-default", "\"router.routed\"", [](Case& c) { c.tensors.erase("router.routed"); }},
    {"moh-default", "\"router.routed\"",
     [](Case& c) {
       c.resize("router.routed", dtype::f64, {12, 6});
     }},
    {"moh-default", "\"router.shared\"",
     [](Case& c) {
       // One shared head needs no weights.
       c.options["shared_heads"] = "1";
       c.resize("router.routed", dtype::f64, {12, 5});
     }},
    {"moh-default", "\"router.group\"",
     [](Case& c) {
       c.options["shared_heads"] = "0";
       c.tensors.erase("router.shared");
       c.resize("router.routed", dtype::f64, {12, 6});
     }},
    {"moh-default", "\"router.group\"",
     [](Case& c) {
       c.resize("router.group", dtype::f32, {12, 2});
     }},
    {"moh-default", "\"x.valid\"",
     [](Case& c) {
       c.resize("x.valid", dtype::u8, {2, 5});
     }},
    {"moh-default", "\"output.bias\"", [](Case& c) { c.resize("output.bias", dtype::f64, {24}); }},
    {"moh-default", "\"router.", [](Case& c) { c.options["router"] = "query_norm"; }},
    {"moh-paper-scale", "\"scale\"", [](Case& c) { c.options["router"] = "query_norm"; }},
    {"moh-query-norm-rope", "\"shared_heads\"",
     [](Case& c) { c.options["shared_heads"] = "7", c.options["routed_top_k"] = "1"; }},
    {"moh-query-norm-rope", "\"shared_heads\"",
     [](Case& c) { c.options["shared_heads"] = "8", c.options["routed_top_k"] = "0"; }},
    {"moh-query-norm-rope", "\"head_dim\"", [](Case& c) { c.options["head_dim"] = "3"; }},
    {"moh-query-norm-rope", "\"router.routed\"",
     [](Case& c) {
       c.resize("router.routed", dtype::f64, {16, 4});
     }},
    {"mae-default", "\"heads\"", [](Case& c) { c.options.erase("heads"); }},
    {"mae-default", "\"heads\"", [](Case& c) { c.options["heads"] = "1"; }},
    {"mae-default", "\"query.weight\"", [](Case& c) { c.options["heads"] = "7"; }},
    {"mae-default", "\"query.weight\"", [](Case& c) { c.options["heads"] = c.options["head_dim"] = "2147483647"; }},
    {"mae-default", "\"head_dim\"", [](Case& c) { c.options.erase("head_dim"); }},
    {"mae-default", "\"head_dim\"", [](Case& c) { c.options["head_dim"] = "0"; }},
    {"mae-default", "\"dropped\"", [](Case& c) { c.options["dropped"] = "0"; }},
    {"mae-default", "\"dropped\"", [](Case& c) { c.options["dropped"] = "8"; }},
    {"mae-default", "\"dropped\"", [](Case& c) { c.options["dropped"] = "-1"; }},
    {"mae-default", "\"dropped\"", [](Case& c) { c.options["dropped"] = "1.0"; }},
    {"mae-default", "\"gate.output.weight\"", [](Case& c) { c.options["dropped"] = "2"; }},
    {"mae-default", "\"mode\"", [](Case& c) { c.options["mode"] = "hard"; }},
    {"mae-default", "\"mask\"", [](Case& c) { c.options["mask"] = "full"; }},
    {"mae-default", "\"pool\"", [](Case& c) { c.options["pool"] = ""; }},
    {"mae-default", "\"pool\"", [](Case& c) { c.options["pool"] = "All"; }},
    {"mae-default", "\"pool\"", [](Case& c) { c.options["pool"] = "window"; }},
    {"mae-default", "\"pool\"", [](Case& c) { c.options["pool"] = "window:"; }},
    {"mae-default", "\"pool\"", [](Case& c) { c.options["pool"] = "window:0"; }},
    {"mae-default", "\"pool\"", [](Case& c) { c.options["pool"] = "window:x"; }},
    {"mae-default", "\"pool\"", [](Case& c) { c.options["pool"] = "window:-1"; }},
    {"mae-default", "\"pool\"", [](Case& c) { c.options["pool"] = "window:+1"; }},
    {"mae-default", "\"pool\"", [](Case& c) { c.options["pool"] = "window: 3"; }},
    {"mae-default", "\"pool\"", [](Case& c) { c.options["pool"] = "window:3 "; }},
    {"mae-default", "\"pool\"", [](Case& c) { c.options["pool"] = "window:2.0"; }},
    {"mae-default", "\"pool\"", [](Case& c) { c.options["pool"] = "window:2147483648"; }},
    {"mae-default", "\"pool\"", [](Case& c) { c.options["pool"] = "window:99999999999999999999"; }},
    {"mae-default", "\"pool\"", [](Case& c) { c.options["pool"] = "prefix:3"; }},
    {"mae-default", "\"top_k\"", [](Case& c) { c.options["top_k"] = "1"; }},
    {"mae-default", "\"gate\"", [](Case& c) { c.options["gate"] = "raw"; }},
    {"mae-default", "\"rope_theta\"", [](Case& c) { c.options["rope_theta"] = "100"; }},
    {"mae-default", "\"kv_heads\"", [](Case& c) { c.options["kv_heads"] = "8"; }},
    {"mae-default", "\"dloss.load_balance\"", [](Case& c) { c.options["dloss.load_balance"] = "1"; }},
    {"mae-default", "\"memory\"",
     [](Case& c) {
       c.resize("memory", dtype::f64, {2, 5, 12});
     }},
    {"mae-default", "\"memory.valid\"",
     [](Case& c) {
       c.resize("memory.valid", dtype::u8, {2, 5});
     }},
    {"mae-default", "\"query.weight\"",
     [](Case& c) {
       c.resize("query.weight", dtype::f64, {12, 23});
     }},
    {"mae-default", "\"gate.hidden.weight\"", [](Case& c) { c.tensors.erase("gate.hidden.weight"); }},
    {"mae-default", "\"gate.hidden.bias\"", [](Case& c) { c.tensors.erase("gate.hidden.bias"); }},
    {"mae-default", "\"gate.output.weight\"", [](Case& c) { c.tensors.erase("gate.output.weight"); }},
    {"mae-default", "\"gate.output.bias\"", [](Case& c) { c.tensors.erase("gate.output.bias"); }},
    {"mae-default", "\"output.weight\"", [](Case& c) { c.tensors.erase("output.weight"); }},
    {"mae-default", "\"dy\"", [](Case& c) { c.tensors.erase("dy"); }},
    {"mae-default", "\"gate.hidden.weight\"",
     [](Case& c) {
       c.resize("gate.hidden.weight", dtype::f64, {6, 12});
     }},
    {"mae-default", "\"gate.hidden.weight\"",
     [](Case& c) {
       c.resize("gate.hidden.weight", dtype::f64, {12, 0});
     }},
    {"mae-default", "\"gate.hidden.bias\"", [](Case& c) { c.resize("gate.hidden.bias", dtype::f64, {12}); }},
    {"mae-default", "\"gate.output.weight\"",
     [](Case& c) {
       c.resize("gate.output.weight", dtype::f64, {6, 28});
     }},
    {"mae-default", "\"gate.output.weight\"",
     [](Case& c) {
       c.resize("gate.output.weight", dtype::f64, {6, 7});
     }},
    {"mae-default", "\"gate.output.weight\"",
     [](Case& c) {
       c.resize("gate.output.weight", dtype::f64, {8, 6});
     }},
    {"mae-default", "\"gate.output.weight\"",
     [](Case& c) {
       c.resize("gate.output.weight", dtype::f32, {6, 8});
     }},
    {"mae-default", "\"gate.output.bias\"", [](Case& c) { c.resize("gate.output.bias", dtype::f64, {7}); }},
    {"mae-default", "\"output.bias\"", [](Case& c) { c.resize("output.bias", dtype::f64, {24}); }},
    {"mae-default", "\"query.bias\"", [](Case& c) { c.resize("query.bias", dtype::f64, {24}); }},
    {"mae-default", "\"expert\"", [](Case& c) { c.resize("expert", dtype::i64, {2}); }},
    {"mae-default", "\"expert\"", [](Case& c) { c.options["mode"] = "expert"; }},
    {"mae-expert", "\"expert\"", [](Case& c) { c.tensors.erase("expert"); }},
    {"mae-expert", "\"expert\"", [](Case& c) { c.options["mode"] = "soft"; }},
    {"mae-expert", "\"expert\"", [](Case& c) { c.resize("expert", dtype::i64, {4}); }},
    {"mae-expert", "\"expert\"",
     [](Case& c) {
       c.resize("expert", dtype::i64, {3, 1});
     }},
    {"mae-expert", "\"expert\"", [](Case& c) { c.resize("expert", dtype::f64, {3}); }},
    {"mae-expert", "\"expert\"", [](Case& c) { c.resize("expert", dtype::u8, {3}); }},
    {"mae-expert", "\"expert\"",
     [](Case& c) {
       c.resize("expert", dtype::i64, {3});
       c.more.back()[8] = std::byte{6};
     }},
    {"mae-expert", "\"expert\"",
     [](Case& c) {
       c.resize("expert", dtype::i64, {3});
       std::fill_n(c.more.back().begin() + 16, 8, std::byte{255});
     }},
    {"mae-expert", "\"expert\"",
     [](Case& c) {
       c.resize("expert", dtype::i64, {3});
       // Out of the range of Int, and 0 if truncated to Int.
       c.more.back()[4] = std::byte{1};
     }},
    {"mae-expert", "\"pool\"", [](Case& c) { c.options["pool"] = "window:0"; }},
    {"mae-expert", "\"gate.hidden.bias\"", [](Case& c) { c.tensors.erase("gate.hidden.bias"); }},
    {"mae-prefix-causal", "\"x.valid\"",
     [](Case& c) {
       c.resize("x.valid", dtype::u8, {6, 2});
     }},
    {"mae-prefix-causal", "\"x.valid\"",
     [](Case& c) {
       c.resize("x.valid", dtype::u8, {2, 6});
       c.more.back()[5] = std::byte{255};
     }},
    {"mh_moe-default", "\"split\"", [](Case& c) { c.options.erase("split"); }},
    {"mh_moe-default", "\"split\"", [](Case& c) { c.options["split"] = "0"; }},
    {"mh_moe-default", "\"split\"", [](Case& c) { c.options["split"] = "3"; }},
    {"mh_moe-default", "\"split\"", [](Case& c) { c.options["split"] = "16"; }},
    {"mh_moe-default", "\"split\"", [](Case& c) { c.options["split"] = "-2"; }},
    {"mh_moe-default", "\"router.weight\"", [](Case& c) { c.options["split"] = "4"; }},
    {"mh_moe-default", "\"experts\"", [](Case& c) { c.options.erase("experts"); }},
    {"mh_moe-default", "\"experts\"", [](Case& c) { c.options["experts"] = "0"; }},
    {"mh_moe-default", "\"router.weight\"", [](Case& c) { c.options["experts"] = "5"; }},
    {"mh_moe-default", "\"router.weight\"", [](Case& c) { c.options["experts"] = "2147483647"; }},
    {"mh_moe-default", "\"top_k\"", [](Case& c) { c.options.erase("top_k"); }},
    {"mh_moe-default", "\"top_k\"", [](Case& c) { c.options["top_k"] = "0"; }},
    {"mh_moe-default", "\"top_k\"", [](Case& c) { c.options["top_k"] = "5"; }},
    {"mh_moe-default", "\"activation\"", [](Case& c) { c.options["activation"] = "gelu"; }},
    {"mh_moe-default", "\"gate\"", [](Case& c) { c.options["gate"] = "detached"; }},
    {"mh_moe-default", "\"weights\"", [](Case& c) { c.options["weights"] = "packed"; }},
    {"mh_moe-default", "\"capacity\"", [](Case& c) { c.options["capacity"] = "-1"; }},
    {"mh_moe-default", "\"capacity\"", [](Case& c) { c.options["capacity"] = "inf"; }},
    {"mh_moe-default", "\"capacity\"", [](Case& c) { c.options["capacity"] = "1.25x"; }},
    {"mh_moe-default", "\"capacity\"", [](Case& c) { c.options["capacity"] = ""; }},
    {"mh_moe-default", "\"dloss.z\"", [](Case& c) { c.options["dloss.z"] = "1"; }},
    {"mh_moe-default", "\"head_dim\"", [](Case& c) { c.options["head_dim"] = "4"; }},
    {"mh_moe-default", "\"x\"",
     [](Case& c) {
       c.resize("x", dtype::f64, {1, 6, 8});
     }},
    {"mh_moe-default", "\"x\"",
     [](Case& c) {
       c.resize("x", dtype::f64, {0, 8});
     }},
    {"mh_moe-default", "\"x.valid\"",
     [](Case& c) {
       c.resize("x.valid", dtype::u8, {6, 8});
     }},
    {"mh_moe-default", "\"router.weight\"", [](Case& c) { c.tensors.erase("router.weight"); }},
    {"mh_moe-default", "\"experts.up\"", [](Case& c) { c.tensors.erase("experts.up"); }},
    {"mh_moe-default", "\"experts.up\"",
     [](Case& c) {
       c.resize("experts.up", dtype::f64, {4, 4, 0});
     }},
    {"mh_moe-default", "\"experts.up\"",
     [](Case& c) {
       c.resize("experts.up", dtype::f64, {4, 5, 4});
     }},
    {"mh_moe-default", "\"experts.gate\"", [](Case& c) { c.tensors.erase("experts.gate"); }},
    {"mh_moe-default", "\"experts.gate\"", [](Case& c) { c.options["activation"] = "relu"; }},
    {"mh_moe-default", "\"experts.down\"", [](Case& c) { c.tensors.erase("experts.down"); }},
    {"mh_moe-default", "\"experts.down\"",
     [](Case& c) {
       c.resize("experts.down", dtype::f64, {4, 4, 5});
     }},
    {"mh_moe-default", "\"experts.bias\"",
     [](Case& c) {
       c.resize("experts.bias", dtype::f64, {4, 5});
     }},
    {"mh_moe-default", "\"dy\"",
     [](Case& c) {
       c.resize("dy", dtype::f64, {12, 4});
     }},
    {"mh_moe-default", "\"head.bias\"", [](Case& c) { c.resize("head.bias", dtype::f64, {8}); }},
    {"mh_moe-default", "\"merge.bias\"", [](Case& c) { c.resize("merge.bias", dtype::f64, {8}); }},
    {"mh_moe-default", "\"shared.gate\"",
     [](Case& c) {
       c.resize("shared.up", dtype::f64, {8, 3});
       c.resize("shared.down", dtype::f64, {3, 8});
     }},
    {"mh_moe-capacity", "\"head.weight\"", [](Case& c) { c.tensors.erase("head.weight"); }},
    {"mh_moe-capacity", "\"merge.weight\"", [](Case& c) { c.tensors.erase("merge.weight"); }},
    {"mh_moe-capacity", "\"merge.weight\"",
     [](Case& c) {
       c.resize("merge.weight", dtype::f64, {12, 4});
     }},
    {"mh_moe-capacity", "\"merge.bias\"",
     [](Case& c) {
       c.resize("merge.bias", dtype::f64, {1, 12});
     }},
    {"mh_moe-capacity", "\"dloss.load_balance\"", [](Case& c) { c.options["dloss.load_balance"] = "-inf"; }},
    {"mh_moe-ternary-shared", "\"shared.up\"", [](Case& c) { c.tensors.erase("shared.up"); }},
    {"mh_moe-ternary-shared", "\"shared.gate\"", [](Case& c) { c.tensors.erase("shared.gate"); }},
    {"mh_moe-ternary-shared", "\"shared.down\"", [](Case& c) { c.tensors.erase("shared.down"); }},
    {"mh_moe-ternary-shared", "\"shared.down\"",
     [](Case& c) {
       c.resize("shared.down", dtype::f64, {16, 7});
     }},
    {"mh_moe-ternary-shared", "\"shared.gate\"",
     [](Case& c) {
       c.options["activation"] = "relu";
       c.tensors.erase("experts.gate");
     }},
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
  /// Runs the file in() and prints faults of its refusal.
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
  // Damaged files: truncated anywhere, or with an impossible length.
  std::string const whole = read_file(cases + "moa-default" + suffix);
  for (std::size_t n = 0; n < whole.size(); n += whole.size() / 40) {
    headmix::write_file(test.in(), std::string_view(whole).substr(0, n));
    test.expect_refusal("a file cut off after " + std::to_string(n) + " bytes", "refusal.safetensors");
  }
  std::string wrong = whole;
  for (std::size_t i = 0; i < 8; ++i) wrong[i] = '\xff';
  headmix::write_file(test.in(), wrong);
  test.expect_refusal("a header length of 2^64 - 1", "header");
  std::printf("%zu mistakes, %d not refused as they should\n", std::size(refusals) + 42, test.failures());
  return test.failures() == 0 ? 0 : 1;
}
