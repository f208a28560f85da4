#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace levin {

/// What Unicode says of a character, as bits.
enum CharacterClass : std::uint8_t {
  kMarkCharacter = 1,            ///< M: combines with the character before it
  kNonspacingMarkCharacter = 2,  ///< Mn: an accent
  kPunctuationCharacter = 4,     ///< P
  kNumberCharacter = 8,          ///< N
  kControlCharacter = 16,        ///< Cc, Cf, Co
};

/// The normal forms of Unicode.
enum class NormalForm : std::uint8_t { kNfc, kNfd, kNfkc, kNfkd };

/// Where a pattern was found: bytes from `begin` to `end`.
struct PatternMatch {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// What tokenizers need of Unicode: liblevin_text.so, with utf8proc and PCRE2, which is loaded with the first tokenizer. Texts
/// are valid UTF-8. Its functions throw std::runtime_error with what is wrong. Threading: any, but for matchers.
struct UnicodeLibrary {
  /// The CharacterClass bits of a code point.
  std::uint8_t (*classes)(char32_t character);
  char32_t (*lowercase)(char32_t character);
  /// Whether a user sees two characters that follow one another as two. `state`: 0 at the beginning of a text, and its own
  /// then.
  bool (*divides)(char32_t before, char32_t after, std::int32_t* state);
  /// Appends the text in a normal form.
  void (*normalize)(std::string_view text, NormalForm form, std::string& result);
  /// A regular expression in Oniguruma's syntax, which files of tokenizers are in; it is compiled to machine code where PCRE2
  /// can. Throws for one that is wrong, and for what PCRE2 lacks.
  void* (*compile)(std::string_view pattern);
  void (*release)(void* pattern);
  /// What one thread needs to search.
  void* (*make_matcher)();
  void (*release_matcher)(void* matcher);
  /// The first match that begins at `from` or behind. Throws where the search takes too long.
  bool (*find)(const void* pattern, void* matcher, std::string_view text, std::size_t from, PatternMatch& match);
};

}  // namespace levin

extern "C" __attribute__((visibility("default"))) const levin::UnicodeLibrary* levin_unicode_library();
