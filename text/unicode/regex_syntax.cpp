#include "levin/text/unicode/regex_syntax.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <stdexcept>
#include <utility>
#include <vector>

#include "levin/core/base/text.h"

namespace levin::unicode {
namespace {

using Names = std::pair<std::string_view, std::string_view>;

// The members of sets, as they stand between brackets.
constexpr std::string_view kSpace =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
// With what Unicode 15 and later call alphabetic and lower case.
#define LEVIN_ALPHABETIC R"(\p{Alphabetic}\x{363}-\x{36f}\x{c04}\x{f82}\x{f83}\x{1dd3}-\x{1de6}\x{11080}\x{11081})"
constexpr std::string_view kAlphabetic = LEVIN_ALPHABETIC;
constexpr std::string_view kAlphanumeric = LEVIN_ALPHABETIC R"(\p{Nd})";
constexpr std::string_view kWordOfPosix = LEVIN_ALPHABETIC R"(\p{M}\p{Nd}\p{Pc})";
// ² ³ ¹ ¼ ½ ¾ are words for \w and \p{Word}, outside of brackets.
constexpr std::string_view kWord = LEVIN_ALPHABETIC R"(\p{M}\p{Nd}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
#undef LEVIN_ALPHABETIC
constexpr std::string_view kLowercase = R"(\p{Lowercase}\x{10fc}\x{a7f2}-\x{a7f4}\x{ab69})";
constexpr std::string_view kDigit = R"(\p{Nd})";
constexpr std::string_view kHexadecimal = "0-9a-fA-F";

/// Oniguruma's names of properties, without case, blanks, - and _, and what they are between brackets.
constexpr std::array kProperties = {
    Names{"letter", R"(\p{L})"},
    Names{"casedletter", R"(\p{Lu}\p{Ll}\p{Lt})"},
    Names{"lc", R"(\p{Lu}\p{Ll}\p{Lt})"},
    Names{"uppercaseletter", R"(\p{Lu})"},
    Names{"lowercaseletter", R"(\p{Ll})"},
    Names{"titlecaseletter", R"(\p{Lt})"},
    Names{"modifierletter", R"(\p{Lm})"},
    Names{"otherletter", R"(\p{Lo})"},
    Names{"mark", R"(\p{M})"},
    Names{"combiningmark", R"(\p{M})"},
    Names{"nonspacingmark", R"(\p{Mn})"},
    Names{"spacingmark", R"(\p{Mc})"},
    Names{"enclosingmark", R"(\p{Me})"},
    Names{"number", R"(\p{N})"},
    Names{"decimalnumber", R"(\p{Nd})"},
    Names{"letternumber", R"(\p{Nl})"},
    Names{"othernumber", R"(\p{No})"},
    Names{"punctuation", R"(\p{P})"},
    Names{"connectorpunctuation", R"(\p{Pc})"},
    Names{"dashpunctuation", R"(\p{Pd})"},
    Names{"openpunctuation", R"(\p{Ps})"},
    Names{"closepunctuation", R"(\p{Pe})"},
    Names{"initialpunctuation", R"(\p{Pi})"},
    Names{"finalpunctuation", R"(\p{Pf})"},
    Names{"otherpunctuation", R"(\p{Po})"},
    Names{"symbol", R"(\p{S})"},
    Names{"mathsymbol", R"(\p{Sm})"},
    Names{"currencysymbol", R"(\p{Sc})"},
    Names{"modifiersymbol", R"(\p{Sk})"},
    Names{"othersymbol", R"(\p{So})"},
    Names{"separator", R"(\p{Z})"},
    Names{"spaceseparator", R"(\p{Zs})"},
    Names{"lineseparator", R"(\p{Zl})"},
    Names{"paragraphseparator", R"(\p{Zp})"},
    Names{"other", R"(\p{C})"},
    Names{"control", R"(\p{Cc})"},
    Names{"format", R"(\p{Cf})"},
    Names{"surrogate", R"(\p{Cs})"},
    Names{"privateuse", R"(\p{Co})"},
    Names{"unassigned", R"(\p{Cn})"},
    Names{"any", R"(\x{0}-\x{10ffff})"},
    Names{"alpha", kAlphabetic},
    Names{"alphabetic", kAlphabetic},
    Names{"alnum", kAlphanumeric},
    Names{"word", kWord},
    Names{"space", kSpace},
    Names{"whitespace", kSpace},
    Names{"digit", kDigit},
    Names{"upper", R"(\p{Uppercase})"},
    Names{"lower", kLowercase},
    Names{"lowercase", kLowercase},
    Names{"punct", R"(\p{P})"},
    Names{"xdigit", kHexadecimal},
    Names{"ascii", R"(\x00-\x7f)"},
    Names{"cntrl", R"(\p{Cc})"},
};

/// Properties that PCRE2 knows by the same names, and that are no scripts.
constexpr std::array<std::string_view, 10> kBinaryProperties = {
    "uppercase",
    "emoji",
    "emojipresentation",
    "emojimodifier",
    "emojimodifierbase",
    "emojicomponent",
    "extendedpictographic",
    "ideographic",
    "dash",
    "math",
};

std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char letter : name) {
    if (letter == ' ' || letter == '-' || letter == '_') continue;
    plain += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return plain;
}

/// What a property is between brackets.
std::string members_of(std::string_view name) {
  const std::string plain = plain_name(name);
  const auto* const known = std::ranges::find(kProperties, plain, &Names::first);
  if (known != kProperties.end()) return std::string(known->second);
  const bool is_category = plain.size() <= 2;
  const bool is_binary = std::ranges::find(kBinaryProperties, plain) != kBinaryProperties.end();
  std::string member = R"(\p{)";
  if (!is_category && !is_binary) member += "sc:";
  return member.append(name).append("}");
}

/// What [:name:] is between brackets.
std::string members_of_posix(std::string_view name) {
  if (name == "punct") return R"(\p{P}\p{S})";
  return name == "word" ? std::string(kWordOfPosix) : members_of(name);
}

/// A set in brackets: what has one of its members, or is in none of the members of one of `others`.
struct Set {
  std::string members;
  std::vector<std::string> others;
  bool is_not = false;

