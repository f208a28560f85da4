#include "levin/text/decoders.h"

#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/text/normalizers.h"
#include "levin/text/pre_tokenizers.h"
#include "levin/text/utf8.h"

namespace levin::detail {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

std::string join_tokens(const std::vector<std::string>& tokens) { return join(tokens, ""); }

/// Bytes of the tokens that byte-level tokens stand for; others are taken as they are.
class ByteLevelDecoder final : public TokenDecoder {
 public:
  void decode(std::vector<std::string>& tokens, const PatternMatcher&) const override {
    std::string bytes;
    for (const std::string& token : tokens) {
      std::string of_token;
      bool is_byte_level = true;
      for_each_character(token, [&](char32_t character, std::string_view) {
        const int byte = byte_of_character(character);
        is_byte_level = is_byte_level && byte >= 0;
        of_token += static_cast<char>(byte);
      });
      bytes += is_byte_level ? of_token : token;
    }
    std::string text;
    append_valid_utf8(text, bytes);
    tokens = {std::move(text)};
  }
};

class WordPieceDecoder final : public TokenDecoder {
 public:
  explicit WordPieceDecoder(const JsonNode& node) : prefix_(node.at("prefix").text()), cleans_(node.at("cleanup").boolean()) {}
  void decode(std::vector<std::string>& tokens, const PatternMatcher&) const override {
    for (std::size_t index = 0; index < tokens.size(); ++index) {
      std::string& token = tokens[index];
      if (index > 0) {
        if (token.starts_with(prefix_)) {
          token.erase(0, prefix_.size());
        } else {
          token.insert(0, " ");
        }
      }
      if (cleans_) clean(token);
    }
  }

 private:
  static void clean(std::string& token) {
    using Change = std::pair<std::string_view, std::string_view>;
    constexpr std::array kChanges = {Change{" .", "."},     Change{" ?", "?"},           Change{" !", "!"},
                                     Change{" ,", ","},     Change{" ' ", "'"},          Change{" n't", "n't"},
                                     Change{" 'm", "'m"},   Change{" do not", " don't"}, Change{" 's", "'s"},
                                     Change{" 've", "'ve"}, Change{" 're", "'re"}};
    for (const auto& [from, to] : kChanges) replace_all(token, from, to);
  }

  std::string prefix_;
  bool cleans_;
};

class MetaspaceDecoder final : public TokenDecoder {
 public:
  explicit MetaspaceDecoder(const JsonNode& node)
      : mark_(node.at("replacement").text()), removes_first_(read_prepend_scheme(node) != PrependScheme::kNever) {}
  void decode(std::vector<std::string>& tokens, const PatternMatcher&) const override {
    for (std::size_t index = 0; index < tokens.size(); ++index) {
      replace_all(tokens[index], mark_, index == 0 && removes_first_ ? "" : " ");
    }
  }

 private:
  std::string mark_;
  bool removes_first_;
};

class BpeDecoder final : public TokenDecoder {
 public:
  explicit BpeDecoder(const JsonNode& node) : suffix_(node.text_or("suffix", "</w>")) {}
  void decode(std::vector<std::string>& tokens, const PatternMatcher&) const override {
    for (std::string& token : tokens) replace_all(token, suffix_, &token == &tokens.back() ? "" : " ");
  }

 private:
  std::string suffix_;
};

class ReplaceDecoder final : public TokenDecoder {
 public:
  ReplaceDecoder(const JsonNode& node, const UnicodeLibrary& unicode) : replacement_(node, unicode) {}
  void decode(std::vector<std::string>& tokens, const PatternMatcher& matcher) const override {
    for (std::string& token : tokens) token = replacement_(token, matcher);
  }

 private:
  Replacement replacement_;
};

class FuseDecoder final : public TokenDecoder {
 public:
  void decode(std::vector<std::string>& tokens, const PatternMatcher&) const override { tokens = {join_tokens(tokens)}; }
};

class StripDecoder final : public TokenDecoder {
 public:
  explicit StripDecoder(const JsonNode& node)
      : content_(node.at("content").text()), start_(node.at("start").number()), stop_(node.at("stop").number()) {
    if (content_.empty()) node.at("content").fail("is empty");
  }
  void decode(std::vector<std::string>& tokens, const PatternMatcher&) const override {
    for (std::string& token : tokens) {
      for (std::uint32_t cut = 0; cut < start_ && token.starts_with(content_); ++cut) token.erase(0, content_.size());
      for (std::uint32_t cut = 0; cut < stop_ && token.ends_with(content_); ++cut) {
        token.resize(token.size() - content_.size());
      }
    }
  }

 private:
  std::string content_;
  std::uint32_t start_, stop_;
};

/// "<0xE2>" as its byte. Bytes that are no text become a U+FFFD each.
class ByteFallbackDecoder final : public TokenDecoder {
 public:
  void decode(std::vector<std::string>& tokens, const PatternMatcher&) const override {
    std::vector<std::string> decoded;
    std::string bytes;
    const auto end_bytes = [&] {
      if (bytes.empty()) return;
      std::string valid;
      if (append_valid_utf8(valid, bytes) == 0) {
        decoded.push_back(bytes);
      } else {
        decoded.insert(decoded.end(), bytes.size(), "\xef\xbf\xbd");
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const auto byte = byte_of(token)) {
        bytes += static_cast<char>(*byte);
      } else {
        end_bytes();
        decoded.push_back(std::move(token));
      }
    }
    end_bytes();
    tokens = std::move(decoded);
  }

 private:
  static std::optional<unsigned> byte_of(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
    unsigned byte = 0;
    const char* const begin = token.data() + 3;
    const auto [end, error] = std::from_chars(begin, begin + 2, byte, 16);
    return error == std::errc() && end == begin + 2 ? std::optional(byte) : std::nullopt;
  }
};

class DecoderSequence final : public TokenDecoder {
 public:
  DecoderSequence(const JsonNode& node, const UnicodeLibrary& unicode) {
    for (const JsonNode& part : node.at("decoders").elements()) parts_.push_back(read_decoder(part, unicode));
  }
  void decode(std::vector<std::string>& tokens, const PatternMatcher& matcher) const override {
    for (const auto& part : parts_) part->decode(tokens, matcher);
  }

 private:
  std::vector<std::unique_ptr<const TokenDecoder>> parts_;
};

}  // namespace

std::unique_ptr<const TokenDecoder> read_decoder(const JsonNode& node, const UnicodeLibrary& unicode) {
  node.check_depth();
  const std::string& type = node.type();
  if (type == "ByteLevel") return std::make_unique<ByteLevelDecoder>();
  if (type == "WordPiece") return std::make_unique<WordPieceDecoder>(node);
  if (type == "Metaspace") return std::make_unique<MetaspaceDecoder>(node);
  if (type == "BPEDecoder") return std::make_unique<BpeDecoder>(node);
  if (type == "Replace") return std::make_unique<ReplaceDecoder>(node, unicode);
  if (type == "Fuse") return std::make_unique<FuseDecoder>();
  if (type == "Strip") return std::make_unique<StripDecoder>(node);
  if (type == "ByteFallback") return std::make_unique<ByteFallbackDecoder>();
  if (type == "Sequence") return std::make_unique<DecoderSequence>(node, unicode);
  node.at("type").refuse(format("the decoder {}", quoted_text(type)));
}

}  // namespace levin::detail
