// SPDX-License-Identifier: MIT
// headmix-gate <source.cu> <log> <cubin>: checks the compiled kernels of a source, without a GPU and without a
// disassembler. It reads the output of ptxas (-v,-warn-spills,-warn-lmem-usage) and the opcodes in the cubin, prints a
// line per kernel, and fails for warnings, spills, local memory, for missing instructions that a line of the source
//
//   // expect: <part of a kernel's name, without spaces> <instruction>[=<how many>] ...
//
// expects, and for main loops (main_loop.hpp) that cost more per HMMA or HGMMA than the line
//
//   // budget: <instructions> <LDSM> <clocks of the shared memory> <part of a kernel's name>
//
// allows; every kernel with such instructions in a loop needs a budget. Kernels with HMMAs must fit at least 8 warps at
// a time; kernels with HGMMAs are for sm_90 alone. All others must fit in the 99 KiB of shared memory per block of
// sm_86, sm_89 and sm_120, except for those, for devices with 163 KiB, with a line
//
//   // large: <part of a kernel's name, without spaces> beside <part of another's>
//
// that names the smaller form for the other devices. With a line
//
//   // fewer: <part of a kernel's name> than <part of another's>
//
// the first must have fewer instructions than the second. An empty kernel sizes<K, threads, bytes, operands> of the
// source has the dynamic shared memory of K and the size of its operands on the host, which must equal the size in the
// cubin.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "cubin.hpp"

namespace {

/// The instructions that are counted in a whole kernel.
std::map<std::string, unsigned> const opcodes = {{"HMMA", opcode::hmma},       {"HGMMA", opcode::hgmma},
                                                 {"UTMALDG", opcode::utmaldg}, {"USETMAXREG", opcode::usetmaxreg},
                                                 {"LDSM", opcode::ldsm},       {"LDGSTS", opcode::ldgsts},
                                                 {"LDL", opcode::ldl},         {"STL", opcode::stl},
                                                 {"REDUX", opcode::redux}};

struct kernel {
  std::string name;
  int registers = 0, stack = 0, spills = 0, static_shared = 0, shared = 0, threads = 0;
  int operands = 0, host_operands = 0;  ///< bytes
  bool entry = false;
  std::map<std::string, int> count;
  int instructions = 0;  ///< without those behind the end
  loop_counts loop;
};

/// Whether the name, without spaces, has one of the parts in it.
bool has_part(std::string name, std::vector<std::string> const& parts) {
  std::erase(name, ' ');
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string const& part) { return name.find(part) != std::string::npos; });
}

