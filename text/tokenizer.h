#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/base/fwd.h"

namespace levin {

struct UnicodeLibrary;

/// A tokenizer of Hugging Face, read from its tokenizer.json: byte-pair encoding, WordPiece, whole words and unigram, with
/// normalizers, pre-tokenizers, added tokens, post-processors and decoders. It gives the tokens that the library `tokenizers`
/// gives; `truncation` and `padding` of the file are left out, so texts are encoded whole.
/// Threading: any, also at the same time.
///
///     const levin::Tokenizer tokenizer("tokenizer.json");
///     const std::vector<std::int64_t> tokens = tokenizer.encode("Curiouser and curiouser!");
class LEVIN_API Tokenizer {
 public:
  /// Throws IoError for a file that cannot be read, is damaged, or has a part that is not supported, and names that part's path
  /// in the file; ConfigError where this levin was built without tokenizers.
  explicit Tokenizer(const std::filesystem::path& file);
  /// Of the file's text, under a name for messages. Throws the same.
  Tokenizer(std::string_view json, const std::string& name);
  /// The same, with a library that was not loaded on demand.
  Tokenizer(std::string_view json, const std::string& name, const UnicodeLibrary& unicode);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// The tokens of a text in UTF-8. What is not becomes U+FFFD. `special_tokens`: with those that the post-processor puts
  /// around it, such as [CLS]. Throws IoError where the text has a character that the tokenizer lacks, and no unknown token.
  std::vector<std::int64_t> encode(std::string_view text, bool special_tokens = true) const;
  /// The same; appends the tokens to others. Returns how many U+FFFD stand for bytes that are no UTF-8.
  std::int64_t encode_to(std::vector<std::int64_t>& tokens, std::string_view text, bool special_tokens = true) const;
  /// The text of tokens; numbers without a token are left out.
  std::string decode(std::span<const std::int64_t> tokens, bool skip_special_tokens = true) const;

  /// The largest number of a token, and 1.
  std::int64_t vocab_size() const;
  /// The number of a token as the vocabulary has it, "<|endoftext|>" or "Ġthe"; unset for none.
  std::optional<std::int64_t> token_to_id(std::string_view token) const;
  std::optional<std::string> id_to_token(std::int64_t id) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace levin
