#include "levin/text/encode_corpus.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/text/corpus_reader.h"
#include "levin/text/token_writer.h"

namespace levin {
namespace {

/// Documents that are encoded together, and their tokens.
struct Round {
  std::vector<detail::Document> documents;
  std::vector<std::vector<std::int64_t>> tokens;
  std::int64_t replaced = 0;
};

class CorpusEncoder {
 public:
  CorpusEncoder(const Tokenizer& tokenizer, const CorpusOptions& options)
      : tokenizer_(tokenizer), options_(options), reader_(options_.files, options_.json_field) {
    for (const std::filesystem::path& file : options_.files) {
      std::error_code none;
      if (!std::filesystem::equivalent(file, options_.output, none)) continue;
      throw ConfigError(format("--output: '{}' is one of the files that are encoded: name another", options_.output.string()));
    }
    if (options_.append_token.empty()) return;
    appended_ = tokenizer.token_to_id(options_.append_token);
    if (!appended_) {
      throw ConfigError(format("append_token: the tokenizer has no token {}", quoted_text(options_.append_token)));
    }
  }

  EncodedCorpus encode() {
    EncodedCorpus result;
    TokenWriter writer(options_.output,
                       {.vocab_size = tokenizer_.vocab_size(), .type = options_.type, .layout = options_.layout});
    result.type = writer.type();
    for (Round round = read_round(); !round.documents.empty(); round = read_round()) {
      encode_round(round);
      for (const std::vector<std::int64_t>& tokens : round.tokens) writer.add_document(tokens);
      result.replaced += round.replaced;
      result.progress = {reader_.bytes(), writer.documents(), writer.tokens(), reader_.files_read()};
      if (options_.on_progress && !options_.on_progress(result.progress)) return result;
    }
    writer.finish();
    result.is_whole = true;
    return result;
  }

 private:
  /// So much text that threads are not waited for often, and that memory does not notice.
  Round read_round() {
    constexpr std::size_t kBytes = std::size_t{8} << 20U;
    Round round;
    std::size_t bytes = 0;
    while (bytes < kBytes) {
      std::optional<detail::Document> document = reader_.next();
      if (!document) break;
      bytes += document->text.size() + 100;
      round.documents.push_back(*std::move(document));
    }
    round.tokens.resize(round.documents.size());
    return round;
  }

  void encode_round(Round& round) const {
    std::atomic<std::size_t> next = 0;
    std::atomic<std::int64_t> replaced = 0;
    std::mutex mutex;
    std::exception_ptr failure;
    const auto work = [&] {
      for (std::size_t index = next++; index < round.documents.size(); index = next++) {
        try {
          replaced += encode_document(round.documents[index], round.tokens[index]);
        } catch (...) {
          const std::lock_guard lock(mutex);
          if (!failure) failure = std::current_exception();
          next = round.documents.size();
        }
      }
    };
    const int wanted = options_.threads > 0 ? options_.threads : usable_cores();
    const std::size_t count = std::min(static_cast<std::size_t>(wanted), round.documents.size());
    {
      std::vector<std::jthread> others;
      for (std::size_t thread = 1; thread < count; ++thread) others.emplace_back(work);
      work();
    }
    if (failure) std::rethrow_exception(failure);
    round.replaced = replaced;
  }

  std::int64_t encode_document(detail::Document& document, std::vector<std::int64_t>& tokens) const {
    std::int64_t replaced = document.replaced;
    try {
      replaced += tokenizer_.encode_to(tokens, document.text, options_.special_tokens);
    } catch (const IoError& error) {
      throw IoError(format("{}: {}", document.place, error.what()));
    }
    if (appended_) tokens.push_back(*appended_);
    document.text = {};
    return replaced;
  }

  const Tokenizer& tokenizer_;
  const CorpusOptions& options_;
  detail::CorpusReader reader_;
  std::optional<std::int64_t> appended_;
};

}  // namespace

EncodedCorpus encode_corpus(const Tokenizer& tokenizer, const CorpusOptions& options) {
  return CorpusEncoder(tokenizer, options).encode();
}

}  // namespace levin
