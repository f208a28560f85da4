#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <iostream>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <system_error>
#include <vector>

#include "levin/cli/commands/subcommands.h"
#include "levin/cli/sweep/awaited_signals.h"
#include "levin/core/base/amounts.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/console/terminal.h"
#include "levin/core/files/paths.h"
#include "levin/data/input_file.h"
#include "levin/text/encode_corpus.h"
#include "levin/text/token_file.h"
#include "levin/text/tokenizer.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// What stands behind `levin tokens`.
struct TokensOptions {
  int (*action)(const TokensOptions&) = nullptr;
  CorpusOptions corpus;
  fs::path tokenizer;
  std::string dtype = "auto";
  std::string layout = "raw";
  fs::path file;  ///< of info
};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Bytes of all files; unset where one of them is compressed or a pipe.
std::optional<double> size_of(const std::vector<fs::path>& files) {
  double bytes = 0;
  for (const fs::path& file : files) {
    std::error_code error;
    if (without_compression_ending(file) != file || !fs::is_regular_file(file, error)) return std::nullopt;
    bytes += static_cast<double>(fs::file_size(file, error));
  }
  return bytes;
}

/// The line of a terminal that shows how far an encoding is.
class EncodingLine {
 public:
  explicit EncodingLine(const std::vector<fs::path>& files) : total_(size_of(files)) {}
  ~EncodingLine() {
    if (is_drawn_) write_whole(STDERR_FILENO, "\r\x1b[K");
  }
  EncodingLine(const EncodingLine&) = delete;
  EncodingLine& operator=(const EncodingLine&) = delete;

  void draw(const CorpusProgress& progress) {
    if (!terminal_redraws(STDERR_FILENO)) return;
    const auto bytes = static_cast<double>(progress.bytes);
    std::string line;
    if (total_ && *total_ > 0) {
      constexpr int kBarWidth = 24;
      const double fraction = std::min(bytes / *total_, 1.0);
      line = format("{:3.0f}%|{}| ", 100 * fraction, progress_bar(fraction, kBarWidth, locale_is_utf8()));
    }
    const double seconds = seconds_since(begin_);
    line += format("{}, {} documents, {} tokens, {}/s", bytes_text(bytes), progress.documents, progress.tokens,
                   bytes_text(bytes / std::max(seconds, 0.001)));
    const auto width = static_cast<std::size_t>(terminal_width(STDERR_FILENO));
    write_whole(STDERR_FILENO, format("\r{}\x1b[K", fit_to_width(line, width - 1)));
    is_drawn_ = true;
  }

 private:
  std::optional<double> total_;
  Clock::time_point begin_ = Clock::now();
  bool is_drawn_ = false;
};

/// What a thread reports and another shows.
class SharedProgress {
 public:
  void set(const CorpusProgress& progress) {
    const std::lock_guard lock(mutex_);
    progress_ = progress;
  }
  CorpusProgress get() const {
    const std::lock_guard lock(mutex_);
    return progress_;
  }

 private:
  mutable std::mutex mutex_;
  CorpusProgress progress_;
};

/// Removes what this process was about to write.
void remove_own_temporaries(const fs::path& folder) {
  const std::string beginning = format(".levin-{}-", getpid());
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename().string().starts_with(beginning)) fs::remove(entry->path(), error);
  }
}

/// Encodes in a thread, since neither a text of gigabytes nor a pipe is waited for once a signal has come.
EncodedCorpus encode_until_signal(const Tokenizer& tokenizer, CorpusOptions options) {
  const AwaitedSignals signals({SIGINT, SIGTERM, SIGHUP});
  SharedProgress progress;
  options.on_progress = [&](const CorpusProgress& now) {
    progress.set(now);
    return true;
  };
  EncodingLine line(options.files);
  auto encoded = std::async(std::launch::async, [&] { return encode_corpus(tokenizer, options); });
  while (encoded.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
    if (const int signal = signals.pending_except(0); signal != 0) {
      remove_own_temporaries(folder_of(options.output));
      std::cerr << format("levin: interrupted: '{}' was not written\n", options.output.string());
      end_process(128 + signal);
    }
    line.draw(progress.get());
  }
  return encoded.get();
}

