#include "levin/text/pre_tokenizers.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/text/normalizers.h"
#include "levin/text/utf8.h"

namespace levin::detail {
namespace {

/// What becomes of that which divides a text.
enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

Behavior read_behavior(const JsonNode& node) {
  const std::string& name = node.text();
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  node.refuse(format("the behavior {}", quoted_text(name)));
}

/// A part of a text, and whether it divides what is around it.
struct Part {
  std::size_t begin, end;
  bool divides;
};

/// Gives the parts of a text, which follow one another, to a sink by a behavior.
class Divider {
 public:
  Divider(const Piece& piece, Behavior behavior, PieceSink& sink) : piece_(piece), behavior_(behavior), sink_(sink) {}

  void add(std::size_t begin, std::size_t end, bool divides) {
    if (begin == end) return;
    if (behavior_ == Behavior::kIsolated || (behavior_ == Behavior::kRemoved && !divides)) {
      give(begin, end);
    } else if (behavior_ != Behavior::kRemoved) {
      parts_.push_back({begin, end, divides});
    }
  }

  void finish() {
    if (parts_.empty()) return;
    if (behavior_ == Behavior::kMergedWithNext) {
      finish_backwards();
      return;
    }
    Part open = parts_.front();
    for (std::size_t index = 1; index < parts_.size(); ++index) {
      const Part& part = parts_[index];
      const bool joins = behavior_ == Behavior::kContiguous ? part.divides == open.divides : part.divides && !open.divides;
      if (joins) {
        open.end = part.end;
        open.divides = part.divides;
      } else {
        give(open.begin, open.end);
        open = part;
      }
    }
    give(open.begin, open.end);
  }

 private:
  void give(std::size_t begin, std::size_t end) {
    sink_.take({piece_.text.substr(begin, end - begin), piece_.is_at_start && begin == 0, false});
  }

  void finish_backwards() {
    std::vector<Part> joined;
    for (std::size_t index = parts_.size(); index-- > 0;) {
      const Part& part = parts_[index];
      if (part.divides && !joined.empty() && !joined.back().divides) {
        joined.back().begin = part.begin;
        joined.back().divides = true;
      } else {
        joined.push_back(part);
      }
    }
    for (std::size_t index = joined.size(); index-- > 0;) give(joined[index].begin, joined[index].end);
  }

  const Piece& piece_;
  Behavior behavior_;
  PieceSink& sink_;
  std::vector<Part> parts_;
};

/// Divides a piece by the characters for which a function is true.
template <class Divides>
void divide_by_characters(const Piece& piece, Behavior behavior, PieceSink& sink, Divides divides) {
  Divider divider(piece, behavior, sink);
  std::size_t begin = 0;
  std::size_t at = 0;
  for_each_character(piece.text, [&](char32_t character, std::string_view bytes) {
    if (divides(character)) {
      divider.add(begin, at, false);
      divider.add(at, at + bytes.size(), true);
      begin = at + bytes.size();
    }
    at += bytes.size();
  });
  divider.add(begin, at, false);
  divider.finish();
}

/// Divides a piece by the matches of a pattern, or by what is between them.
void divide_by_pattern(const Piece& piece, const Pattern& pattern, const PatternMatcher& matcher, Behavior behavior,
                       bool is_inverted, PieceSink& sink) {
  Divider divider(piece, behavior, sink);
  std::size_t at = 0;
  pattern.for_each_match(piece.text, matcher, [&](std::size_t begin, std::size_t end) {
    divider.add(at, begin, is_inverted);
    divider.add(begin, end, !is_inverted);
    at = end;
  });
  divider.add(at, piece.text.size(), is_inverted);
  divider.finish();
}

bool is_punctuation(char32_t character, const UnicodeLibrary& unicode) {
  if (character >= 0x80) return (unicode.classes(character) & kPunctuationCharacter) != 0;
  return (character >= '!' && character <= '/') || (character >= ':' && character <= '@') ||
         (character >= '[' && character <= '`') || (character >= '{' && character <= '~');
}

class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(const JsonNode& node, const UnicodeLibrary& unicode) : adds_space_(node.at("add_prefix_space").boolean()) {
    if (node.boolean_or("use_regex", true)) {
      pattern_.emplace(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", unicode);
    }
  }

  void divide(const Piece& piece, const PatternMatcher& matcher, PieceSink& sink) const override {
    if (adds_space_ && !piece.text.starts_with(' ')) {
      const std::string text = std::string(" ").append(piece.text);
      divide_with_space({text, piece.is_at_start, false}, matcher, sink);
    } else {
      divide_with_space(piece, matcher, sink);
    }
  }

