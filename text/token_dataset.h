#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/data/dataset.h"
#include "levin/text/token_file.h"

namespace levin {

/// A part of a file's tokens, from `begin` to before `end`.
struct LEVIN_API TokenRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Where windows of tokens begin.
enum class TokenWindows : std::uint8_t {
  kRandom,       ///< anywhere: a function of seed, epoch and the sample's index alone
  kConsecutive,  ///< one behind another
};

struct LEVIN_API TokenDatasetOptions {
  std::int64_t block_size = 256;  ///< tokens in a sample
  TokenWindows windows = TokenWindows::kRandom;
  std::optional<TokenRange> range = {};  ///< unset: the whole file
};

/// Windows of a token file. Batches have "input" and "target", int64 [N, block_size]; a target is the input's next token. An
/// epoch has as many samples as windows lie one behind another.
///
///     levin::TokenDataset(levin::TokenFile("train.bin"), {.block_size = 1024})
class LEVIN_API TokenDataset final : public Dataset {
 public:
  /// Throws MisuseError for a part that is not in the file, or that has fewer than block_size + 1 tokens.
  explicit TokenDataset(TokenFile tokens, const TokenDatasetOptions& options = {});
  std::int64_t size() const override;
  Batch get_batch(std::span<const std::int64_t> indices) const override;
  std::optional<std::uint64_t> fingerprint() const override;

 private:
  TokenFile tokens_;
  TokenDatasetOptions options_;
  TokenRange range_;
};

struct LEVIN_API PackedTokenOptions {
  std::int64_t block_size = 256;
  /// Where documents end, in tokens from the beginning of the file; empty: as the file's index says.
  std::vector<std::int64_t> document_ends = {};
  std::optional<TokenRange> range = {};  ///< of whole documents; unset: the whole file
};

/// Documents, packed whole into blocks: each into the first that has room, in their order; one that is longer than a block is
/// cut. Batches have, as int64 [N, block_size], "input", "target" (the document's next token; -100 where there is none, which
/// cross entropy leaves out), "position" (from 0 in each part of a document) and "document" (from 0 in each block, -1 where it
/// is empty); and "mask", bool: true where a target counts. A token may attend to those before it with the same "document".
class LEVIN_API PackedTokenDataset final : public Dataset {
 public:
  /// Throws MisuseError for ends that do not grow or are beyond the file, and ConfigError where no document has two tokens.
  explicit PackedTokenDataset(TokenFile tokens, const PackedTokenOptions& options = {});
  std::int64_t size() const override { return std::ssize(first_parts_) - 1; }
  Batch get_batch(std::span<const std::int64_t> indices) const override;
  std::optional<std::uint64_t> fingerprint() const override;

 private:
  /// So many targets of one document, the first of them at begin + 1.
  struct Part {
    std::int64_t begin, length;
  };
  std::vector<Part> parts_of(const PackedTokenOptions& options) const;
  void pack(const std::vector<Part>& parts);

  TokenFile tokens_;
  std::int64_t block_size_;
  std::vector<Part> parts_;                ///< block by block
  std::vector<std::int64_t> first_parts_;  ///< of each block; and the end
};

/// Where documents end that are divided by a token, which is the last of each. Reads the whole part.
LEVIN_API std::vector<std::int64_t> find_document_ends(const TokenFile& tokens, const TokenRange& range,
                                                       std::int64_t end_token);

}  // namespace levin