int encode(const TokensOptions& options) {
  CorpusOptions corpus = options.corpus;
  if (options.dtype != "auto") corpus.type = choice_of<TokenType>(options.dtype);
  corpus.layout = *choice_of<TokenLayout>(options.layout);
  std::error_code none;
  if (fs::equivalent(options.tokenizer, corpus.output, none))
    throw ConfigError(format("--output: '{}' is the tokenizer: name another file", corpus.output.string()));
  const Tokenizer tokenizer(options.tokenizer);
  const Clock::time_point begin = Clock::now();
  const EncodedCorpus encoded = encode_until_signal(tokenizer, corpus);
  const double seconds = seconds_since(begin);
  const CorpusProgress& progress = encoded.progress;
  std::error_code error;
  std::ostream& to = fs::is_regular_file(corpus.output, error) ? std::cout : std::cerr;
  to << format("{}: {} of {}, {} ({}) in {}\n", one_line(corpus.output.string()),
               counted(static_cast<std::size_t>(progress.tokens), "token"),
               counted(static_cast<std::size_t>(progress.documents), "document"), choice_name(encoded.type),
               bytes_text(static_cast<double>(progress.bytes)), seconds_text(seconds));
  if (encoded.replaced > 0) {
    std::cerr << format("levin: warning: {} of the texts were no UTF-8, and became U+FFFD\n",
                        counted(static_cast<std::size_t>(encoded.replaced), "place"));
  }
  return 0;
}

void show_documents(std::span<const std::uint64_t> ends) {
  std::uint64_t longest = 0;
  std::uint64_t begin = 0;
  for (const std::uint64_t end : ends) {
    longest = std::max(longest, end - begin);
    begin = end;
  }
  std::cout << format("documents   {}, {:.1f} tokens long on average, {} at most\n", ends.size(),
                      ends.empty() ? 0.0 : static_cast<double>(ends.back()) / static_cast<double>(ends.size()), longest);
}

int info(const TokensOptions& options) {
  std::optional<TokenType> type;
  if (options.dtype != "auto") type = choice_of<TokenType>(options.dtype);
  const TokenFile file(options.file, type);
  std::cout << format("tokens      {}\ntype        {}\nlayout      {}\n", file.size(), choice_name(file.type()),
                      choice_name(file.layout()));
  if (file.vocab_size()) std::cout << format("vocabulary  {}\n", *file.vocab_size());
  if (file.has_documents()) show_documents(file.document_ends());
  if (options.tokenizer.empty()) return 0;
  constexpr std::int64_t kShown = 100;
  std::vector<std::int64_t> first(static_cast<std::size_t>(std::min(file.size(), kShown)));
  file.read(0, first);
  std::cout << format("\n{}\n", printable(Tokenizer(options.tokenizer).decode(first, /*skip_special_tokens=*/false)));
  return 0;
}

void declare_encode(CLI::App& app, TokensOptions& options) {
  app.callback([&options] { options.action = encode; });
  constexpr int kMostFiles = 1'000'000;
  app.add_option("files", options.corpus.files,
                 "Texts, each a document; .jsonl and .ndjson: JSON lines, each with a document; .gz and .zst; pipes, such as "
                 "/dev/stdin")
      ->required()
      ->expected(1, kMostFiles)
      ->type_name("FILE");
  app.add_option("-t,--tokenizer", options.tokenizer, "Hugging Face's tokenizer.json")->required()->type_name("FILE");
  app.add_option("-o,--output", options.corpus.output, "The token file; train.bin.index beside it says where documents end")
      ->required()
      ->type_name("FILE");
  app.add_option("--append-token", options.corpus.append_token, "Token behind each document, such as '<|endoftext|>'")
      ->type_name("TOKEN");
  app.add_option("--json-field", options.corpus.json_field, "Files are JSON lines, with the text under this name")
      ->type_name("NAME");
  app.add_flag("--special-tokens", options.corpus.special_tokens,
               "With the tokens that the tokenizer puts around a text, such as [CLS] and [SEP]");
  app.add_option("--dtype", options.dtype, "Type of the tokens; auto: uint16 where the vocabulary fits into it")
      ->check(CLI::IsMember({"auto", "uint16", "uint32"}))
      ->capture_default_str();
  app.add_option("--layout", options.layout, "raw: as nanoGPT has it; llm.c: with its header")
      ->check(CLI::IsMember({"raw", "llm.c"}))
      ->capture_default_str();
  app.add_option("--threads", options.corpus.threads, "Documents that are encoded at once; 0: one for each core")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}

void declare_info(CLI::App& app, TokensOptions& options) {
  app.callback([&options] { options.action = info; });
  app.add_option("file", options.file, "The token file")->required();
  app.add_option("-t,--tokenizer", options.tokenizer, "Also show the text that it begins with")->type_name("FILE");
  app.add_option("--dtype", options.dtype, "Type of the tokens, of a file that does not say it")
      ->check(CLI::IsMember({"auto", "uint16", "uint32"}))
      ->capture_default_str();
}

}  // namespace

Subcommand tokens_subcommand() {
  const auto options = std::make_shared<TokensOptions>();
  return {"tokens", "Encode texts into a token file, and show what one holds",
          [options](CLI::App& app) {
            app.require_subcommand(1);
            declare_encode(*app.add_subcommand("encode", "Encode texts into a token file"), *options);
            declare_info(*app.add_subcommand("info", "What a token file holds"), *options);
          },
          [options](const CommandLine&) { return options->action(*options); }};
}

}  // namespace levin::cli