  void add(const Set& within) {
    members += within.members;
    others.insert(others.end(), within.others.begin(), within.others.end());
  }
  /// As a pattern of PCRE2, which has no complement of a set within another.
  std::string pattern() const {
    if (others.empty()) return std::string(is_not ? "[^" : "[").append(members).append("]");
    std::string parts;
    if (is_not) {
      if (!members.empty()) parts.append("(?![").append(members).append("])");
      for (const std::string& other : others) parts.append("(?=[").append(other).append("])");
      return "(?:" + parts + R"(\p{Any}))";
    }
    for (const std::string& other : others) parts.append("|[^").append(other).append("]");
    return members.empty() ? "(?:" + parts.substr(1) + ")" : "(?:[" + members + "]" + parts + ")";
  }
};

class Translation {
 public:
  explicit Translation(std::string_view pattern) : pattern_(pattern) {}

  std::string result() {
    while (at_ < pattern_.size()) step();
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw std::runtime_error(std::string(what) + " is not supported in a pattern");
  }

  char next(std::size_t ahead = 0) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0'; }
  char take() { return pattern_[at_++]; }

  void step() {
    switch (next()) {
      case '\\':
        begin_atom();
        ++at_;
        escape();
        break;
      case '[':
        begin_atom();
        result_ += set().pattern();
        break;
      case '(':
        group();
        break;
      case ')':
        // A group is repeated from where it began.
        if (!groups_.empty()) {
          atom_ = groups_.back();
          groups_.pop_back();
        }
        result_ += take();
        break;
      case '{':
        interval();
        break;
      case '*':
      case '+':
      case '?':
      case '|':
      case '^':
      case '$':
        result_ += take();
        break;
      default:
        begin_atom();
        character();
    }
  }

  void begin_atom() { atom_ = result_.size(); }

  /// A character of UTF-8.
  void character() {
    result_ += take();
    while (at_ < pattern_.size() && is_utf8_continuation(pattern_[at_])) result_ += take();
  }

  void add_set(std::string_view members, bool is_not) { result_.append(is_not ? "[^" : "[").append(members).append("]"); }

  /// What follows a backslash, outside of brackets.
  void escape() {
    const char letter = next();
    if (letter == 'b' || letter == 'B') {
      ++at_;
      word_boundary(letter == 'B');
    } else if (const auto [members, is_not] = named_set(); !members.empty()) {
      add_set(members, is_not);
    } else {
      plain_escape();
    }
  }

  /// \b by Oniguruma's words.
  void word_boundary(bool is_not) {
    const std::string word = std::string("[").append(kWord).append("]");
    const std::string other = is_not ? "(?=" : "(?!";
    const std::string same = is_not ? "(?!" : "(?=";
    result_ += "(?:(?<=" + word + ")" + other + word + ")|(?<!" + word + ")" + same + word + "))";
  }

  /// The members of \s, \p{L} and so on, and whether it is the set of all others; empty, and nothing read, for another escape.
  std::pair<std::string, bool> named_set() {
    const char letter = next();
    const auto taken = [&](std::string_view members) {
      ++at_;
      return std::pair(std::string(members), std::isupper(static_cast<unsigned char>(letter)) != 0);
    };
    switch (letter) {
      case 's':
      case 'S':
        return taken(kSpace);
      case 'd':
      case 'D':
        return taken(kDigit);
      case 'w':
      case 'W':
        return taken(kWord);
      case 'h':
      case 'H':
        return taken(kHexadecimal);
      case 'p':
      case 'P':
        return property();
      default:
        return {};
    }
  }

