#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace levin {

/// FNV-1a over bytes that are given one after another: the same number on every host, unlike std::hash.
class Fnv1aHash {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) value_ = (value_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  }
  /// The bytes of a number or an enumerator, as they lie in memory.
  template <class Number>
  void add_number(Number number) {
    add({reinterpret_cast<const char*>(&number), sizeof number});
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace levin
