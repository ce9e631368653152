// SPDX-License-Identifier: MIT
// headmix-gate <source.cu> <log> <cubin>: what nvcc made of the kernels of a source, without a GPU and without a
// disassembler. Reads what ptxas said (-v,-warn-spills,-warn-lmem-usage) and the opcodes in the cubin, prints a line
// per kernel, and fails for warnings, spills, local memory, instructions that are missing where a line of the source
//
//   // expect: <part of a kernel's name> <instruction> ...
//
// says they belong, and main loops (main_loop.hpp) that cost more for each HMMA than the line
//
//   // budget: <instructions> <LDSM> <clocks of the shared memory> <part of a kernel's name>
//
// allows; every kernel with an HMMA in a loop needs one, and fits at least 8 warps at a time. Where it says
//
//   // fewer: <part of a kernel's name> than <part of another's>
//
// the first must have fewer instructions than the second. An empty kernel sizes<K, threads, bytes> of the source tells
// the dynamic shared memory of K.

#include <cxxabi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "main_loop.hpp"

namespace {

/// The instructions that are counted in a whole kernel.
std::map<std::string, unsigned> const opcodes = {{"HMMA", opcode::hmma},
                                                 {"LDSM", opcode::ldsm},
                                                 {"LDGSTS", opcode::ldgsts},
                                                 {"LDL", opcode::ldl},
                                                 {"STL", opcode::stl}};

struct kernel {
  std::string name;
  int registers = 0, stack = 0, spills = 0, static_shared = 0, shared = 0, threads = 0;
  int architecture = 0;  ///< 80 for sm_80
  bool entry = false;
  std::map<std::string, int> count;
  int instructions = 0;  ///< without those behind the end
  loop_counts loop;
};

std::string read(char const* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path);
    std::exit(2);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

void replace_all(std::string& text, std::string const& from, std::string const& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

/// "void headmix::cuda::run<headmix::cuda::sm80<headmix::cuda::build<100, 800> >, headmix::cuda::gemm<float>
/// >(headmix::cuda::gemm<float>)" -> "run<sm80<build<100, 800>>, gemm<float>>"
std::string readable(std::string const& mangled) {
  int status = 0;
  char* const text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 ? text : mangled;
  std::free(text);
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (name[i] == '(' && depth == 0) name.resize(i);
  }
  if (name.starts_with("void ")) name.erase(0, 5);
  replace_all(name, "headmix::cuda::", "");
  replace_all(name, "headmix::", "");
  replace_all(name, "> >", ">>");
  replace_all(name, "> >", ">>");
  return name;
}

/// What ptxas reported, by mangled name.
std::map<std::string, kernel> read_log(std::string const& log, std::vector<std::string>& faults) {
  std::regex const function("Function properties for (\\S+)"),
      entry("Compiling entry function '(\\S+)' for 'sm_(\\d+)"),
      frame("(\\d+) bytes stack frame, (\\d+) bytes spill stores, (\\d+) bytes spill loads"),
      registers("Used (\\d+) registers"), shared("(\\d+) bytes smem"), serious("[Ww]arning|error|C75[0-9][0-9]");
  std::map<std::string, kernel> kernels;
  std::string current, compiled;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    std::smatch m;
    if (std::regex_search(line, serious)) faults.push_back(line);
    if (std::regex_search(line, m, entry)) {
      compiled = m[1];
      kernels[compiled].entry = true;
      kernels[compiled].architecture = std::stoi(m[2]);
    }
    if (std::regex_search(line, m, function)) current = m[1], kernels[current];
    if (std::regex_search(line, m, frame)) {
      kernels[current].stack = std::stoi(m[1]);
      kernels[current].spills = std::stoi(m[2]) + std::stoi(m[3]);
    }
    if (std::regex_search(line, m, registers)) kernels[compiled].registers = std::stoi(m[1]);
    if (std::regex_search(line, m, shared)) kernels[compiled].static_shared = std::stoi(m[1]);
  }
  for (auto& [mangled, k] : kernels) k.name = readable(mangled);
  return kernels;
}

template <class T>
T number(std::string const& bytes, std::size_t at) {
  T value{};
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) {
    std::fputs("the cubin is cut short\n", stderr);
    std::exit(2);
  }
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