  std::pair<std::string, bool> property() {
    bool is_not = take() == 'P';
    if (next() != '{') fail("a property without braces");
    const std::size_t end = pattern_.find('}', at_);
    if (end == std::string_view::npos) throw std::runtime_error("a property has no closing brace");
    std::string_view name = pattern_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    if (name.starts_with('^')) {
      is_not = !is_not;
      name.remove_prefix(1);
    }
    return {members_of(name), is_not};
  }

  /// An escape that is the same inside and outside of brackets.
  void plain_escape() {
    const char letter = next();
    if (letter == 'u') {
      if (at_ + 5 > pattern_.size()) throw std::runtime_error(R"(\u needs four digits)");
      result_.append(R"(\x{)").append(pattern_.substr(at_ + 1, 4)).append("}");
      at_ += 5;
    } else if (letter == 'x' && next(1) == '{') {
      const std::size_t end = pattern_.find('}', at_);
      if (end == std::string_view::npos) throw std::runtime_error(R"(\x{ has no closing brace)");
      result_.append(R"(\)").append(pattern_.substr(at_, end + 1 - at_));
      at_ = end + 1;
    } else if (letter == 'v') {
      ++at_;
      result_ += R"(\x0b)";
    } else if (letter == '\0') {
      throw std::runtime_error("the pattern ends with a backslash");
    } else if (std::string_view("QEGKNORXyYgCcM").find(letter) != std::string_view::npos) {
      fail((std::string("\\") + letter).c_str());
    } else {
      result_ += '\\';
      character();
    }
  }

  Set set() {
    check_depth();
    Set set;
    ++at_;
    set.is_not = next() == '^';
    if (set.is_not) ++at_;
    std::string outside = std::exchange(result_, "");
    for (bool is_first = true; next() != ']' || is_first; is_first = false) {
      if (at_ >= pattern_.size()) throw std::runtime_error("a set has no closing bracket");
      member(set);
    }
    ++at_;
    set.members += std::exchange(result_, std::move(outside));
    --depth_;
    return set;
  }

  void member(Set& set) {
    const char letter = next();
    if (letter == '[' && next(1) == ':') {
      posix_set(set);
    } else if (letter == '[') {
      const Set within = this->set();
      if (!within.is_not) {
        set.add(within);
      } else if (within.others.empty()) {
        set.others.push_back(within.members);
      } else {
        fail("such a set in a set");
      }
    } else if (letter == '&' && next(1) == '&') {
      fail("an intersection of sets");
    } else if (letter == '\\') {
      ++at_;
      set_escape(set);
    } else {
      if (letter == ']' || letter == '^') result_ += '\\';  // it may come to stand first
      character();
    }
  }

  void check_depth() {
    constexpr int kMostDepth = 50;
    if (++depth_ > kMostDepth) throw std::runtime_error("sets are nested too deep");
  }

  void set_escape(Set& set) {
    auto [members, is_not] = named_set();
    if (members == kWord) members = kWordOfPosix;
    if (members.empty()) {
      plain_escape();
    } else if (is_not) {
      set.others.push_back(members);
    } else {
      result_ += members;
    }
  }

  /// [:alpha:] in a set.
  void posix_set(Set& set) {
    const std::size_t end = pattern_.find(":]", at_);
    if (end == std::string_view::npos) throw std::runtime_error("a set has no closing bracket");
    std::string_view name = pattern_.substr(at_ + 2, end - at_ - 2);
    at_ = end + 2;
    if (name.starts_with('^')) {
      set.others.push_back(members_of_posix(name.substr(1)));
    } else {
      result_ += members_of_posix(name);
    }
  }

  void group() {
    groups_.push_back(result_.size());
    result_ += take();
    if (next() != '?') return;
    result_ += take();
    // Options: Oniguruma's m is PCRE2's s.
    while (std::string_view("imx-").find(next()) != std::string_view::npos && next() != '\0') {
      const char option = take();
      result_ += option == 'm' ? 's' : option;
    }
  }

  /// {2,3} after an atom; anything else is a brace.
  void interval() {
    std::size_t end = at_ + 1;
    while (end < pattern_.size() && (std::isdigit(static_cast<unsigned char>(pattern_[end])) != 0 || pattern_[end] == ','))
      ++end;
    const std::string_view bounds = pattern_.substr(at_ + 1, end - at_ - 1);
    if (end >= pattern_.size() || pattern_[end] != '}' || bounds.empty() || bounds == ",") {
      begin_atom();
      result_ += R"(\{)";
      ++at_;
      return;
    }
    at_ = end + 1;
    result_.append(bounds.starts_with(',') ? "{0" : "{").append(bounds).append("}");
    if (next() == '+') {
      // Any number of times so many, which PCRE2 would take for possessive.
      result_.insert(atom_, "(?:");
      result_ += ')';
    }
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  std::string result_;
  int depth_ = 0;                    ///< of sets in sets
  std::size_t atom_ = 0;             ///< where what may be repeated begins in the result
  std::vector<std::size_t> groups_;  ///< where open groups begin in it
};

}  // namespace

std::string in_pcre2_syntax(std::string_view pattern) { return Translation(pattern).result(); }

}  // namespace levin::unicode
