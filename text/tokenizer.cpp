#include "levin/text/tokenizer.h"

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/optional_library.h"
#include "levin/data/read_file.h"
#include "levin/text/added_tokens.h"
#include "levin/text/decoders.h"
#include "levin/text/models.h"
#include "levin/text/normalizers.h"
#include "levin/text/pre_tokenizers.h"
#include "levin/text/special_tokens.h"
#include "levin/text/utf8.h"
#include "levin/text/word_cache.h"

namespace levin {
namespace {

const OptionalLibrary kUnicode({.file = "liblevin_text.so",
                                .entry = "levin_unicode_library",
                                .title = "tokenizers",
                                .contents = "Unicode and regular expressions",
                                .build_packages = "libpcre2-dev libutf8proc-dev",
                                .run_packages = "libpcre2-8-0 libutf8proc2"});

nlohmann::json parsed(std::string_view text) {
  nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) throw IoError("it is not JSON");
  if (!json.is_object()) throw IoError("it is no object");
  return json;
}

}  // namespace

struct Tokenizer::Parts {
  /// What one thread needs to encode.
  struct EncodingState {
    explicit EncodingState(const UnicodeLibrary& unicode) : matcher(unicode) {}
    detail::PatternMatcher matcher;
    detail::WordCache words;
    std::string valid;
    std::string normalized;
    std::string mapped;
  };

  Parts(const detail::JsonNode& file, const UnicodeLibrary& library);

  /// Lends a state that no other call has.
  class LentState;
  std::vector<std::unique_ptr<EncodingState>> states;
  std::mutex mutex;

  void append_text(std::string_view text, bool is_at_start, EncodingState& state, std::vector<std::int64_t>& tokens) const;
  void append_piece(const detail::Piece& piece, EncodingState& state, std::vector<std::int64_t>& tokens) const;

  std::string name;
  const UnicodeLibrary& unicode;
  std::unique_ptr<const detail::Normalizer> normalizer;
  std::unique_ptr<const detail::PreTokenizer> pre_tokenizer;
  std::unique_ptr<const detail::TokenModel> model;
  std::unique_ptr<const detail::TokenDecoder> decoder;
  detail::AddedTokens added;
  detail::SpecialTokens specials;
};

class Tokenizer::Parts::LentState {
 public:
  explicit LentState(Parts& parts) : parts_(parts) {
    const std::lock_guard lock(parts_.mutex);
    if (parts_.states.empty()) {
      state_ = std::make_unique<EncodingState>(parts_.unicode);
    } else {
      state_ = std::move(parts_.states.back());
      parts_.states.pop_back();
    }
  }
  ~LentState() {
    const std::lock_guard lock(parts_.mutex);
    parts_.states.push_back(std::move(state_));
  }
  LentState(const LentState&) = delete;
  LentState& operator=(const LentState&) = delete;
  EncodingState& operator*() const { return *state_; }

 private:
  Parts& parts_;
  std::unique_ptr<EncodingState> state_;
};

Tokenizer::Parts::Parts(const detail::JsonNode& file, const UnicodeLibrary& library) : unicode(library) {
  if (const auto node = file.find("normalizer")) normalizer = detail::read_normalizer(*node, unicode);
  if (const auto node = file.find("pre_tokenizer")) pre_tokenizer = detail::read_pre_tokenizer(*node, unicode);
  if (const auto node = file.find("decoder")) decoder = detail::read_decoder(*node, unicode);
  if (const auto node = file.find("post_processor")) specials = detail::read_special_tokens(*node);
  model = detail::read_model(file.at("model"));
  if (const auto node = file.find("added_tokens")) added = detail::AddedTokens(*node, *model, normalizer.get(), unicode);
}

Tokenizer::Tokenizer(const std::filesystem::path& file) : Tokenizer(read_input_file(file), file.string()) {}

Tokenizer::Tokenizer(std::string_view json, const std::string& name)
    : Tokenizer(json, name, *kUnicode.entry<decltype(levin_unicode_library)>()()) {}

Tokenizer::Tokenizer(std::string_view json, const std::string& name, const UnicodeLibrary& unicode) {
  try {
    const nlohmann::json file = parsed(json);
    parts_ = std::make_unique<Parts>(detail::JsonNode(file, ""), unicode);
    parts_->name = name;
  } catch (const std::runtime_error& error) {
    throw IoError(format("'{}' cannot be read as a tokenizer: {}", name, error.what()));
  }
}

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

