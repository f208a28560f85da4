#include "levin/text/token_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/files/atomic_file.h"
#include "levin/text/token_format.h"

namespace levin {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kUint16End = 1 << 16;

TokenType type_for(const TokenWriterOptions& options) {
  if (options.type) return *options.type;
  return options.vocab_size > kUint16End ? TokenType::kUint32 : TokenType::kUint16;
}

bool is_file(const fs::path& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  return type == fs::file_type::regular || type == fs::file_type::not_found;
}

}  // namespace

struct TokenWriter::State {
  State(const fs::path& place, const TokenWriterOptions& given)
      : path(place), options(given), type(type_for(given)), has_index(is_file(place)), file(place) {
    if (options.layout != TokenLayout::kLlmC) return;
    if (!has_index) throw ConfigError(format("'{}' is no file, and llm.c's header is written last", path.string()));
    file.write(std::string(detail::kLlmCHeaderBytes, '\0'));
  }

  void flush() {
    file.write(buffer);
    buffer.clear();
  }
  /// Remembers the bytes that the index has a hash of.
  void note(std::string_view bytes);
  void write_header();
  void write_index();

  fs::path path;
  TokenWriterOptions options;
  TokenType type;
  bool has_index;
  AtomicFile file;
  std::string buffer;
  std::string first, last;  ///< kHashedBytes at most, of all bytes of tokens
  std::int64_t tokens = 0;
  std::vector<std::uint64_t> ends;
};

TokenWriter::TokenWriter(const fs::path& path, const TokenWriterOptions& options)
    : state_(std::make_unique<State>(path, options)) {}
TokenWriter::~TokenWriter() = default;

void TokenWriter::State::note(std::string_view bytes) {
  if (first.size() < detail::kHashedBytes) first.append(bytes.substr(0, detail::kHashedBytes - first.size()));
  last.append(bytes.substr(bytes.size() - std::min(bytes.size(), detail::kHashedBytes)));
  if (last.size() > detail::kHashedBytes) last.erase(0, last.size() - detail::kHashedBytes);
}

void TokenWriter::add_document(std::span<const std::int64_t> tokens) {
  State& state = *state_;
  const auto bytes = static_cast<std::size_t>(bytes_of(state.type));
  const std::int64_t end = state.type == TokenType::kUint16 ? kUint16End : std::int64_t{1} << 32;
  const std::size_t before = state.buffer.size();
  for (const std::int64_t token : tokens) {
    if (token < 0 || token >= end) {
      throw ConfigError(format("the token {} of document {} does not fit into {}: write uint32", token, state.ends.size(),
                               choice_name(state.type)));
    }
    state.buffer.append(reinterpret_cast<const char*>(&token), bytes);
  }
  state.note(std::string_view(state.buffer).substr(before));
  state.tokens += static_cast<std::int64_t>(tokens.size());
  state.ends.push_back(static_cast<std::uint64_t>(state.tokens));
  constexpr std::size_t kMost = 1u << 20;
  if (state.buffer.size() >= kMost) state.flush();
}

void TokenWriter::State::write_header() {
  detail::LlmCHeader header = type == TokenType::kUint16 ? detail::kLlmCUint16 : detail::kLlmCUint32;
  if (!std::in_range<std::int32_t>(tokens)) {
    throw ConfigError(
        format("llm.c's header counts 2147483647 tokens at most, not {}: write several files, or the layout raw", tokens));
  }
  header.tokens = static_cast<std::int32_t>(tokens);
  file.write_at(0, {reinterpret_cast<const char*>(&header), sizeof header});
}

void TokenWriter::State::write_index() {
  Fnv1aHash hash;
  hash.add(first);
  hash.add(last);
  detail::IndexHeader header{.magic = {},
                             .version = detail::kIndexVersion,
                             .token_bytes = static_cast<std::uint32_t>(bytes_of(type)),
                             .vocab_size = static_cast<std::uint64_t>(options.vocab_size),
                             .tokens = static_cast<std::uint64_t>(tokens),
                             .documents = ends.size(),
                             .hash = hash.value()};
  std::ranges::copy(detail::kIndexMagic, header.magic);
  AtomicFile index(index_of(path));
  index.write({reinterpret_cast<const char*>(&header), sizeof header});
  index.write({reinterpret_cast<const char*>(ends.data()), ends.size() * sizeof(std::uint64_t)});
  index.commit();
}

void TokenWriter::finish() {
  State& state = *state_;
  state.flush();
  if (state.options.layout == TokenLayout::kLlmC) state.write_header();
  // The index first: a process that is killed between the two leaves an old file whose index is of another, which is an error,
  // not a file that is read in the wrong way.
  if (state.has_index) state.write_index();
  state.file.commit();
}

std::int64_t TokenWriter::tokens() const { return state_->tokens; }
std::int64_t TokenWriter::documents() const { return static_cast<std::int64_t>(state_->ends.size()); }
TokenType TokenWriter::type() const { return state_->type; }

}  // namespace levin
