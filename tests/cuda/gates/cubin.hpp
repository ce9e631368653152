#pragma once
// SPDX-License-Identifier: MIT
// The kernels in a cubin of nvcc, parsed without tools of CUDA.

#include <cxxabi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "main_loop.hpp"

/// The bytes of a file; without it the program ends with status 2.
inline std::string read_file(char const* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path);
    std::exit(2);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

/// "void headmix::cuda_kernels::run<headmix::cuda_kernels::sm80<headmix::cuda_kernels::build<100, 800> >,
/// headmix::cuda_kernels::gemm<float> >(headmix::cuda_kernels::gemm<float>)" -> "run<sm80<build<100, 800>>, gemm<float>>"
inline std::string readable(std::string const& mangled) {
  auto const replace_all = [](std::string& text, std::string const& from, std::string const& to) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
      text.replace(at, from.size(), to);
    }
  };
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
  replace_all(name, "headmix::cuda_kernels::", "");
  replace_all(name, "headmix::", "");
  replace_all(name, "> >", ">>");
  replace_all(name, "> >", ">>");
  return name;
}

/// A section .text.<kernel> of a cubin.
struct compiled_kernel {
  std::string mangled;
  int architecture = 0;  ///< 80 for sm_80
  int registers = 0;     ///< of a thread
  int operand_bytes = 0;
  std::vector<instruction> code;
};

/// The kernels of a cubin, an ELF file of 64 bits.
class cubin {
 public:
  explicit cubin(std::string const& bytes) : bytes_(bytes) {
    if (!bytes.starts_with("\177ELF\2")) {
      std::fputs("the cubin is no ELF file of 64 bits\n", stderr);
      std::exit(2);
    }
  }

  [[nodiscard]] std::vector<compiled_kernel> kernels() const {
    auto const sections = number<std::uint16_t>(0x3C);
    std::map<std::uint32_t, int> registers;  // by the number of the kernel's symbol
    std::map<std::string, int> operand_bytes;
    for (unsigned i = 0; i < sections; ++i) {
      std::string const name = section_name(i);
      each_attribute(i, name, [&](unsigned attribute, std::uint64_t at) {
        if (name == ".nv.info" && attribute == 0x2F) registers[number<std::uint32_t>(at + 4)] = number<int>(at + 8);
        if (name != ".nv.info" && attribute == 0x17) operand_bytes[name.substr(9)] = number<int>(at + 12) >> 18;
      });
    }
    std::vector<compiled_kernel> found;
    for (unsigned i = 0; i < sections; ++i) {
      std::string const name = section_name(i);
      if (!name.starts_with(".text.")) continue;
      compiled_kernel& k = found.emplace_back();
      k.mangled = name.substr(6);
      k.architecture = static_cast<int>(number<std::uint32_t>(0x30) >> 8 & 0xFF);
      k.registers = registers[number<std::uint32_t>(header(i) + 0x2C) & 0xFFFFFF];
      k.operand_bytes = operand_bytes[k.mangled];
      auto const begin = number<std::uint64_t>(header(i) + 0x18), size = number<std::uint64_t>(header(i) + 0x20);
      for (std::uint64_t at = begin; at < begin + size; at += instruction::bytes) {
        k.code.push_back({number<std::uint64_t>(at), number<std::uint64_t>(at + 8)});
      }
    }
    return found;
  }

 private:
  template <class T>
  [[nodiscard]] T number(std::uint64_t at) const {
    T value{};
    if (at > bytes_.size() || bytes_.size() - at < sizeof(T)) {
      std::fputs("the cubin is cut short\n", stderr);
      std::exit(2);
    }
    std::memcpy(&value, bytes_.data() + at, sizeof(T));
    return value;
  }
  [[nodiscard]] std::uint64_t header(unsigned i) const {
    return number<std::uint64_t>(0x28) + std::uint64_t{i} * number<std::uint16_t>(0x3A);
  }
  [[nodiscard]] std::string section_name(unsigned i) const {
    auto const names = number<std::uint64_t>(header(number<std::uint16_t>(0x3E)) + 0x18);
    return bytes_.c_str() + names + number<std::uint32_t>(header(i));
  }
  /// Section .nv.info, and those of kernels behind whose names theirs stand, are lists of attributes: format and name,
  /// a byte each, and two bytes that are its value or, in format 4, the length of what follows. Attribute 0x2F has the
  /// number of a symbol and the registers of its kernel, 0x17 where a kernel's operand lies and, from bit 18 of its
  /// third word on, how many bytes it has.
  template <class F>
  void each_attribute(unsigned section, std::string const& name, F const& f) const {
    if (name != ".nv.info" && !name.starts_with(".nv.info.")) return;
    auto at = number<std::uint64_t>(header(section) + 0x18);
    std::uint64_t const end = at + number<std::uint64_t>(header(section) + 0x20);
    while (at < end) {
      f(number<std::uint8_t>(at + 1), at);
      at += 4 + (number<std::uint8_t>(at) == 4 ? std::uint64_t{number<std::uint16_t>(at + 2)} : 0);
    }
  }

  std::string const& bytes_;
};

/// Blocks of a kernel that a multiprocessor has at a time: of its shared memory each takes 1 KiB more than it asks for,
/// registers are given out by eights, and there are no more than 2048 threads.
inline int resident_blocks(int shared_of_all, int shared, int registers, int threads) {
  int const by_shared = shared_of_all / (shared + (1 << 10));
  int const by_registers = 65536 / ((registers + 7) / 8 * 8 * threads);
  return std::min({by_shared, by_registers, 2048 / threads});
}