void Tokenizer::Parts::append_piece(const detail::Piece& piece, EncodingState& state, std::vector<std::int64_t>& tokens) const {
  if (state.words.append(piece.text, tokens)) return;
  const std::size_t before = tokens.size();
  if (piece.is_byte_level) {
    state.mapped.clear();
    detail::append_byte_level(state.mapped, piece.text);
    model->append_tokens(state.mapped, tokens);
  } else {
    model->append_tokens(piece.text, tokens);
  }
  state.words.add(piece.text, tokens.data() + before, tokens.size() - before);
}

void Tokenizer::Parts::append_text(std::string_view text, bool is_at_start, EncodingState& state,
                                   std::vector<std::int64_t>& tokens) const {
  if (normalizer) {
    state.normalized.assign(text);
    normalizer->normalize(state.normalized, state.matcher);
    text = state.normalized;
  }
  added.divide(
      text, /*is_normalized=*/true,
      [&](std::string_view part, std::size_t begin) {
        const detail::Piece whole{part, is_at_start && begin == 0, false};
        detail::FunctionSink sink([&](const detail::Piece& piece) { append_piece(piece, state, tokens); });
        if (pre_tokenizer) {
          pre_tokenizer->divide(whole, state.matcher, sink);
        } else {
          sink.take(whole);
        }
      },
      [&](std::uint32_t token) { tokens.push_back(token); });
}

std::int64_t Tokenizer::encode_to(std::vector<std::int64_t>& tokens, std::string_view text, bool special_tokens) const {
  const Parts::LentState lent(*parts_);
  Parts::EncodingState& state = *lent;
  if (special_tokens) tokens.insert(tokens.end(), parts_->specials.before.begin(), parts_->specials.before.end());
  state.valid.clear();
  const std::size_t replaced = detail::append_valid_utf8(state.valid, text);
  try {
    parts_->added.divide(
        state.valid, /*is_normalized=*/false,
        [&](std::string_view part, std::size_t begin) { parts_->append_text(part, begin == 0, state, tokens); },
        [&](std::uint32_t token) { tokens.push_back(token); });
  } catch (const std::runtime_error& error) {
    throw IoError(format("a text cannot be encoded with '{}': {}", parts_->name, error.what()));
  }
  if (special_tokens) tokens.insert(tokens.end(), parts_->specials.behind.begin(), parts_->specials.behind.end());
  return static_cast<std::int64_t>(replaced);
}

std::vector<std::int64_t> Tokenizer::encode(std::string_view text, bool special_tokens) const {
  std::vector<std::int64_t> tokens;
  encode_to(tokens, text, special_tokens);
  return tokens;
}

std::string Tokenizer::decode(std::span<const std::int64_t> tokens, bool skip_special_tokens) const {
  std::vector<std::string> texts;
  for (const std::int64_t token : tokens) {
    if (token < 0 || token >= vocab_size()) continue;
    const auto number = static_cast<std::uint32_t>(token);
    const std::string* text = parts_->added.text_of(number);
    if (text == nullptr) text = parts_->model->vocabulary().token_of(number);
    if (text == nullptr || (skip_special_tokens && parts_->added.is_special(*text))) continue;
    texts.push_back(*text);
  }
  if (!parts_->decoder) return join(texts, " ");
  const Parts::LentState lent(*parts_);
  parts_->decoder->decode(texts, (*lent).matcher);
  return join(texts, "");
}

std::int64_t Tokenizer::vocab_size() const { return std::max(parts_->added.end(), parts_->model->vocabulary().end()); }

std::optional<std::int64_t> Tokenizer::token_to_id(std::string_view token) const {
  if (const auto number = parts_->added.number_of(token)) return *number;
  if (const auto number = parts_->model->vocabulary().number_of(token)) return *number;
  return std::nullopt;
}

std::optional<std::string> Tokenizer::id_to_token(std::int64_t id) const {
  if (id < 0 || id >= vocab_size()) return std::nullopt;
  const auto number = static_cast<std::uint32_t>(id);
  if (const std::string* const text = parts_->added.text_of(number)) return *text;
  if (const std::string* const text = parts_->model->vocabulary().token_of(number)) return *text;
  return std::nullopt;
}

}  // namespace levin
