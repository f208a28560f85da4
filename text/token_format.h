#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace levin::detail {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

/// What a file of llm.c begins with: 256 numbers of 32 bits, of which three count.
struct LlmCHeader {
  std::int32_t magic;
  std::int32_t version;
  std::int32_t tokens;
};
inline constexpr std::size_t kLlmCHeaderBytes = 1024;
inline constexpr LlmCHeader kLlmCUint16 = {20240520, 1, 0};  // of GPT-2's tokens
inline constexpr LlmCHeader kLlmCUint32 = {20240801, 7, 0};  // of Llama 3's

/// What NumPy's files begin with, in any version.
inline constexpr std::string_view kNumpyMagic = "\x93NUMPY";

/// What an index begins with; behind it the ends of documents, numbers of 64 bits.
struct IndexHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t token_bytes;  ///< 2 or 4
  std::uint64_t vocab_size;   ///< 0: not known
  std::uint64_t tokens;       ///< in the file beside it
  std::uint64_t documents;
  std::uint64_t hash;  ///< of the first and last tokens, so that another file of that size is found out
};
inline constexpr char kIndexMagic[8] = {'L', 'E', 'V', 'T', 'O', 'K', 'E', 'N'};
inline constexpr std::uint32_t kIndexVersion = 1;

/// Bytes at the beginning and the end of the tokens that the hash is of.
inline constexpr std::size_t kHashedBytes = 4096;

}  // namespace levin::detail
