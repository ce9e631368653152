// SPDX-License-Identifier: MIT
// headmix-gate <source.cu> <log> <cubin>: what nvcc made of the kernels of a source, without a GPU and without a
// disassembler. Reads what ptxas said (-v,-warn-spills,-warn-lmem-usage) and the opcodes in the cubin, prints a line
// per kernel, and fails for warnings, spills, local memory, and instructions that are missing where a line of the
// source
//
//   // expect: <part of a kernel's name> <instruction> ...
//
// says they belong. An empty kernel sizes<K, threads, bytes> of the source tells the dynamic shared memory of K.

#include <cxxabi.h>

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

namespace {

/// The low nine bits of an instruction say what it does, the three above them where its operands come from.
std::map<std::string, unsigned> const opcodes = {
    {"HMMA", 0x03C}, {"LDSM", 0x03B}, {"LDGSTS", 0x1AE}, {"LDL", 0x183}, {"STL", 0x187}};
/// 16 bytes each, from compute capability 7.0 on.
constexpr std::size_t instruction_bytes = 16;

struct kernel {
  std::string name;
  int registers = 0, stack = 0, spills = 0, static_shared = 0, shared = 0, threads = 0;
  bool entry = false;
  std::map<std::string, int> count;
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
  std::regex const function("Function properties for (\\S+)"), entry("Compiling entry function '(\\S+)' for"),
      frame("(\\d+) bytes stack frame, (\\d+) bytes spill stores, (\\d+) bytes spill loads"),
      registers("Used (\\d+) registers"), shared("(\\d+) bytes smem"), serious("[Ww]arning|error|C75[0-9][0-9]");
  std::map<std::string, kernel> kernels;
  std::string current, compiled;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    std::smatch m;
    if (std::regex_search(line, serious)) faults.push_back(line);
    if (std::regex_search(line, m, entry)) compiled = m[1], kernels[compiled].entry = true;
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
    for (std::uint64_t at = begin; at < begin + size; at += instruction_bytes) {
      unsigned const code = number<std::uint16_t>(elf, at) & 0x1FFu;
      for (auto const& [instruction, bits] : opcodes) found->second.count[instruction] += code == bits;
    }
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
    if (k.static_shared + k.shared > 163 << 10) faults.push_back(k.name + ": more shared memory than sm_80 has");
  }
  if (entries == 0) faults.push_back("no kernel was compiled");

  std::istringstream source(read(argv[1]));
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
