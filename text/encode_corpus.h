#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/text/token_file.h"
#include "levin/text/tokenizer.h"

namespace levin {

/// How far an encoding is.
struct LEVIN_API CorpusProgress {
  std::int64_t bytes = 0;  ///< of texts, decompressed
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
  std::size_t files = 0;  ///< read to their end
};

struct LEVIN_API CorpusOptions {
  std::vector<std::filesystem::path> files = {};
  std::filesystem::path output = {};
  /// A file is one document, or with this has a JSON object in each line, of which this member is the text. Files whose names
  /// end in .jsonl or .ndjson (also .gz, .zst) are read so without it, with "text".
  std::string json_field = {};
  std::string append_token = {};  ///< put behind each document, as "<|endoftext|>"; empty: none
  bool special_tokens = false;    ///< with those of the post-processor
  std::optional<TokenType> type = {};
  TokenLayout layout = TokenLayout::kRaw;
  int threads = 0;  ///< 0: one for each core
  /// Called now and then by the calling thread; false ends the encoding with nothing written.
  std::function<bool(const CorpusProgress&)> on_progress = {};
};

struct LEVIN_API EncodedCorpus {
  CorpusProgress progress;
  TokenType type = TokenType::kUint16;
  std::int64_t replaced = 0;  ///< places that were no UTF-8, and are U+FFFD
  bool is_whole = false;      ///< false: on_progress ended it
};

/// Encodes text files into a token file, on several threads; its documents are in the order of the files, whatever the threads
/// do. Files may be compressed (gzip, zstd), and pipes; a document has to fit into memory, the whole need not. The output
/// appears when it is whole. Throws IoError for what cannot be read or written, ConfigError for a token that the tokenizer
/// lacks.
LEVIN_API EncodedCorpus encode_corpus(const Tokenizer& tokenizer, const CorpusOptions& options);

}  // namespace levin
