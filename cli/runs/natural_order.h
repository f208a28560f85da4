#pragma once

#include <algorithm>
#include <cctype>
#include <string_view>
#include <tuple>

namespace levin::cli {

/// True where `one` comes before `other` in natural order: digits in them count as numbers, so that version_2 comes before
/// version_10.
inline bool comes_before(std::string_view one, std::string_view other) {
  const auto is_digit = [](char letter) { return std::isdigit(static_cast<unsigned char>(letter)) != 0; };
  const auto take_number = [&](std::string_view& text) {
    const std::string_view digits = text.substr(0, std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
    text.remove_prefix(digits.size());
    return digits.substr(std::min(digits.find_first_not_of('0'), digits.size()));
  };
  while (!one.empty() && !other.empty()) {
    if (is_digit(one.front()) && is_digit(other.front())) {
      const std::string_view left = take_number(one), right = take_number(other);
      if (left != right) return std::tuple(left.size(), left) < std::tuple(right.size(), right);
    } else if (one.front() != other.front()) {
      return one.front() < other.front();
    } else {
      one.remove_prefix(1);
      other.remove_prefix(1);
    }
  }
  return one.size() < other.size();
}

}  // namespace levin::cli
