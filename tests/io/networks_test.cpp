// SPDX-License-Identifier: MIT
// Whole networks of others: tables with numbers of blocks, indices of several files, and files that are mapped. Logits
// are compared with loops over the file's numbers.

#include <filesystem>
#include <fstream>

#include "../error_of.hpp"
#include "files.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/expr/norm.hpp"
#include "headmix/expr/select.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/layer/repeat.hpp"
#include "named.hpp"

namespace networks_test {

using namespace headmix;
using namespace headmix::test;

namespace {

constexpr Index width = 8, words = 11, hidden = 12;

/// The feed-forward layer of Llama.
struct SwiGlu {
  struct x : input<tokens, size<width>> {};
  struct W_gate : param<size<width>, size<hidden>> {};
  struct W_up : param<size<width>, size<hidden>> {};
  struct W_down : param<size<hidden>, size<width>> {};
  static constexpr auto y = (silu(x{} % W_gate{}) * (x{} % W_up{})) % W_down{};
  using losses = type_list<>;
  using observed = type_list<>;
};
template <class Attention>
struct Block {
  struct x : input<tokens, size<width>> {};
  struct attn_gain : param<size<width>> {};
  struct ffn_gain : param<size<width>> {};
  static constexpr auto attn = use<Attention, "attn">(rms_norm(x{}, attn_gain{}));
  struct h : let<decltype(x{} + attn.y)> {};
  static constexpr auto ffn = use<SwiGlu, "ffn">(rms_norm(h{}, ffn_gain{}));
  static constexpr auto y = h{} + ffn.y;
  using losses = losses_of<attn, ffn>;
  using observed = observed_of<attn, ffn>;
};
struct depth : size<dynamic> {};
template <class Attention, bool Tied = false>
struct Network {
  struct x : selection<tokens, size<1>, size<words>> {};
  struct W_e : param<size<words>, size<width>> {};
  struct gain : param<size<width>> {};
  struct W_lm : param<size<words>, size<width>> {};
  struct embedded : let<decltype(gather_rows(W_e{}, x{}))> {};
  static constexpr auto blocks = repeat<depth, Block<Attention>, "blocks">(embedded{});
  static constexpr auto y = rms_norm(blocks.y, gain{}) % t(std::conditional_t<Tied, W_e, W_lm>{});
  using losses = type_list<>;
  using observed = type_list<>;
};
using Dense = MultiHead<width, 4, 2, causal, kv_heads<2>, rope<>>;
using Mixed = Moh<width, 2, QueryNorm<2, 2, 1>, causal, kv_heads<2>, rope<>>;
template <class L>
using Built = Module<L, Reference<double>, inference>;

/// A file with the names and shapes of Llama, of `blocks` blocks.
NamedFile llama_file(Index blocks) {
  NamedFile f;
  f.add("model.embed_tokens.weight", {words, width}, 1, 0.7);
  f.add("model.norm.weight", {width}, 0.5, 0.3);
  f.add("lm_head.weight", {words, width}, 0.6, 1.9);
  for (Index b = 0; b < blocks; ++b) {
    std::string const at = message("model.layers.", b, ".");
    double const s = 1 + 0.013 * static_cast<double>(b);
    f.add(at + "input_layernorm.weight", {width}, 0.8, 0.4 * s);
    f.add(at + "post_attention_layernorm.weight", {width}, 0.9, 0.45 * s);
    f.add(at + "self_attn.q_proj.weight", {8, width}, 0.5, 1.1 * s);
    f.add(at + "self_attn.k_proj.weight", {4, width}, 0.5, 1.3 * s);
    f.add(at + "self_attn.v_proj.weight", {4, width}, 0.5, 1.7 * s);
    f.add(at + "self_attn.o_proj.weight", {width, 8}, 0.5, 2.1 * s);
    f.add(at + "self_attn.rotary_emb.inv_freq", {1}, 1, 1);
    f.add(at + "mlp.gate_proj.weight", {hidden, width}, 0.4, 2.3 * s);
    f.add(at + "mlp.up_proj.weight", {hidden, width}, 0.4, 2.7 * s);
    f.add(at + "mlp.down_proj.weight", {width, hidden}, 0.4, 2.9 * s);
  }
  return f;
}
/// The logits of the dense network, from the tensors of the file. A head has one frequency, here times `factor`.
std::vector<double> llama_logits(NamedFile const& f, Index blocks, std::vector<Int> const& ids, double factor = 1) {
  auto const of = [&f](std::string const& name) -> std::vector<double> const& { return f.values.at(name); };
  std::vector<double> x;
  for (Int const id : ids) {
    auto const row = of("model.embed_tokens.weight").begin() + id * width;
    x.insert(x.end(), row, row + width);
  }
  for (Index b = 0; b < blocks; ++b) {
    std::string const at = message("model.layers.", b, ".");
    auto const normed = rms(x, of(at + "input_layernorm.weight"));
    auto q = linear(normed, of(at + "self_attn.q_proj.weight").data(), 8, width),
         k = linear(normed, of(at + "self_attn.k_proj.weight").data(), 4, width);
    auto const v = linear(normed, of(at + "self_attn.v_proj.weight").data(), 4, width);
    rotate_half(q, 8, 2, 10000, factor);
    rotate_half(k, 4, 2, 10000, factor);
    auto const o = linear(causal_attention(q, k, v, 4, 2, 2, [](std::size_t h) { return h / 2; }),
                          of(at + "self_attn.o_proj.weight").data(), width, 8);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += o[i];
    auto const again = rms(x, of(at + "post_attention_layernorm.weight"));
    auto gate = linear(again, of(at + "mlp.gate_proj.weight").data(), hidden, width);
    auto const up = linear(again, of(at + "mlp.up_proj.weight").data(), hidden, width);
    for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    auto const y = linear(gate, of(at + "mlp.down_proj.weight").data(), width, hidden);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }
  return linear(rms(x, of("model.norm.weight")), of("lm_head.weight").data(), words, width);
}
template <class M>
view<double const> logits_of(M& m, std::vector<Int> const& ids) {
  m.program().bind(typename M::layer::x{}, view<Int const>(ids.data(), static_cast<Index>(ids.size()), 1));
  m.program().bind_tokens(uniform(1, static_cast<Index>(ids.size())));
  return m.forward();
}
std::vector<Int> const ids = {3, 0, 10, 7, 3};

}  // namespace

TEST_CASE("whole networks: Llama from one file, and MoH's form of it") {
  NamedFile const f = llama_file(3);
  Built<Network<Dense>> m(1, {}, at<depth>(3));
  load(m, f.tensors, "f", published::llama());
  agree(logits_of(m, ids), llama_logits(f, 3, ids));

  Built<Network<Mixed>> moh(1, {}, at<depth>(3));
  load(moh, f.tensors, "f", published::llama());
  auto const& there = moh.parameters();
  REQUIRE(there.size() == m.parameters().size());
  for (std::size_t i = 0; i < there.size(); ++i) {
    CHECK(there[i].name == m.parameters()[i].name);
    for (Index e = 0; e < there[i].value.size(); ++e)
      REQUIRE(there[i].value.data[e] == m.parameters()[i].value.data[e]);
  }
  // W_q of block 2 has its own tensor.
  auto const& q = m.get<decltype(Network<Dense>::blocks)::as<decltype(Block<Dense>::attn)::as<Dense::W_q>>>(2);
  CHECK(q.value(1, 0) == f.values.at("model.layers.2.self_attn.q_proj.weight")[1]);
}

TEST_CASE("whole networks: tied embeddings") {
  NamedFile f = llama_file(4);
  Built<Network<Dense, true>> tied(1, {}, at<depth>(4));
  CHECK(says(error_of([&] { load(tied, f.tensors, "f", published::llama()); }), "f: \"lm_head.weight\""));
  load(tied, f.tensors, "f", published::llama().ignoring("lm_head.weight"));
}

namespace {
struct Halves {
  using x = Block<Dense>::x;
  static constexpr auto low = repeat<1, Block<Dense>, "low">(x{});
  static constexpr auto high = repeat<2, Block<Mixed>, "high">(low.y);
  static constexpr auto y = high.y;
  using losses = type_list<>;
  using observed = type_list<>;
};
}  // namespace

TEST_CASE("whole networks: two repetitions take the blocks of one file, and a router keeps its values") {
  NamedFile f = llama_file(3);
  for (std::string const name : {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"})
    f.tensors.erase(name);
  TensorNames const block =
      TensorNames{{"attn_gain", "input_layernorm.weight"}, {"ffn_gain", "post_attention_layernorm.weight"}} +
      published::llama_attention().below("self_attn.").into("attn").ignoring("*.inv_freq") +
      TensorNames(std::vector<tensor_name>{
                      {"W_gate", "gate_proj.weight"}, {"W_up", "up_proj.weight"}, {"W_down", "down_proj.weight"}})
          .below("mlp.")
          .into("ffn");
  TensorNames const in_file = block.below("model.layers.*.");
  Built<Halves> m(1);
  load(m, f.tensors, "f", in_file.into("low.*") + in_file.into("high.*", 1));
  auto const value = [&](std::string_view name) {
    for (auto const& p : m.parameters()) {
      if (p.name == name) return p.value.data[0];
    }
    return 0.0;
  };
  CHECK(value("low.0.attn_gain") == f.values.at("model.layers.0.input_layernorm.weight")[0]);
  CHECK(value("high.0.attn_gain") == f.values.at("model.layers.1.input_layernorm.weight")[0]);
  CHECK(value("high.1.ffn.W_up") == f.values.at("model.layers.2.mlp.up_proj.weight")[0]);

  // A table of all blocks, of which the file lacks the routers.
  using TwoStages = Moh<width, 2, TwoStage<2, 2, 1>, causal, kv_heads<2>, rope<>>;
  Built<Network<TwoStages>> routed(5, {}, at<depth>(2));
  NamedFile const whole = llama_file(2);
  CHECK(says(error_of([&] { load(routed, whole.tensors, "f", published::llama()); }), "f: parameter blocks.0.attn.W_"));
  double const before = routed.parameters()[2].value.data[0];
  load(routed, whole.tensors, "f", published::llama().keeping("blocks.*.attn.W_r blocks.*.attn.W_h blocks.*.attn.W_s"));
  CHECK(routed.parameters()[2].value.data[0] == before);
}

TEST_CASE("whole networks: blocks that the file or the module lacks") {
  NamedFile const f = llama_file(2);
  Built<Network<Dense>> three(1, {}, at<depth>(3)), one(1, {}, at<depth>(1));
  CHECK(says(error_of([&] { load(three, f.tensors, "f", published::llama()); }), "f: parameter blocks.2."));
  CHECK(says(error_of([&] { load(one, f.tensors, "f", published::llama()); }),
             "f: \"model.layers.1.input_layernorm.weight\", which is for blocks.*.attn_gain: expected a tensor that "
             "the module needs"));
  CHECK(says(error_of([&] { load(one, f.tensors, "f", published::llama_attention().below("model.layers.*.")); }),
             "headmix: TensorNames: expected a * for the number of a block in both of below(\"model.layers.*.\") and "
             "into(\"\"), found one"));
}

TEST_CASE("whole networks: an index of several files, a folder, and a mapped file") {
  Folder folder;
  NamedFile const f = llama_file(2);
  TensorMap first, second;
  std::string map;
  for (auto const& [name, t] : f.tensors) {
    bool const in_first = name.find("layers.1") == name.npos;
    (in_first ? first : second)[name] = t;
    map += message(map.empty() ? "" : ",", quote(name), ":\"model-0000", in_first ? 1 : 2, "-of-00002.safetensors\"");
  }
  write_safetensors(folder / "model-00001-of-00002.safetensors", first);
  write_safetensors(folder / "model-00002-of-00002.safetensors", second);
  std::string const index = folder / "model.safetensors.index.json";
  auto const write_index = [&](std::string const& text) { std::ofstream(index) << text; };
  write_index("{\"metadata\":{\"total_size\":123},\"weight_map\":{" + map + "}}");

  auto const expected = llama_logits(f, 2, ids);
  for (std::string const& path : {index, folder.path.string()}) {
    Built<Network<Dense>> m(1, {}, at<depth>(2));
    load(m, path, published::llama());
    agree(logits_of(m, ids), expected);
  }
  TensorFiles const files = TensorFiles::open(index);
  CHECK(files.files() == 2);
  CHECK(same(files.tensors(), f.tensors));
  // Another module's weights from the mapped file, in float.
  Module<Network<Dense>, Cpu<float>, inference> m(1, {}, at<depth>(2));
  write_safetensors(folder / "whole.safetensors", f.tensors);
  load(m, folder / "whole.safetensors", published::llama());
  CHECK(same(Safetensors::map(folder / "whole.safetensors").tensors(), f.tensors));

  auto const open = [&](std::string const& path) {
    return error_of([&] { static_cast<void>(TensorFiles::open(path)); });
  };
  write_index("{\"weight_map\":{\"a\":\"../b.safetensors\"}}");
  CHECK(says(open(index), "expected the name of a file beside the index"));
  write_index("{\"weight_map\":{\"no such\":\"model-00001-of-00002.safetensors\"}}");
  CHECK(says(open(index), "\"no such\": expected the tensor in model-00001-of-00002.safetensors, found none there"));
  write_index("{\"weight_map\":{\"lm_head.weight\":\"model-00001-of-00002.safetensors\"}}");
  CHECK(says(open(index), ": the tensor is in model-00001-of-00002.safetensors, but not in the index"));
  write_index("{\"metadata\":{}}");
  CHECK(says(open(index), "expected an object with weight_map, found none"));
  std::filesystem::remove(index);
  CHECK(says(open(folder.path.string()),
             "expected model.safetensors.index.json or model.safetensors in the folder, found none"));
  CHECK(says(open(folder / "none.safetensors"), "none.safetensors: cannot open"));
}

TEST_CASE("whole networks: bfloat16 shards with Llama 3.1's frequencies; hostile shards change nothing") {
  using Scaled = MultiHead<width, 4, 2, causal, kv_heads<2>, rope<10'000, 1, llama3_frequencies<8, 16>>>;
  Folder folder;
  NamedFile f = llama_file(4);
  std::map<std::string, std::vector<bfloat16>> stored;
  TensorMap first, second;
  std::string map;
  for (auto& [name, t] : f.tensors) {
    auto& numbers = stored[name];
    for (double& x : f.values.at(name)) {
      numbers.emplace_back(static_cast<float>(x));
      x = static_cast<double>(static_cast<float>(numbers.back()));
    }
    bool const in_first = name.find("layers.1") == name.npos && name.find("layers.3") == name.npos;
    (in_first ? first : second)[name] = {dtype::bf16, t.shape, std::as_bytes(std::span(numbers))};
    map += message(map.empty() ? "" : ",", quote(name), ":\"", in_first ? "1" : "2", ".safetensors\"");
  }
  std::string const one = folder / "1.safetensors", two = folder / "2.safetensors";
  auto const restore = [&] { write_safetensors(one, first), write_safetensors(two, second); };
  restore();
  std::ofstream(folder / "model.safetensors.index.json") << "{\"weight_map\":{" << map << "}}";

  Built<Network<Scaled>> m(1, {}, at<depth>(4));
  load(m, folder.path.string(), published::llama());
  // 16 positions are 16 / (2 pi) turns, between 1 and 4.
  double const share = (16 / 6.283185307179586 - 1) / 3;
  agree(logits_of(m, ids), llama_logits(f, 4, ids, (1 - share) / 8 + share));

  std::vector<double> before;
  for (auto const& p : m.parameters()) {
    for (Index i = 0; i < p.value.size(); ++i) before.push_back(p.value.data[i] += 1);
  }
  auto const refused = [&](auto change) {
    restore();
    change();
    std::string const error = error_of([&] { load(m, folder.path.string(), published::llama()); });
    std::vector<double> after;
    for (auto const& p : m.parameters()) after.insert(after.end(), p.value.data, p.value.data + p.value.size());
    CHECK(after == before);
    return error;
  };
  auto const without = [](TensorMap tensors, std::string const& name) {
    tensors.erase(name);
    return tensors;
  };
  std::string const up = "model.layers.3.mlp.up_proj.weight";
  auto const with = [&](dtype type, std::vector<Index> shape, std::span<std::byte const> bytes) {
    return refused([&] {
      TensorMap changed = second;
      changed[up] = {type, shape, bytes};
      write_safetensors(two, changed);
    });
  };
  auto const bytes = second.at(up).bytes;
  CHECK(says(refused([&] { std::filesystem::remove(two); }), "2.safetensors: cannot open"));
  CHECK(says(refused([&] { write_safetensors(two, without(second, up)); }),
             "\"model.layers.3.mlp.up_proj.weight\": expected the tensor in 2.safetensors, found none there"));
  CHECK(says(refused([&] {
               TensorMap more = first;
               more[up] = second.at(up);
               write_safetensors(one, more), write_safetensors(two, without(second, up));
             }),
             "\"model.layers.3.mlp.up_proj.weight\": the tensor is in 1.safetensors, but not in the index"));
  CHECK(says(with(dtype::bf16, {width, hidden}, bytes),
             "\"model.layers.3.mlp.up_proj.weight\" for blocks.3.ffn.W_up: expected BF16 [12, 8], found BF16 [8, 12]"));
  CHECK(says(with(dtype::i16, {hidden, width}, bytes), "expected F64, F32, BF16 or F16, found I16 [12, 8]"));
  std::vector<bfloat16> infinite = stored.at(up);
  infinite[5] = bfloat16(HUGE_VALF);
  CHECK(says(with(dtype::bf16, {hidden, width}, std::as_bytes(std::span(infinite))),
             "up_proj.weight\" for blocks.3.ffn.W_up: element 5: expected a finite number"));
  CHECK(says(refused([&] { std::filesystem::resize_file(two, std::filesystem::file_size(two) - 1); }),
             "2.safetensors: expected "));
  CHECK(says(refused([&] { std::filesystem::resize_file(one, 20); }), "1.safetensors: expected "));
}

TEST_CASE("whole networks: a mapped file has the errors of one that is read") {
  Folder folder;
  auto const both = [&](Bytes const& bytes) {
    std::string const path = folder / "f.safetensors";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<char const*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    std::string const mapped = error_of([&] { static_cast<void>(Safetensors::map(path)); }),
                      read = error_of([&] { static_cast<void>(Safetensors::read(path)); });
    CHECK(!mapped.empty());
    return std::pair(mapped, read);
  };
  std::string const header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  for (Bytes const& bytes : {Bytes{}, Bytes(5), file_of("{}", "", 100), file_of(header, "1234"), file_of("{\"a\":"),
                             file_of("{}", "", std::size_t{1} << 40)}) {
    auto const [mapped, read] = both(bytes);
    CHECK(mapped == read);
  }
  auto const [mapped, read] = both(file_of(header, "123456789"));
  CHECK(says(mapped, "expected 8 bytes of data, found 9"));
  CHECK(says(read, "expected 8 bytes of data, found more"));
}

}  // namespace networks_test
