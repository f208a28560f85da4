#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "levin/text/unicode/unicode_library.h"
#include "levin/text/utf8.h"

namespace levin::detail {

/// What one thread needs to search for patterns.
class PatternMatcher {
 public:
  explicit PatternMatcher(const UnicodeLibrary& unicode)
      : unicode_(unicode), matcher_(unicode.make_matcher(), unicode.release_matcher) {}
  const UnicodeLibrary& unicode() const { return unicode_; }
  void* get() const { return matcher_.get(); }

 private:
  const UnicodeLibrary& unicode_;
  std::unique_ptr<void, void (*)(void*)> matcher_;
};

/// A compiled regular expression.
class Pattern {
 public:
  /// Throws std::runtime_error for one that is wrong or not supported.
  Pattern(std::string_view expression, const UnicodeLibrary& unicode) : code_(unicode.compile(expression), unicode.release) {}

  /// Calls `take(begin, end)` for each match, one after another. An empty one right behind another is left out.
  template <class Take>
  void for_each_match(std::string_view text, const PatternMatcher& matcher, Take take) const {
    std::size_t at = 0;
    std::optional<std::size_t> last_end;
    PatternMatch match;
    while (at <= text.size() && matcher.unicode().find(code_.get(), matcher.get(), text, at, match)) {
      if (match.begin == match.end && last_end == match.end) {
        at += at < text.size() ? valid_length(text[at]) : 1;
        continue;
      }
      at = match.end;
      last_end = match.end;
      take(match.begin, match.end);
    }
  }

 private:
  std::unique_ptr<void, void (*)(void*)> code_;
};

}  // namespace levin::detail
