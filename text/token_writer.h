#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "levin/core/base/fwd.h"
#include "levin/text/token_file.h"

namespace levin {

struct LEVIN_API TokenWriterOptions {
  std::int64_t vocab_size = 0;         ///< the largest token, and 1; 0: not known
  std::optional<TokenType> type = {};  ///< unset: uint16 where the vocabulary fits into it
  TokenLayout layout = TokenLayout::kRaw;
};

/// Writes a token file and its index, document by document. Both appear when they are whole, in finish(); without it nothing is
/// left. A device or a pipe, as /dev/stdout, gets the tokens at once and no index.
///
///     levin::TokenWriter writer("train.bin", {.vocab_size = tokenizer.vocab_size()});
///     for (const std::string& text : texts) writer.add_document(tokenizer.encode(text));
///     writer.finish();
class LEVIN_API TokenWriter {
 public:
  /// Throws IoError.
  explicit TokenWriter(const std::filesystem::path& path, const TokenWriterOptions& options = {});
  ~TokenWriter();
  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;

  /// Throws IoError, such as on a full disk, and ConfigError for a token that does not fit into the type.
  void add_document(std::span<const std::int64_t> tokens);
  void finish();

  std::int64_t tokens() const;
  std::int64_t documents() const;
  TokenType type() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace levin
