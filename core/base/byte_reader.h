#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "levin/core/base/error.h"

namespace levin {

/// Appends a number, or a plain struct, as it lies in memory. For messages between processes of one build.
template <class Bytes, class Number>
void append_number(Bytes& bytes, const Number& number) {
  static_assert(std::is_trivially_copyable_v<Number>);
  const auto* const first = reinterpret_cast<const typename Bytes::value_type*>(&number);
  bytes.insert(bytes.end(), first, first + sizeof number);
}

/// Appends a text after its length.
template <class Bytes>
void append_text(Bytes& bytes, std::string_view text) {
  append_number(bytes, static_cast<std::uint32_t>(text.size()));
  const auto* const first = reinterpret_cast<const typename Bytes::value_type*>(text.data());
  bytes.insert(bytes.end(), first, first + text.size());
}

/// Parses what these have made; nothing is read beyond it.
class ByteReader {
 public:
  /// `too_short`: the DesyncError for reading past the end.
  ByteReader(std::string_view bytes, const char* too_short) : rest_(bytes), too_short_(too_short) {}
  ByteReader(std::span<const std::byte> bytes, const char* too_short)
      : ByteReader(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()), too_short) {}

  template <class Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() { return std::string(take(number<std::uint32_t>())); }
  /// Bytes that were not read yet.
  std::size_t left() const { return rest_.size(); }
  std::string_view take(std::size_t size) {
    if (size > rest_.size()) throw DesyncError(too_short_);
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

 private:
  std::string_view rest_;
  const char* too_short_;
};

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
