#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <vector>

#include "levin/text/unicode/unicode_parts.h"

namespace levin::unicode {

namespace {

/// As utf8proc has it.
std::uint8_t newest_classes(char32_t character) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(character))) {
    case UTF8PROC_CATEGORY_MN:
      return kMarkCharacter | kNonspacingMarkCharacter;
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return kMarkCharacter;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return kPunctuationCharacter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return kNumberCharacter;
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
      return kControlCharacter;
    default:
      return 0;
  }
}

/// Characters that are of these classes in one of utf8proc and Hugging Face's library, which has older tables, but not in both.
struct Difference {
  char32_t first, last;
  unsigned classes;
};
constexpr Difference kDifferences[] = {
#include "levin/text/unicode/older_characters.inc"
};

}  // namespace

std::uint8_t classes(char32_t character) {
  const std::uint8_t newest = newest_classes(character);
  const auto* const place = std::ranges::lower_bound(kDifferences, character, {}, &Difference::last);
  const bool differs = place != std::end(kDifferences) && place->first <= character;
  return static_cast<std::uint8_t>(differs ? newest ^ place->classes : newest);
}

char32_t lowercase(char32_t character) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character)));
}

bool divides(char32_t before, char32_t after, std::int32_t* state) {
  return utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before), static_cast<utf8proc_int32_t>(after), state);
}

namespace {

int options_of(NormalForm form) {
  switch (form) {
    case NormalForm::kNfc:
      return UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    case NormalForm::kNfd:
      return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    case NormalForm::kNfkc:
      return UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    case NormalForm::kNfkd:
      return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
  }
  return 0;
}

bool is_ascii(char byte) { return static_cast<unsigned char>(byte) < 0x80; }

/// Where a text has its next run of other characters than ASCII's, with the one before it, which an accent may follow.
PatternMatch next_run(std::string_view text, std::size_t from) {
  std::size_t begin = from;
  while (begin < text.size() && is_ascii(text[begin])) ++begin;
  std::size_t end = begin;
  while (end < text.size() && !is_ascii(text[end])) ++end;
  return {begin > from && begin < text.size() ? begin - 1 : begin, end};
}

[[noreturn]] void fail(utf8proc_ssize_t error) { throw std::runtime_error(utf8proc_errmsg(error)); }

void append_normalized(std::string_view text, int options, std::string& result) {
  thread_local std::vector<utf8proc_int32_t> characters;
  const auto* const bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  const auto option = static_cast<utf8proc_option_t>(options);
  utf8proc_ssize_t count =
      utf8proc_decompose(bytes, size, characters.data(), static_cast<utf8proc_ssize_t>(characters.size()), option);
  if (count > static_cast<utf8proc_ssize_t>(characters.size())) {
    characters.resize(static_cast<std::size_t>(count) + 64);
    count = utf8proc_decompose(bytes, size, characters.data(), static_cast<utf8proc_ssize_t>(characters.size()), option);
  }
  if (count < 0) fail(count);
  count = utf8proc_normalize_utf32(characters.data(), count, option);
  if (count < 0) fail(count);
  for (utf8proc_ssize_t index = 0; index < count; ++index) {
    utf8proc_uint8_t encoded[4];
    const utf8proc_ssize_t length = utf8proc_encode_char(characters[static_cast<std::size_t>(index)], encoded);
    result.append(reinterpret_cast<const char*>(encoded), static_cast<std::size_t>(length));
  }
}

/// Characters that Hugging Face's library, which has older tables, takes for ones that nothing combines with.
struct Characters {
  char32_t first, last;
};
constexpr Characters kUncombined[] = {
#include "levin/text/unicode/uncombined_characters.inc"
};

bool is_uncombined(char32_t character) {
  if (character < kUncombined[0].first) return false;
  const auto* const place = std::ranges::lower_bound(kUncombined, character, {}, &Characters::last);
  return place != std::end(kUncombined) && place->first <= character;
}

/// What is between those is normalized alone.
void append_in_parts(std::string_view text, int options, std::string& result) {
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    utf8proc_int32_t character = 0;
    const auto* const bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at);
    const utf8proc_ssize_t length = utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size() - at), &character);
    if (length < 0) fail(length);
    const std::size_t end = at + static_cast<std::size_t>(length);
    if (is_uncombined(static_cast<char32_t>(character))) {
      append_normalized(text.substr(begin, at - begin), options, result);
      result.append(text.substr(at, end - at));
      begin = end;
    }
    at = end;
  }
  append_normalized(text.substr(begin), options, result);
}

}  // namespace

void normalize(std::string_view text, NormalForm form, std::string& result) {
  const int options = options_of(form);
  std::size_t at = 0;
  while (at < text.size()) {
    // No normal form changes ASCII, and nothing combines across it but an accent with the character before.
    const auto [begin, end] = next_run(text, at);
    result.append(text.substr(at, begin - at));
    if (begin < end) append_in_parts(text.substr(begin, end - begin), options, result);
    at = end;
  }
}

}  // namespace levin::unicode
