#pragma once
// SPDX-License-Identifier: MIT
// A number that tells whether several processes have the same.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace headmix::detail {

/// The digest of what `before` is the digest of, and of these bytes: FNV-1a of words of 8 bytes, and of the bytes left
/// over. Against accidents, not against anybody who tries.
inline std::uint64_t digest_of(std::span<std::byte const> bytes, std::uint64_t before = 0xCBF29CE484222325u) {
  constexpr std::uint64_t prime = 0x100000001B3u;
  std::uint64_t digest = (before ^ bytes.size()) * prime;
  for (; bytes.size() >= sizeof(std::uint64_t); bytes = bytes.subspan(sizeof(std::uint64_t))) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    digest = (digest ^ word) * prime;
  }
  for (std::byte const byte : bytes) digest = (digest ^ static_cast<std::uint64_t>(byte)) * prime;
  return digest;
}
inline std::uint64_t digest_of(std::string_view text, std::uint64_t before) {
  return digest_of(std::as_bytes(std::span(text)), before);
}

}  // namespace headmix::detail