/// Counts the instructions of every section .text.<kernel> of an ELF file of 64 bits.
void count_instructions(std::string const& elf, std::map<std::string, kernel>& kernels) {
  if (elf.compare(0, 5,
                  "\x7F"
                  "ELF\x02") != 0) {
    std::fputs("the cubin is no ELF file of 64 bits\n", stderr);
    std::exit(2);
  }
  auto const table = number<std::uint64_t>(elf, 0x28);
  auto const entry_bytes = number<std::uint16_t>(elf, 0x3A), sections = number<std::uint16_t>(elf, 0x3C),
             names = number<std::uint16_t>(elf, 0x3E);
  auto const header = [&](unsigned i) { return table + std::uint64_t{i} * entry_bytes; };
  auto const name_table = number<std::uint64_t>(elf, header(names) + 0x18);
  for (unsigned i = 0; i < sections; ++i) {
    std::string const name = elf.c_str() + name_table + number<std::uint32_t>(elf, header(i));
    if (!name.starts_with(".text.")) continue;
    auto const found = kernels.find(name.substr(6));
    if (found == kernels.end()) continue;
    auto const begin = number<std::uint64_t>(elf, header(i) + 0x18),
               size = number<std::uint64_t>(elf, header(i) + 0x20);
    std::vector<instruction> code;
    for (std::uint64_t at = begin; at < begin + size; at += instruction::bytes) {
      code.push_back({number<std::uint64_t>(elf, at), number<std::uint64_t>(elf, at + 8)});
      for (auto const& [name_of, bits] : opcodes) found->second.count[name_of] += code.back().operation() == bits;
      if (code.back().operation() != opcode::nop) found->second.instructions = static_cast<int>(code.size());
    }
    found->second.loop = main_loop(code, found->second.architecture);
  }
}

/// Removes the kernels that only tell sizes, and adds what they tell.
void take_sizes(std::map<std::string, kernel>& kernels) {
  std::regex const sizes("sizes<(.*), ([0-9]+), ([0-9]+)>$");
  for (auto at = kernels.begin(); at != kernels.end();) {
    std::smatch m;
    if (!std::regex_search(at->second.name, m, sizes)) {
      ++at;
      continue;
    }
    for (auto& [mangled, k] : kernels) {
      if (k.name.ends_with(", " + m[1].str() + ">")) k.threads = std::stoi(m[2]), k.shared = std::stoi(m[3]);
    }
    at = kernels.erase(at);
  }
}

/// Warps that a multiprocessor of compute capability 8.0 has at a time: of its 164 KiB of shared memory each block
/// takes one more, and registers are given out by eights.
int resident_warps(kernel const& k) {
  int const by_shared = (164 << 10) / (k.static_shared + k.shared + (1 << 10));
  int const by_registers = 65536 / ((k.registers + 7) / 8 * 8 * k.threads);
  return std::min({by_shared, by_registers, 2048 / k.threads}) * k.threads / 32;
}

/// Prints what the main loops cost, and adds a fault for each that costs more than a line "// budget: " allows.
void check_budgets(std::string const& text, std::map<std::string, kernel> const& kernels,
                   std::vector<std::string>& faults) {
  struct budget {
    double most[3];
    std::string part;
    bool used;
  };
  std::vector<budget> budgets;
  std::istringstream source(text);
  for (std::string line; std::getline(source, line);) {
    if (!line.starts_with("// budget: ")) continue;
    std::istringstream words(line.substr(11));
    budget b{};
    words >> b.most[0] >> b.most[1] >> b.most[2] >> std::ws;
    std::getline(words, b.part);
    if (b.part.empty()) faults.push_back("no budget can be read from: " + line);
    budgets.push_back(b);
  }
  char const* const units[] = {"instructions", "LDSM", "clocks of the shared memory"};
  bool first = true;
  for (auto const& [mangled, k] : kernels) {
    if (k.loop.hmma == 0) continue;
    double const found[] = {k.loop.per_hmma(k.loop.instructions), k.loop.per_hmma(k.loop.ldsm),
                            k.loop.per_hmma(k.loop.shared_clocks)};
    if (first)
      std::printf("\nmain loops\n%6s %12s %6s | %12s %6s %6s for each HMMA\n", "HMMA", units[0], "LDSM", units[0],
                  "LDSM", "clocks");
    first = false;
    std::printf("%6d %12d %6d | %12.3f %6.3f %6.3f  %s\n", k.loop.hmma, k.loop.instructions, k.loop.ldsm, found[0],
                found[1], found[2], k.name.c_str());
    bool has_one = false;
    for (budget& b : budgets) {
      if (k.name.find(b.part) == std::string::npos) continue;
      has_one = b.used = true;
      for (int i = 0; i < 3; ++i) {
        if (found[i] <= b.most[i]) continue;
        char numbers[96];
        std::snprintf(numbers, sizeof numbers, ": over budget: %.3f %s for each HMMA, at most %.3f", found[i], units[i],
                      b.most[i]);
        faults.push_back(k.name + numbers);
      }
    }
    if (!has_one) faults.push_back(k.name + ": no budget");
  }
  for (budget const& b : budgets) {
    if (!b.used) faults.push_back("no main loop is called " + b.part);
  }
}