 private:
  void divide_with_space(const Piece& piece, const PatternMatcher& matcher, PieceSink& sink) const {
    FunctionSink as_bytes([&](const Piece& part) { sink.take({part.text, part.is_at_start, true}); });
    if (pattern_) {
      divide_by_pattern(piece, *pattern_, matcher, Behavior::kIsolated, false, as_bytes);
    } else {
      as_bytes.take(piece);
    }
  }

  bool adds_space_;
  std::optional<Pattern> pattern_;
};

class Split final : public PreTokenizer {
 public:
  Split(const JsonNode& node, const UnicodeLibrary& unicode)
      : pattern_(read_pattern(node.at("pattern"), unicode)),
        behavior_(read_behavior(node.at("behavior"))),
        is_inverted_(node.at("invert").boolean()) {}
  void divide(const Piece& piece, const PatternMatcher& matcher, PieceSink& sink) const override {
    divide_by_pattern(piece, pattern_, matcher, behavior_, is_inverted_, sink);
  }

 private:
  Pattern pattern_;
  Behavior behavior_;
  bool is_inverted_;
};

/// Words, and what is between them but blanks.
class Whitespace final : public PreTokenizer {
 public:
  // The peer's engine counts joiners among the characters of words, unlike that of other patterns.
  explicit Whitespace(const UnicodeLibrary& unicode) : pattern_(R"([\w\x{200c}\x{200d}]+|[^\w\s\x{200c}\x{200d}]+)", unicode) {}
  void divide(const Piece& piece, const PatternMatcher& matcher, PieceSink& sink) const override {
    divide_by_pattern(piece, pattern_, matcher, Behavior::kRemoved, true, sink);
  }

 private:
  Pattern pattern_;
};

class WhitespaceSplit final : public PreTokenizer {
 public:
  void divide(const Piece& piece, const PatternMatcher&, PieceSink& sink) const override {
    divide_by_characters(piece, Behavior::kRemoved, sink, is_white_space);
  }
};

class BertPreTokenizer final : public PreTokenizer {
 public:
  void divide(const Piece& piece, const PatternMatcher& matcher, PieceSink& sink) const override {
    FunctionSink words([&](const Piece& word) {
      divide_by_characters(word, Behavior::kIsolated, sink,
                           [&](char32_t character) { return is_punctuation(character, matcher.unicode()); });
    });
    divide_by_characters(piece, Behavior::kRemoved, words, is_white_space);
  }
};

class Punctuation final : public PreTokenizer {
 public:
  explicit Punctuation(const JsonNode& node) {
    if (const auto behavior = node.find("behavior")) behavior_ = read_behavior(*behavior);
  }
  void divide(const Piece& piece, const PatternMatcher& matcher, PieceSink& sink) const override {
    divide_by_characters(piece, behavior_, sink,
                         [&](char32_t character) { return is_punctuation(character, matcher.unicode()); });
  }

 private:
  Behavior behavior_ = Behavior::kIsolated;
};

class Digits final : public PreTokenizer {
 public:
  explicit Digits(const JsonNode& node)
      : behavior_(node.at("individual_digits").boolean() ? Behavior::kIsolated : Behavior::kContiguous) {}
  void divide(const Piece& piece, const PatternMatcher& matcher, PieceSink& sink) const override {
    divide_by_characters(piece, behavior_, sink, [&](char32_t character) {
      return character < 0x80 ? character >= '0' && character <= '9'
                              : (matcher.unicode().classes(character) & kNumberCharacter) != 0;
    });
  }

 private:
  Behavior behavior_;
};

class CharDelimiterSplit final : public PreTokenizer {
 public:
  explicit CharDelimiterSplit(const JsonNode& node) : delimiter_(node.at("delimiter").text()) {}
  void divide(const Piece& piece, const PatternMatcher&, PieceSink& sink) const override {
    Divider divider(piece, Behavior::kRemoved, sink);
    std::size_t begin = 0;
    for (std::size_t at = piece.text.find(delimiter_); at != std::string_view::npos && !delimiter_.empty();
         at = piece.text.find(delimiter_, begin)) {
      divider.add(begin, at, false);
      begin = at + delimiter_.size();
    }
    divider.add(begin, piece.text.size(), false);
  }

 private:
  std::string delimiter_;
};

class Metaspace final : public PreTokenizer {
 public:
  Metaspace(const JsonNode& node, const UnicodeLibrary&)
      : mark_(node.at("replacement").text()), scheme_(read_prepend_scheme(node)), divides_(node.boolean_or("split", true)) {
    if (utf8_length(mark_) != mark_.size() || mark_.empty()) node.at("replacement").fail("is not one character");
  }

