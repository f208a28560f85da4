#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace levin::detail {

/// Tokens of words that came before: a table in which a word has one place, and takes that of another. Words are short, so that
/// a place is a line of the processor's cache.
class WordCache {
 public:
  /// Appends the tokens of a word; false: it is not here.
  bool append(std::string_view word, std::vector<std::int64_t>& tokens) {
    if (word.size() > kLongest) return false;
    const Place& place = places_[place_of(word)];
    if (place.length != word.size() || std::memcmp(place.word.data(), word.data(), word.size()) != 0) return false;
    tokens.insert(tokens.end(), place.tokens.begin(), place.tokens.begin() + place.count);
    return true;
  }

  void add(std::string_view word, const std::int64_t* tokens, std::size_t count) {
    if (word.size() > kLongest || count > kMostTokens) return;
    Place& place = places_[place_of(word)];
    place.length = static_cast<std::uint8_t>(word.size());
    place.count = static_cast<std::uint8_t>(count);
    std::memcpy(place.word.data(), word.data(), word.size());
    for (std::size_t index = 0; index < count; ++index) place.tokens[index] = static_cast<std::uint32_t>(tokens[index]);
  }

 private:
  static constexpr std::size_t kLongest = 30;
  static constexpr std::size_t kMostTokens = 8;
  static constexpr std::size_t kPlaces = std::size_t{1} << 15U;

  struct alignas(64) Place {
    std::uint8_t length = 0;  ///< 0: empty, as no word is
    std::uint8_t count = 0;
    std::array<char, kLongest> word;
    std::array<std::uint32_t, kMostTokens> tokens;
  };

  static std::size_t place_of(std::string_view word) {
    std::uint64_t hash = word.size();
    const char* at = word.data();
    for (std::size_t left = word.size(); left > 0;) {
      std::uint64_t part = 0;
      const std::size_t count = left < 8 ? left : 8;
      std::memcpy(&part, at, count);
      hash = (hash ^ part) * 0x9e3779b97f4a7c15U;
      hash ^= hash >> 29U;
      at += count;
      left -= count;
    }
    return hash >> 40U & (kPlaces - 1);
  }

  std::vector<Place> places_ = std::vector<Place>(kPlaces);
};

}  // namespace levin::detail
