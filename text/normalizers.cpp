#include "levin/text/normalizers.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/text/character_map.h"
#include "levin/text/utf8.h"

namespace levin::detail {

Pattern read_pattern(const JsonNode& node, const UnicodeLibrary& unicode) {
  const std::optional<JsonNode> plain = node.find("String");
  const JsonNode given = plain ? *plain : node.at("Regex");
  std::string expression = given.text();
  if (plain) {
    expression.clear();
    for (const char letter : given.text()) {
      if (std::string_view(R"(\.+*?()|[]{}^$#&-~)").find(letter) != std::string_view::npos) expression += '\\';
      expression += letter;
    }
  }
  try {
    return {expression, unicode};
  } catch (const std::runtime_error& error) {
    given.fail(error.what());
  }
}

Replacement::Replacement(const JsonNode& node, const UnicodeLibrary& unicode)
    : pattern_(read_pattern(node.at("pattern"), unicode)), content_(node.at("content").text()) {}

std::string Replacement::operator()(std::string_view text, const PatternMatcher& matcher) const {
  std::string result;
  std::size_t at = 0;
  pattern_.for_each_match(text, matcher, [&](std::size_t begin, std::size_t end) {
    result.append(text.substr(at, begin - at)).append(content_);
    at = end;
  });
  return result.append(text.substr(at));
}

namespace {

/// Changes one character after another.
template <class Take>
void rewrite(std::string& text, Take take) {
  std::string result;
  result.reserve(text.size());
  for_each_character(text, [&](char32_t character, std::string_view bytes) { take(character, bytes, result); });
  text = std::move(result);
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char byte) { return static_cast<unsigned char>(byte) < 0x80; });
}

class InNormalForm final : public Normalizer {
 public:
  explicit InNormalForm(NormalForm form) : form_(form) {}
  void normalize(std::string& text, const PatternMatcher& matcher) const override {
    if (is_ascii(text)) return;
    std::string result;
    result.reserve(text.size());
    matcher.unicode().normalize(text, form_, result);
    text = std::move(result);
  }

 private:
  NormalForm form_;
};

void append_lowercase(char32_t character, std::string_view bytes, const UnicodeLibrary& unicode, std::string& result) {
  constexpr char32_t kCapitalIWithDot = 0x130;  // the one letter that becomes two characters
  if (character < 0x80) {
    result += character >= 'A' && character <= 'Z' ? static_cast<char>(character + 0x20) : bytes[0];
  } else if (character == kCapitalIWithDot) {
    result += "i\xcc\x87";
  } else {
    append_character(result, unicode.lowercase(character));
  }
}

class Lowercase final : public Normalizer {
 public:
  void normalize(std::string& text, const PatternMatcher& matcher) const override {
    rewrite(text, [&](char32_t character, std::string_view bytes, std::string& result) {
      append_lowercase(character, bytes, matcher.unicode(), result);
    });
  }
};

class StripAccents final : public Normalizer {
 public:
  void normalize(std::string& text, const PatternMatcher& matcher) const override {
    rewrite(text, [&](char32_t character, std::string_view bytes, std::string& result) {
      if (character < 0x80 || (matcher.unicode().classes(character) & kMarkCharacter) == 0) result += bytes;
    });
  }
};

class Strip final : public Normalizer {
 public:
  explicit Strip(const JsonNode& node) : left_(node.at("strip_left").boolean()), right_(node.at("strip_right").boolean()) {}
  void normalize(std::string& text, const PatternMatcher&) const override {
    text = std::string(without_spaces(text, left_, right_));
  }

 private:
  bool left_, right_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(const JsonNode& node) : prefix_(node.at("prepend").text()) {}
  void normalize(std::string& text, const PatternMatcher&) const override {
    if (!text.empty()) text.insert(0, prefix_);
  }

 private:
  std::string prefix_;
};

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(const JsonNode& node) : map_(node) {}
  void normalize(std::string& text, const PatternMatcher& matcher) const override { text = map_(text, matcher.unicode()); }

 private:
  CharacterMap map_;
};

class Replace final : public Normalizer {
 public:
  Replace(const JsonNode& node, const UnicodeLibrary& unicode) : replacement_(node, unicode) {}
  void normalize(std::string& text, const PatternMatcher& matcher) const override { text = replacement_(text, matcher); }

 private:
  Replacement replacement_;
};

class ToByteLevel final : public Normalizer {
 public:
  void normalize(std::string& text, const PatternMatcher&) const override {
    std::string result;
    append_byte_level(result, text);
    text = std::move(result);
  }
};

