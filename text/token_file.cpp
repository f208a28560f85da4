#include "levin/text/token_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/files/file_bytes.h"
#include "levin/core/files/file_meant.h"
#include "levin/text/token_format.h"

namespace levin {

namespace fs = std::filesystem;

std::int64_t bytes_of(TokenType type) { return type == TokenType::kUint16 ? 2 : 4; }

fs::path index_of(const fs::path& token_file) { return fs::path(token_file).concat(".index"); }

/// A file's bytes, while it is mapped.
struct TokenFile::Mapping {
  explicit Mapping(const fs::path& path) {
    const Descriptor file = open_plain_file(path);
    if (!file.is_open()) {
      const int error = errno;
      throw IoError(format("'{}' cannot be read: {}{}", path.string(), why_not_opened(error), file_meant(path)));
    }
    struct stat status {};
    if (fstat(file.number(), &status) != 0) {
      throw IoError(format("'{}' cannot be read: {}", path.string(), std::strerror(errno)));
    }
    size = static_cast<std::size_t>(status.st_size);
    if (size == 0) return;
    void* const mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number(), 0);
    if (mapped == MAP_FAILED) {
      throw IoError(format("'{}' cannot be mapped into memory: {}", path.string(), std::strerror(errno)));
    }
    bytes = static_cast<const std::byte*>(mapped);
  }
  ~Mapping() {
    if (bytes != nullptr) munmap(const_cast<std::byte*>(bytes), size);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const std::byte* bytes = nullptr;
  std::size_t size = 0;
};

TokenFile::TokenFile(const fs::path& path, std::optional<TokenType> type)
    : path_(path), file_(std::make_shared<Mapping>(path)), type_(type.value_or(TokenType::kUint16)) {
  tokens_ = file_->bytes;
  read_header(type);
  if (layout_ == TokenLayout::kRaw) size_ = static_cast<std::int64_t>(file_->size) / bytes_of(type_);
  if (fs::exists(index_of(path))) {
    read_index(type);
  } else if (std::string_view(reinterpret_cast<const char*>(file_->bytes), file_->size).starts_with(detail::kNumpyMagic)) {
    fail(
        format("is a NumPy array, whose header would be read as tokens: write its numbers alone, with "
               "numpy.load('{}').astype('{}').tofile('{}')",
               path.string(), choice_name(type_), fs::path(path).replace_extension(".bin").string()));
  } else if (layout_ == TokenLayout::kRaw && static_cast<std::int64_t>(file_->size) % bytes_of(type_) != 0) {
    fail(format("has {} bytes, which is no whole number of tokens of {} bytes", file_->size, bytes_of(type_)));
  }
}

void TokenFile::fail(const std::string& what) const { throw IoError(format("'{}' {}", path_.string(), what)); }

void TokenFile::read_header(std::optional<TokenType> given) {
  if (file_->size < detail::kLlmCHeaderBytes) return;
  detail::LlmCHeader header{};
  std::memcpy(&header, file_->bytes, sizeof header);
  const auto is = [&](const detail::LlmCHeader& known) {
    return header.magic == known.magic && header.version == known.version;
  };
  if (!is(detail::kLlmCUint16) && !is(detail::kLlmCUint32)) return;
  type_ = is(detail::kLlmCUint16) ? TokenType::kUint16 : TokenType::kUint32;
  const std::size_t held = file_->size - detail::kLlmCHeaderBytes;
  if (header.tokens < 0 || static_cast<std::size_t>(header.tokens) * static_cast<std::size_t>(bytes_of(type_)) != held) {
    fail(format("has llm.c's header of {} tokens, and {} bytes of tokens: it was cut off, or is no token file", header.tokens,
                held));
  }
  if (given && *given != type_) {
    throw ConfigError(
        format("'{}' holds {}, as its header says, not {}", path_.string(), choice_name(type_), choice_name(*given)));
  }
  layout_ = TokenLayout::kLlmC;
  tokens_ = file_->bytes + detail::kLlmCHeaderBytes;
  size_ = header.tokens;
}

namespace {

/// Of the beginning and the end of the tokens.
std::uint64_t hash_of(const std::byte* tokens, std::size_t bytes) {
  const std::string_view all(reinterpret_cast<const char*>(tokens), bytes);
  Fnv1aHash hash;
  hash.add(all.substr(0, detail::kHashedBytes));
  hash.add(all.substr(bytes - std::min(bytes, detail::kHashedBytes)));
  return hash.value();
}

}  // namespace

void TokenFile::read_index(std::optional<TokenType> given) {
  const fs::path path = index_of(path_);
  index_ = std::make_shared<Mapping>(path);
  detail::IndexHeader header{};
  const auto refuse = [&](const std::string& what) {
    throw IoError(
        format("'{}' {}: encode the texts again, or remove it to read the tokens without documents", path.string(), what));
  };
  if (index_->size < sizeof header) refuse("is no index of a token file");
  std::memcpy(&header, index_->bytes, sizeof header);
  if (!std::ranges::equal(header.magic, detail::kIndexMagic)) refuse("is no index of a token file");
  if (header.version != detail::kIndexVersion)
    refuse(format("is of version {}, which this levin does not know", header.version));
  const std::size_t held = index_->size - sizeof header;
  if (held % sizeof(std::uint64_t) != 0 || held / sizeof(std::uint64_t) != header.documents) refuse("is damaged");
  if (header.token_bytes != 2 && header.token_bytes != 4) refuse("is damaged");
  const TokenType type = header.token_bytes == 2 ? TokenType::kUint16 : TokenType::kUint32;
  const std::size_t begin = layout_ == TokenLayout::kLlmC ? detail::kLlmCHeaderBytes : 0;
  const std::size_t bytes = file_->size - begin;
  if (bytes % header.token_bytes != 0 || bytes / header.token_bytes != header.tokens ||
      header.hash != hash_of(tokens_, bytes)) {
    refuse(format("is of another file than '{}' is now", path_.string()));
  }
  if (given && *given != type) {
    throw ConfigError(
        format("'{}' holds {}, as its index says, not {}", path_.string(), choice_name(type), choice_name(*given)));
  }
  type_ = type;
  size_ = static_cast<std::int64_t>(header.tokens);
  if (header.vocab_size > 0) vocab_size_ = static_cast<std::int64_t>(std::min<std::uint64_t>(header.vocab_size, 1ULL << 32U));
  documents_ = {reinterpret_cast<const std::uint64_t*>(index_->bytes + sizeof header), header.documents};
  if (!std::ranges::is_sorted(documents_) || (header.documents > 0 && documents_.back() != header.tokens)) refuse("is damaged");
}

std::int64_t TokenFile::operator[](std::int64_t index) const {
  std::int64_t token = 0;
  read(index, {&token, 1});
  return token;
}

void TokenFile::read(std::int64_t begin, std::span<std::int64_t> tokens) const {
  const auto count = static_cast<std::int64_t>(tokens.size());
  if (begin < 0 || count > size_ || begin > size_ - count) {
    throw MisuseError(format("'{}' has {} tokens: {} from {} on are beyond its end", path_.string(), size_, count, begin));
  }
  const auto copy = [&]<class Stored>(Stored) {
    for (std::size_t index = 0; index < tokens.size(); ++index) {
      Stored token;
      std::memcpy(&token, tokens_ + (static_cast<std::size_t>(begin) + index) * sizeof(Stored), sizeof token);
      tokens[index] = token;
    }
  };
  type_ == TokenType::kUint16 ? copy(std::uint16_t{}) : copy(std::uint32_t{});
  if (!vocab_size_) return;
  const auto wrong = std::ranges::find_if(tokens, [&](std::int64_t token) { return token >= *vocab_size_; });
  if (wrong == tokens.end()) return;
  fail(format("has the token {} at {}, and its vocabulary has {}", *wrong, begin + (wrong - tokens.begin()), *vocab_size_));
}

}  // namespace levin
