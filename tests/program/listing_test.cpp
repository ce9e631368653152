// SPDX-License-Identifier: MIT
// Listings of programs: names, known numbers, JSON and dot.

#include <algorithm>
#include <vector>

#include "headmix/headmix.hpp"
#include "headmix/io/json.hpp"
#include "listings.hpp"

namespace listing_test {
namespace {

using namespace headmix;
using namespace headmix::test;

struct x : input<tokens, size<3>> {};
struct W : param<size<3>, size<4>> {};
struct b : bias_param<size<4>> {};
struct h : let<decltype(sigmoid(x{} % W{} + b{}))> {};
using y = decltype(h{} % t(W{}));
using Small = Program<roots<y>, Reference<float>>;

bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }
Listing::value const& value_of(Listing const& l, std::string const& name) {
  auto const found = std::find_if(l.values.begin(), l.values.end(), [&](auto const& v) { return v.name == name; });
  REQUIRE(found != l.values.end());
  return *found;
}
struct Memory {
  std::vector<float> x = std::vector<float>(15), W = std::vector<float>(12), b = std::vector<float>(4), d_W = W;
  AlignedBuffer workspace;

  void run(Small& program) {
    program.bind(listing_test::x{}, {x.data(), 5, 3});
    program.bind(listing_test::W{}, {W.data(), 3, 4}, {d_W.data(), 3, 4});
    program.bind(listing_test::b{}, {b.data(), 1, 4});
    workspace = AlignedBuffer(program.workspace_bytes());
    program.bind_workspace(workspace.bytes());
    program.forward();
  }
};

TEST_CASE("listing: values have their names, others those of operations and calls") {
  Reference<float> backend;
  Small const program(backend);
  Listing const l = listing(program, "small");
  CHECK(l.name == "small, training on Reference of float");
  CHECK(l.forward_calls == 3);
  CHECK(value_of(l, "x").kind == "input");
  CHECK(value_of(l, "W").kind == "parameter");
  CHECK(value_of(l, "transpose(W)").kind == "view");
  CHECK(value_of(l, "matmul#0").kind == "value");
  CHECK(value_of(l, "d(W)").kind == "gradient");
  CHECK(l.calls[1].text == "sigmoid(add(matmul#0, b))");
  CHECK(l.values[static_cast<std::size_t>(l.calls[1].outputs[0])].name == "listing_test::h");
  CHECK(l.calls[2].text == "matmul(listing_test::h, transpose(W))");
  CHECK(value_of(l, "d(matmul#0)").kind == "gradient");
}

TEST_CASE("listing: extents are names until they are known, and so is all that depends on them") {
  Reference<float> backend;
  Small program(backend);
  Listing const before = listing(program);
  CHECK(value_of(before, "matmul#0").extents == std::array<std::string, 3>{"1", "tokens", "4"});
  CHECK(value_of(before, "matmul#0").bytes == -1);
  CHECK(value_of(before, "W").bytes == 48);
  CHECK(before.calls[0].macs == -1);
  CHECK(before.sizes[0].name == "tokens");
  CHECK(before.sizes[0].value == -1);
  CHECK(before.workspace == -1);

  Memory memory;
  memory.run(program);
  Listing const after = listing(program);
  CHECK(value_of(after, "matmul#0").extents == std::array<std::string, 3>{"1", "5", "4"});
  CHECK(value_of(after, "matmul#0").bytes == 80);
  CHECK(value_of(after, "matmul#0").offset >= 0);
  CHECK(after.calls[0].macs == 60);
  CHECK(after.sizes[0].value == 5);
  CHECK(after.workspace == static_cast<Index>(program.workspace_bytes()));
  CHECK(!has(after.text(), "[tokens"));

  std::vector<float> other(6);
  program.bind(x{}, {other.data(), 2, 3});
  CHECK(value_of(listing(program), "matmul#0").extents[1] == "tokens");
}

TEST_CASE("listing: a size that is set is a number without a pass") {
  Reference<float> backend;
  Small program(backend);
  program.set(tokens{}, 7);
  Listing const l = listing(program);
  CHECK(value_of(l, "matmul#0").extents[1] == "7");
  CHECK(value_of(l, "matmul#0").bytes == 112);
  CHECK(value_of(l, "matmul#0").offset == -1);
  CHECK(l.calls[0].macs == 84);
}

TEST_CASE("listing: values live from the call that writes them to the last that reads them") {
  Reference<float> backend;
  Small const program(backend);
  Listing const l = listing(program);
  for (std::size_t c = 0; c < l.calls.size(); ++c) {
    for (int const n : l.calls[c].operands) {
      Listing::value const* v = &l.values[static_cast<std::size_t>(n)];
      while (v->source >= 0) v = &l.values[static_cast<std::size_t>(v->source)];
      if (v->kind == "number") continue;
      bool const lives = v->first <= static_cast<Index>(c) && (v->last >= static_cast<Index>(c) || v->kept);
      CHECK(lives);
    }
  }
  CHECK(value_of(l, "listing_test::h").first == 1);
  CHECK(value_of(l, "listing_test::h").kept);  // read by a backward pass, which may be repeated
}

struct rows_of_V : size<dynamic> {};
struct V : param<rows_of_V, size<4>> {};
TEST_CASE("listing: what is checked when memory is bound") {
  Reference<float> backend;
  Program<roots<decltype(x{} % V{})>, Reference<float>> const program(backend);
  Listing const l = listing(program);
  REQUIRE(l.checks.size() == 1);
  CHECK(l.checks[0] == "matmul(x, V): rows of V must equal columns of x");
  CHECK(has(l.text(), "\nchecks\n  " + l.checks[0] + "\n"));
}

TEST_CASE("listing: multiply-adds are those of count_macs") {
  using Layer = MultiHead<8, 2, 4, causal>;
  Listing const l = listing_of<Layer, Cpu<float>>();
  Index forward = 0, backward = 0;
  for (std::size_t c = 0; c < l.calls.size(); ++c) (c < l.forward_calls ? forward : backward) += l.calls[c].macs;
  CHECK(forward == count_macs<Layer>(at<tokens>(6)));
  Index const attention = forward - count_macs<Layer>(counted{.attention_term = false}, at<tokens>(6));
  CHECK(backward == 2 * (forward - attention) + 5 * attention / 2);
}

TEST_CASE("listing: what kernels compute of operands that are in no memory") {
  std::vector<Listing::value> values(2);
  values[0].name = "key", values[1].name = "gate";
  int const numbers[] = {~0, ~0, ~0, 1, ~0, 0};
  Listing::call call;
  detail::call_words words(values, numbers, call);
  using gate = tree_repeat<tree_leaf<float, false, false>>;
  using kept = tree_random<draws::keep<1, 10>, random_stream::output_dropout>;
  using tree = tree_node<float, ops::multiply, tree_node<float, ops::silu, tree_product<1>>,
                         tree_node<float, ops::multiply, gate, kept>>;
  detail::operand_words<lazy<tree>>::add(words);
  CHECK(call.text == "multiply(silu(product 1), multiply(repeat_rows(gate), keep(key)))");
  CHECK(call.operands == std::vector<int>{1, 0});
}

TEST_CASE("listing: JSON is read back") {
  Reference<float> backend;
  Small program(backend);
  Memory memory;
  memory.run(program);
  Listing const l = listing(program, "a \"quoted\" \\ name\n");
  std::string const text = l.json();

  Listing read;
  JsonReader json(text, "listing");
  auto const texts = [&] {
    std::vector<std::string> all;
    json.array([&] { all.push_back(json.string()); });
    return all;
  };
  auto const numbers = [&] {
    std::vector<int> all;
    json.array([&] { all.push_back(static_cast<int>(json.count())); });
    return all;
  };
  auto const read_value = [&] {
    Listing::value& v = read.values.emplace_back();
    json.object([&](std::string const& key) {
      if (key == "name")
        v.name = json.string();
      else if (key == "kind")
        v.kind = json.string();
      else if (key == "type")
        v.type = json.string();
      else if (key == "bytes")
        v.bytes = json.count();
      else if (key == "offset")
        v.offset = json.count();
      else if (key == "first")
        v.first = json.count();
      else if (key == "last")
        v.last = json.count();
      else if (key == "source")
        v.source = static_cast<int>(json.count());
      else if (key == "extents") {
        std::size_t i = 0;
        json.array([&] { v.extents.at(i++) = std::to_string(json.count()); });
      } else {
        CHECK(key == "kept");
        v.kept = true;
        json.skip();
      }
    });
  };
  auto const read_call = [&] {
    Listing::call& c = read.calls.emplace_back();
    json.object([&](std::string const& key) {
      if (key == "kernel")
        c.kernel = json.string();
      else if (key == "text")
        c.text = json.string();
      else if (key == "outputs")
        c.outputs = numbers();
      else if (key == "operands")
        c.operands = numbers();
      else if (key == "makes")
        c.makes = texts();
      else if (key == "scratch")
        c.scratch = json.count();
      else if (key == "macs")
        c.macs = json.count();
      else {
        CHECK(key == "accumulates");
        c.accumulates = true;
        json.skip();
      }
    });
  };
  json.object([&](std::string const& key) {
    if (key == "name")
      read.name = json.string();
    else if (key == "workspace")
      read.workspace = json.count();
    else if (key == "leaves")
      read.leaves = static_cast<std::size_t>(json.count());
    else if (key == "forward_calls")
      read.forward_calls = static_cast<std::size_t>(json.count());
    else if (key == "checks")
      read.checks = texts();
    else if (key == "values")
      json.array(read_value);
    else if (key == "calls")
      json.array(read_call);
    else if (key == "sizes") {
      json.array([&] {
        Listing::size& s = read.sizes.emplace_back();
        json.object([&](std::string const& member) {
          if (member == "name")
            s.name = json.string();
          else
            s.value = json.count();
        });
      });
    } else {
      FAIL("an unknown member " << key);
    }
  });
  json.end();
  CHECK(read.name == l.name);
  CHECK(read.values.size() == l.values.size());
  CHECK((read.text() == l.text()));
  CHECK((read.json() == text));
}

struct product : let<decltype(x{} % W{})> {};
TEST_CASE("listing: dot") {
  Reference<float> backend;
  Program<roots<product>, Reference<float>, inference> const program(backend);
  CHECK(listing(program, "product").dot() ==
        "digraph \"product, inference on Reference of float\" {\n"
        "  node [shape=box];\n"
        "  v0 [shape=ellipse, label=\"x\\n[tokens, 3]\"];\n"
        "  v1 [shape=ellipse, label=\"W\\n[3, 4]\"];\n"
        "  c0 [label=\"0 matmul\\nlisting_test::product [tokens, 4]\"];\n"
        "  v0 -> c0;\n"
        "  v1 -> c0;\n"
        "}\n");
}

TEST_CASE("listing: ragged sequences have multiply-adds that the host does not know") {
  Module<MultiHead<8, 2, 4, causal>, Cpu<float>, inference> m(1);
  std::vector<float> const input(48);
  Int const offsets[] = {0, 2, 6};
  m.forward({input.data(), 6, 8}, ragged(offsets, 2));
  Listing const l = listing(m);
  auto const attention =
      std::find_if(l.calls.begin(), l.calls.end(), [](auto const& c) { return c.kernel == "attention"; });
  REQUIRE(attention != l.calls.end());
  CHECK(attention->macs == -1);
  CHECK(l.calls[0].macs > 0);
}

TEST_CASE("listing: the page of the library shows one") {
  std::string const page = text_of_file(std::string(HEADMIX_TEST_CASES) + "/../../include/headmix/README.md");
  std::string const text = listing_of<MultiHead<64, 4, 16, causal>, Cpu<float>, inference>().text();
  INFO("include/headmix/README.md has another listing than this one:\n" << text);
  CHECK(has(page, "```text\n" + text + "```"));
}

}  // namespace
}  // namespace listing_test