/// Prints the instructions of kernels that a line "// fewer: " compares, and adds a fault where it is wrong.
void check_fewer(std::string const& text, std::map<std::string, kernel> const& kernels,
                 std::vector<std::string>& faults) {
  auto const find = [&](std::string const& part) {
    auto const found = std::find_if(kernels.begin(), kernels.end(),
                                    [&](auto const& k) { return k.second.name.find(part) != std::string::npos; });
    if (found == kernels.end()) faults.push_back("no kernel is called " + part);
    return found == kernels.end() ? 0 : found->second.instructions;
  };
  std::regex const comparison("// fewer: (.*) than (.*)");
  std::istringstream source(text);
  for (std::string line; std::getline(source, line);) {
    std::smatch m;
    if (!std::regex_match(line, m, comparison)) continue;
    int const one = find(m[1]), other = find(m[2]);
    std::printf("%6d instructions of %s, %d of %s\n", one, m[1].str().c_str(), other, m[2].str().c_str());
    if (one >= other) faults.push_back(m[1].str() + ": instructions not fewer than those of " + m[2].str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: headmix-gate <source.cu> <log> <cubin>\n", stderr);
    return 2;
  }
  std::vector<std::string> faults;
  std::map<std::string, kernel> kernels = read_log(read(argv[2]), faults);
  count_instructions(read(argv[3]), kernels);
  take_sizes(kernels);

  int entries = 0;
  std::printf("%9s %7s %8s %6s %6s %6s %6s %6s  kernel\n", "registers", "threads", "shared", "stack", "spills", "HMMA",
              "LDSM", "LDGSTS");
  for (auto& [mangled, k] : kernels) {
    entries += k.entry;
    std::printf("%9d %7d %8d %6d %6d %6d %6d %6d  %s\n", k.registers, k.threads, k.static_shared + k.shared, k.stack,
                k.spills, k.count["HMMA"], k.count["LDSM"], k.count["LDGSTS"], k.name.c_str());
    if (!k.entry) faults.push_back(k.name + ": a function that was not inlined");
    if (k.spills > 0) faults.push_back(k.name + ": " + std::to_string(k.spills) + " bytes of spills");
    if (k.stack > 0 || k.count["LDL"] + k.count["STL"] > 0) faults.push_back(k.name + ": local memory");
    if (k.registers * k.threads > 65536) faults.push_back(k.name + ": more registers than a multiprocessor has");
    if (k.loop.hmma > 0 && k.threads > 0 && resident_warps(k) < 8) {
      faults.push_back(k.name + ": sm_80 has room for " + std::to_string(resident_warps(k)) +
                       " warps of it at a time, not 8");
    }
    if (k.static_shared + k.shared > 163 << 10) faults.push_back(k.name + ": more shared memory than sm_80 has");
  }
  if (entries == 0) faults.push_back("no kernel was compiled");

  std::string const text = read(argv[1]);
  check_budgets(text, kernels, faults);
  check_fewer(text, kernels, faults);
  std::istringstream source(text);
  for (std::string line; std::getline(source, line);) {
    if (!line.starts_with("// expect: ")) continue;
    std::istringstream words(line.substr(11));
    std::string part, instruction;
    words >> part;
    bool found = false;
    while (words >> instruction) {
      if (!opcodes.contains(instruction)) faults.push_back("unknown instruction " + instruction);
      for (auto& [mangled, k] : kernels) {
        if (k.name.find(part) == std::string::npos) continue;
        found = true;
        if (k.count[instruction] == 0) faults.push_back(k.name + ": no " + instruction);
      }
    }
    if (!found) faults.push_back("no kernel is called " + part);
  }
  for (std::string const& fault : faults) std::printf("FAULT: %s\n", fault.c_str());
  return faults.empty() ? 0 : 1;
}