  void divide(const Piece& piece, const PatternMatcher&, PieceSink& sink) const override {
    std::string text;
    text.reserve(piece.text.size() + 16);
    for (const char byte : piece.text) {
      if (byte == ' ') {
        text += mark_;
      } else {
        text += byte;
      }
    }
    const bool prepends = scheme_ == PrependScheme::kAlways || (scheme_ == PrependScheme::kFirst && piece.is_at_start);
    if (prepends && !text.starts_with(mark_)) text.insert(0, mark_);
    const Piece whole{text, piece.is_at_start, false};
    if (!divides_) {
      sink.take(whole);
      return;
    }
    Divider divider(whole, Behavior::kMergedWithNext, sink);
    std::size_t begin = 0;
    for (std::size_t at = text.find(mark_); at != std::string::npos; at = text.find(mark_, begin)) {
      divider.add(begin, at, false);
      begin = at + mark_.size();
      divider.add(at, begin, true);
    }
    divider.add(begin, text.size(), false);
    divider.finish();
  }

 private:
  std::string mark_;
  PrependScheme scheme_;
  bool divides_;
};

class FixedLength final : public PreTokenizer {
 public:
  explicit FixedLength(const JsonNode& node) : length_(node.find("length") ? node.at("length").number() : 5) {
    if (length_ == 0) node.at("length").fail("is 0");
  }
  void divide(const Piece& piece, const PatternMatcher&, PieceSink& sink) const override {
    Divider divider(piece, Behavior::kIsolated, sink);
    std::size_t begin = 0;
    std::size_t at = 0;
    std::size_t count = 0;
    for_each_character(piece.text, [&](char32_t, std::string_view bytes) {
      at += bytes.size();
      if (++count % length_ != 0) return;
      divider.add(begin, at, false);
      begin = at;
    });
    divider.add(begin, at, false);
  }

 private:
  std::size_t length_;
};

class PreTokenizerSequence final : public PreTokenizer {
 public:
  PreTokenizerSequence(const JsonNode& node, const UnicodeLibrary& unicode) {
    for (const JsonNode& part : node.at("pretokenizers").elements()) parts_.push_back(read_pre_tokenizer(part, unicode));
  }
  void divide(const Piece& piece, const PatternMatcher& matcher, PieceSink& sink) const override {
    divide_from(0, piece, matcher, sink);
  }

 private:
  void divide_from(std::size_t index, const Piece& piece, const PatternMatcher& matcher, PieceSink& sink) const {
    if (index == parts_.size()) {
      sink.take(piece);
      return;
    }
    FunctionSink next([&](const Piece& part) { divide_from(index + 1, part, matcher, sink); });
    if (piece.is_byte_level) {
      std::string text;
      append_byte_level(text, piece.text);
      parts_[index]->divide({text, piece.is_at_start, false}, matcher, next);
    } else {
      parts_[index]->divide(piece, matcher, next);
    }
  }

  std::vector<std::unique_ptr<const PreTokenizer>> parts_;
};

}  // namespace

PrependScheme read_prepend_scheme(const JsonNode& node) {
  const std::optional<JsonNode> given = node.find("prepend_scheme");
  const bool adds_space = node.boolean_or("add_prefix_space", true);
  if (!given) return adds_space ? PrependScheme::kAlways : PrependScheme::kNever;
  const std::string& name = given->text();
  if (name == "always") return PrependScheme::kAlways;
  if (name == "first") return PrependScheme::kFirst;
  if (name == "never") return PrependScheme::kNever;
  given->refuse(quoted_text(name));
}

std::unique_ptr<const PreTokenizer> read_pre_tokenizer(const JsonNode& node, const UnicodeLibrary& unicode) {
  node.check_depth();
  const std::string& type = node.type();
  if (type == "ByteLevel") return std::make_unique<ByteLevel>(node, unicode);
  if (type == "Split") return std::make_unique<Split>(node, unicode);
  if (type == "Whitespace") return std::make_unique<Whitespace>(unicode);
  if (type == "WhitespaceSplit") return std::make_unique<WhitespaceSplit>();
  if (type == "BertPreTokenizer") return std::make_unique<BertPreTokenizer>();
  if (type == "Punctuation") return std::make_unique<Punctuation>(node);
  if (type == "Digits") return std::make_unique<Digits>(node);
  if (type == "CharDelimiterSplit") return std::make_unique<CharDelimiterSplit>(node);
  if (type == "Metaspace") return std::make_unique<Metaspace>(node, unicode);
  if (type == "FixedLength") return std::make_unique<FixedLength>(node);
  if (type == "Sequence") return std::make_unique<PreTokenizerSequence>(node, unicode);
  node.at("type").refuse(format("the pre-tokenizer {}", quoted_text(type)));
}

}  // namespace levin::detail