/// What the models of neural machine translation call clean: fewer kinds of blanks.
class Nmt final : public Normalizer {
 public:
  void normalize(std::string& text, const PatternMatcher&) const override {
    rewrite(text, [](char32_t character, std::string_view bytes, std::string& result) {
      const bool is_removed = (character >= 0x01 && character <= 0x08) || character == 0x0b ||
                              (character >= 0x0e && character <= 0x1f) || character == 0x7f || character == 0x8f ||
                              character == 0x9f;
      const bool is_blank = character == 0x09 || character == 0x0a || character == 0x0c || character == 0x0d ||
                            character == 0x1680 || (character >= 0x200b && character <= 0x200f) || character == 0x2028 ||
                            character == 0x2029 || character == 0x2581 || character == 0xfeff || character == 0xfffd;
      if (!is_removed) result += is_blank ? std::string_view(" ") : bytes;
    });
  }
};

bool is_ideograph(char32_t character) {
  // The blocks of BERT's own list.
  constexpr std::array kBlocks = {std::pair(0x4E00U, 0x9FFFU),   std::pair(0x3400U, 0x4DBFU),   std::pair(0x20000U, 0x2A6DFU),
                                  std::pair(0x2A700U, 0x2B73FU), std::pair(0x2B740U, 0x2B81FU), std::pair(0x2B920U, 0x2CEAFU),
                                  std::pair(0xF900U, 0xFAFFU),   std::pair(0x2F800U, 0x2FA1FU)};
  return std::ranges::any_of(kBlocks, [&](const auto& block) { return character >= block.first && character <= block.second; });
}

class BertNormalizer final : public Normalizer {
 public:
  explicit BertNormalizer(const JsonNode& node)
      : cleans_(node.at("clean_text").boolean()),
        divides_ideographs_(node.at("handle_chinese_chars").boolean()),
        makes_lowercase_(node.at("lowercase").boolean()),
        strips_accents_(node.boolean_or("strip_accents", makes_lowercase_)) {}

  void normalize(std::string& text, const PatternMatcher& matcher) const override {
    const UnicodeLibrary& unicode = matcher.unicode();
    if (cleans_) clean(text, unicode);
    if (divides_ideographs_ && !is_ascii(text)) {
      rewrite(text, [](char32_t character, std::string_view bytes, std::string& result) {
        if (!is_ideograph(character)) {
          result += bytes;
        } else {
          result.append(" ").append(bytes).append(" ");
        }
      });
    }
    if (strips_accents_ && !is_ascii(text)) strip_accents(text, unicode);
    if (makes_lowercase_) Lowercase().normalize(text, matcher);
  }

 private:
  static void clean(std::string& text, const UnicodeLibrary& unicode) {
    rewrite(text, [&](char32_t character, std::string_view bytes, std::string& result) {
      if (is_white_space(character) && character != 0x0b && character != 0x0c && character != 0x85) {
        result += ' ';
      } else if (character == 0 || character == 0xfffd) {
        return;
      } else if (character < 0x80 ? character >= 0x20 && character != 0x7f
                                  : (unicode.classes(character) & kControlCharacter) == 0) {
        result += bytes;
      }
    });
  }

  static void strip_accents(std::string& text, const UnicodeLibrary& unicode) {
    std::string decomposed;
    unicode.normalize(text, NormalForm::kNfd, decomposed);
    text = std::move(decomposed);
    rewrite(text, [&](char32_t character, std::string_view bytes, std::string& result) {
      if (character < 0x80 || (unicode.classes(character) & kNonspacingMarkCharacter) == 0) result += bytes;
    });
  }

  bool cleans_, divides_ideographs_, makes_lowercase_, strips_accents_;
};

class NormalizerSequence final : public Normalizer {
 public:
  NormalizerSequence(const JsonNode& node, const UnicodeLibrary& unicode) {
    for (const JsonNode& part : node.at("normalizers").elements()) parts_.push_back(read_normalizer(part, unicode));
  }
  void normalize(std::string& text, const PatternMatcher& matcher) const override {
    for (const auto& part : parts_) part->normalize(text, matcher);
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> parts_;
};

}  // namespace

std::unique_ptr<const Normalizer> read_normalizer(const JsonNode& node, const UnicodeLibrary& unicode) {
  node.check_depth();
  const std::string& type = node.type();
  if (type == "NFC") return std::make_unique<InNormalForm>(NormalForm::kNfc);
  if (type == "NFD") return std::make_unique<InNormalForm>(NormalForm::kNfd);
  if (type == "NFKC") return std::make_unique<InNormalForm>(NormalForm::kNfkc);
  if (type == "NFKD") return std::make_unique<InNormalForm>(NormalForm::kNfkd);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "Strip") return std::make_unique<Strip>(node);
  if (type == "Prepend") return std::make_unique<Prepend>(node);
  if (type == "Precompiled") return std::make_unique<Precompiled>(node);
  if (type == "Replace") return std::make_unique<Replace>(node, unicode);
  if (type == "ByteLevel") return std::make_unique<ToByteLevel>();
  if (type == "Nmt") return std::make_unique<Nmt>();
  if (type == "BertNormalizer") return std::make_unique<BertNormalizer>(node);
  if (type == "Sequence") return std::make_unique<NormalizerSequence>(node, unicode);
  node.at("type").refuse(format("the normalizer {}", quoted_text(type)));
}

}  // namespace levin::detail