/// The output of ptxas, by mangled name.
std::map<std::string, kernel> read_log(std::string const& log, std::vector<std::string>& faults) {
  std::regex const function("Function properties for (\\S+)"), entry("Compiling entry function '(\\S+)' for 'sm_\\d+"),
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

/// Counts the instructions of every kernel of a cubin.
void count_instructions(std::string const& elf, std::map<std::string, kernel>& kernels) {
  for (compiled_kernel const& compiled : cubin(elf).kernels()) {
    auto const found = kernels.find(compiled.mangled);
    if (found == kernels.end()) continue;
    found->second.operands = compiled.operand_bytes;
    int position = 0;
    for (instruction const& i : compiled.code) {
      ++position;
      for (auto const& [name_of, bits] : opcodes) found->second.count[name_of] += i.operation() == bits;
      if (i.operation() != opcode::nop) found->second.instructions = position;
    }
    found->second.loop = main_loop(compiled.code, compiled.architecture);
  }
}

/// Removes the kernels that only tell sizes, and adds what they tell.
void take_sizes(std::map<std::string, kernel>& kernels) {
  std::regex const sizes("sizes<(.*), ([0-9]+), ([0-9]+), ([0-9]+)>$");
  for (auto at = kernels.begin(); at != kernels.end();) {
    std::smatch m;
    if (!std::regex_search(at->second.name, m, sizes)) {
      ++at;
      continue;
    }
    for (auto& [mangled, k] : kernels) {
      if (!k.name.ends_with(", " + m[1].str() + ">")) continue;
      k.threads = std::stoi(m[2]), k.shared = std::stoi(m[3]), k.host_operands = std::stoi(m[4]);
    }
    at = kernels.erase(at);
  }
}

/// Warps that a multiprocessor of compute capability 8.0 has at a time, with its 164 KiB of shared memory.
int resident_warps(kernel const& k) {
  return resident_blocks(164 << 10, k.static_shared + k.shared, k.registers, k.threads) * k.threads / 32;
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
    if (k.loop.products == 0) continue;
    double const found[] = {k.loop.per_product(k.loop.instructions), k.loop.per_product(k.loop.ldsm),
                            k.loop.per_product(k.loop.shared_clocks)};
    if (first)
      std::printf("\nmain loops\n%8s %12s %6s | %12s %6s %6s for each product\n", "products", units[0], "LDSM",
                  units[0], "LDSM", "clocks");
    first = false;
    std::printf("%8d %12d %6d | %12.3f %6.3f %6.3f  %s\n", k.loop.products, k.loop.instructions, k.loop.ldsm, found[0],
                found[1], found[2], k.name.c_str());
    bool has_one = false;
    for (budget& b : budgets) {
      if (k.name.find(b.part) == std::string::npos) continue;
      has_one = b.used = true;
      for (int i = 0; i < 3; ++i) {
        if (found[i] <= b.most[i]) continue;
        char numbers[96];
        std::snprintf(numbers, sizeof numbers, ": over budget: %.3f %s for each product, at most %.3f", found[i],
                      units[i], b.most[i]);
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

/// The names of kernels behind "// large: ", without spaces. Adds a fault where the one beside it is not there.
std::vector<std::string> find_large(std::string const& text, std::map<std::string, kernel> const& kernels,
                                    std::vector<std::string>& faults) {
  std::vector<std::string> large;
  std::regex const line_of_pair("// large: (\\S+) beside (\\S+)");
  std::istringstream source(text);
  for (std::string line; std::getline(source, line);) {
    std::smatch m;
    if (!std::regex_match(line, m, line_of_pair)) continue;
    large.push_back(m[1]);
    for (std::string const& part : {m[1].str(), m[2].str()}) {
      bool const found =
          std::any_of(kernels.begin(), kernels.end(), [&](auto const& k) { return has_part(k.second.name, {part}); });
      if (!found) faults.push_back("no kernel is called " + part);
    }
  }
  return large;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: headmix-gate <source.cu> <log> <cubin>\n", stderr);
    return 2;
  }
  std::vector<std::string> faults;
  std::map<std::string, kernel> kernels = read_log(read_file(argv[2]), faults);
  count_instructions(read_file(argv[3]), kernels);
  take_sizes(kernels);

  std::string const text = read_file(argv[1]);
  std::vector<std::string> const large = find_large(text, kernels, faults);
  int entries = 0;
  std::printf("%9s %7s %8s %6s %6s %6s %6s %6s %6s  kernel\n", "registers", "threads", "shared", "stack", "spills",
              "HMMA", "HGMMA", "LDSM", "LDGSTS");
  for (auto& [mangled, k] : kernels) {
    entries += k.entry;
    std::printf("%9d %7d %8d %6d %6d %6d %6d %6d %6d  %s\n", k.registers, k.threads, k.static_shared + k.shared,
                k.stack, k.spills, k.count["HMMA"], k.count["HGMMA"], k.count["LDSM"], k.count["LDGSTS"],
                k.name.c_str());
    bool const of_warpgroups = k.count["HGMMA"] > 0;
    if (!k.entry) faults.push_back(k.name + ": a function that was not inlined");
    if (k.spills > 0) faults.push_back(k.name + ": " + std::to_string(k.spills) + " bytes of spills");
    if (k.stack > 0 || k.count["LDL"] + k.count["STL"] > 0) faults.push_back(k.name + ": local memory");
    if (k.registers * k.threads > 65536) faults.push_back(k.name + ": more registers than a multiprocessor has");
    if (k.loop.products > 0 && k.threads > 0 && !of_warpgroups && resident_warps(k) < 8) {
      faults.push_back(k.name + ": sm_80 has room for " + std::to_string(resident_warps(k)) +
                       " warps of it at a time, not 8");
    }
    bool const has_small_form = has_part(k.name, large);
    if (k.static_shared + k.shared > (of_warpgroups ? 227 : has_small_form ? 163 : 99) << 10) {
      faults.push_back(k.name + ": more shared memory than " +
                       (of_warpgroups    ? "sm_90"
                        : has_small_form ? "sm_80"
                                         : "sm_86") +
                       " has");
    }
    if (k.host_operands > 0 && k.operands != k.host_operands) {
      faults.push_back(k.name + ": " + std::to_string(k.operands) + " bytes of operands, and " +
                       std::to_string(k.host_operands) + " on the host");
    }
  }
  if (entries == 0) faults.push_back("no kernel was compiled");

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
      std::size_t const equals = instruction.find('=');
      int const wanted = equals == std::string::npos ? 0 : std::stoi(instruction.substr(equals + 1));
      instruction.resize(equals == std::string::npos ? instruction.size() : equals);
      if (!opcodes.contains(instruction)) faults.push_back("unknown instruction " + instruction);
      for (auto& [mangled, k] : kernels) {
        std::string name = k.name;
        std::erase(name, ' ');
        if (name.find(part) == std::string::npos) continue;
        found = true;
        int const count = k.count[instruction];
        if (count == 0) faults.push_back(k.name + ": no " + instruction);
        if (wanted != 0 && count != wanted) {
          faults.push_back(k.name + ": " + std::to_string(count) + " " + instruction + ", expected " +
                           std::to_string(wanted));
        }
      }
    }
    if (!found) faults.push_back("no kernel is called " + part);
  }
  for (std::string const& fault : faults) std::printf("FAULT: %s\n", fault.c_str());
  return faults.empty() ? 0 : 1;
}
