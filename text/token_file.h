#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "levin/core/base/fwd.h"
#include "levin/core/config/options.h"

namespace levin {

/// How a token lies in a file.
enum class TokenType : std::uint8_t { kUint16, kUint32 };
template <>
inline constexpr std::array kChoices<TokenType> = {Choice{TokenType::kUint16, "uint16"}, Choice{TokenType::kUint32, "uint32"}};
/// 2 or 4.
LEVIN_API std::int64_t bytes_of(TokenType type);

/// What stands before the tokens: nothing, as nanoGPT has it, or the header of llm.c.
enum class TokenLayout : std::uint8_t { kRaw, kLlmC };
template <>
inline constexpr std::array kChoices<TokenLayout> = {Choice{TokenLayout::kRaw, "raw"}, Choice{TokenLayout::kLlmC, "llm.c"}};

/// A file of tokens, mapped into memory: it may be larger than that. What it is, is found by itself: a file of llm.c by its
/// header; one that `levin tokens encode` wrote by the index beside it, "train.bin.index", which also says where documents end;
/// else its tokens have the given type. Numbers are little-endian. Copies share the mapping. Threading: any.
///
///     const levin::TokenFile tokens("train.bin");
///     std::vector<std::int64_t> first(100);
///     tokens.read(0, first);
class LEVIN_API TokenFile {
 public:
  /// `type`: of a file that does not say its own. Throws IoError for a file that cannot be read, whose size does not fit its
  /// header, its index or the type, and ConfigError for one whose own type is another than the given one.
  explicit TokenFile(const std::filesystem::path& path, std::optional<TokenType> type = {});

  std::int64_t size() const { return size_; }
  TokenType type() const { return type_; }
  TokenLayout layout() const { return layout_; }
  /// The largest number that a token may have, and 1; unset where the file does not say.
  std::optional<std::int64_t> vocab_size() const { return vocab_size_; }
  const std::filesystem::path& path() const { return path_; }

  std::int64_t operator[](std::int64_t index) const;
  /// The tokens from `begin` on. Throws MisuseError beyond the end, and IoError for a token that is not in the vocabulary.
  void read(std::int64_t begin, std::span<std::int64_t> tokens) const;

  bool has_documents() const { return documents_.data() != nullptr; }
  /// Where each document ends, in tokens from the beginning of the file; empty without an index.
  std::span<const std::uint64_t> document_ends() const { return documents_; }

 private:
  struct Mapping;
  void read_header(std::optional<TokenType> given);
  void read_index(std::optional<TokenType> given);
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path path_;
  std::shared_ptr<const Mapping> file_;
  std::shared_ptr<const Mapping> index_;
  const std::byte* tokens_ = nullptr;
  std::int64_t size_ = 0;
  TokenType type_ = TokenType::kUint16;
  TokenLayout layout_ = TokenLayout::kRaw;
  std::optional<std::int64_t> vocab_size_;
  std::span<const std::uint64_t> documents_;
};

/// Where a file's index stands.
LEVIN_API std::filesystem::path index_of(const std::filesystem::path& token_file);

}  // namespace levin
