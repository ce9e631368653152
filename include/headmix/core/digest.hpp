#pragma once
// SPDX-License-Identifier: MIT
// FNV-1a digests: detect accidental differences, not deliberate ones.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace headmix::detail {

inline constexpr std::uint64_t fnv1a_basis = 0xCBF29CE484222325u;  ///< the digest of nothing
/// The digest `before` extended by a word, byte by byte, as FNV-1a is published.
[[nodiscard]] constexpr std::uint64_t fnv1a(std::uint64_t before, std::uint64_t word) {
  return (before ^ word) * 0x100000001B3u;
}

/// The digest `before` extended by these bytes: by words of 8 bytes, then by the remaining bytes.
inline std::uint64_t digest_of(std::span<std::byte const> bytes, std::uint64_t before = fnv1a_basis) {
  std::uint64_t digest = fnv1a(before, bytes.size());
  for (; bytes.size() >= sizeof(std::uint64_t); bytes = bytes.subspan(sizeof(std::uint64_t))) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    digest = fnv1a(digest, word);
  }
  for (std::byte const byte : bytes) digest = fnv1a(digest, static_cast<std::uint64_t>(byte));
  return digest;
}
inline std::uint64_t digest_of(std::string_view text, std::uint64_t before = fnv1a_basis) {
  return digest_of(std::as_bytes(std::span<char const>(text.data(), text.size())), before);
}

}  // namespace headmix::detail
