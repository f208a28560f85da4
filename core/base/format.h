#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace levin {
namespace detail {

/// A std::filesystem::path, whose header takes long to read.
template <class T>
concept PathLike = requires(const T& value) {
  { value.native() } -> std::convertible_to<std::string_view>;
};

/// The argument of a `{}`. Refers to a text, which must live as long.
using FormatArgument = std::variant<bool, char, long long, unsigned long long, double, std::string_view>;

template <class T>
constexpr auto format_argument(const T& value) {
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, char>) {
    return value;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<std::conditional_t<std::is_signed_v<T>, long long, unsigned long long>>(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(value);
  } else if constexpr (PathLike<T>) {
    return std::string_view(value.native());
  } else {
    static_assert(std::is_convertible_v<const T&, std::string_view>, "format() takes numbers, texts, bools and paths");
    return std::string_view(value);
  }
}

/// What may end the specification of an argument of this type: "f" in "{:.3f}".
template <class T>
constexpr std::string_view format_types() {
  using Argument = decltype(format_argument(std::declval<const T&>()));
  if constexpr (std::is_floating_point_v<Argument>) return "fFgGeE";
  if constexpr (std::is_same_v<Argument, std::string_view> || std::is_same_v<Argument, bool>) return "s";
  if constexpr (std::is_same_v<Argument, char>) return "c";
  return "dxXob";
}

/// Why the pattern does not fit arguments of these types; empty when it does.
template <class... Arguments>
constexpr std::string_view pattern_error(std::string_view pattern) {
  constexpr std::array<std::string_view, sizeof...(Arguments)> kTypes = {format_types<Arguments>()...};
  std::size_t argument = 0;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    const char c = pattern[at];
    if (c != '{' && c != '}') continue;
    if (at + 1 < pattern.size() && pattern[at + 1] == c) {
      ++at;
      continue;
    }
    const std::size_t end = c == '{' ? pattern.find_first_of("{}", at + 1) : std::string_view::npos;
    if (end == std::string_view::npos || pattern[end] == '{') return "a brace alone; one that is meant is written twice";
    const std::string_view specification = pattern.substr(at + 1, end - at - 1);
    if (argument == kTypes.size()) return "more {} than arguments";
    if (!specification.empty()) {
      if (specification[0] != ':') return "a format specification in {} begins with a colon";
      const char last = specification.back();
      const bool has_type = (last >= 'a' && last <= 'z') || (last >= 'A' && last <= 'Z');
      if (has_type && kTypes[argument].find(last) == std::string_view::npos) return "not for an argument of this type";
    }
    ++argument;
    at = end;
  }
  return argument == kTypes.size() ? "" : "fewer {} than arguments";
}

/// No constant expression: a pattern that comes here does not compile.
inline void refuse_pattern() {}

/// A pattern that fits these arguments; any other does not compile.
template <class... Arguments>
class FormatPattern {
 public:
  template <std::convertible_to<std::string_view> Text>
  consteval FormatPattern(const Text& text) : text_(text) {  // NOLINT: a literal becomes a pattern by itself
    if (!pattern_error<Arguments...>(text_).empty()) refuse_pattern();
  }
  constexpr std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

std::string format_text(std::string_view pattern, const FormatArgument* arguments, std::size_t count);

/// An object, not a function, so that argument-dependent lookup does not also find std::format.
struct Format {
  template <class... Arguments>
  std::string operator()(FormatPattern<std::type_identity_t<Arguments>...> pattern, const Arguments&... arguments) const {
    const std::array<FormatArgument, sizeof...(Arguments)> all = {FormatArgument(format_argument(arguments))...};
    return format_text(pattern.text(), all.data(), all.size());
  }
};

}  // namespace detail

/// The pattern with each `{}` replaced by an argument: `format("rank {} did not come within {:.1f} s", rank, seconds)`. An
/// argument is a number, a text, a bool ("true"), a char or a path. A float is the shortest text that reads back to it ("1.0",
/// "1e-05"), unless the pattern says otherwise, as Python's and C++'s own do: "{:.3f}", "{:>8}", "{:02}". Write a literal brace
/// twice. A pattern that does not fit its arguments does not compile.
inline constexpr detail::Format format;

}  // namespace levin
