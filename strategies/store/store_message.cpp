#include "levin/strategies/store/store_message.h"

#include <algorithm>
#include <cstring>

#include "levin/core/base/format.h"
#include "levin/core/error.h"

namespace levin {

namespace {

constexpr std::uint32_t kMagic = 0x5356454c;  // "LEVS"
constexpr std::size_t kPrefixBytes = 2 * sizeof(std::uint32_t);

template <class Number>
void append(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void append_texts(std::string& bytes, const std::vector<std::string>& texts) {
  append(bytes, static_cast<std::uint32_t>(texts.size()));
  for (const std::string& text : texts) {
    append(bytes, static_cast<std::uint32_t>(text.size()));
    bytes += text;
  }
}

/// Takes apart what arrived; nothing is read or reserved beyond it.
class Body {
 public:
  explicit Body(std::string_view rest) : rest_(rest) {}

  template <class Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::vector<std::string> texts() {
    const auto count = number<std::uint32_t>();
    // Each text is at least its length.
    if (count > rest_.size() / sizeof(std::uint32_t)) throw DesyncError("it says that there are more texts than arrived");
    std::vector<std::string> texts;
    texts.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i) texts.emplace_back(take(number<std::uint32_t>()));
    return texts;
  }
  void end() const {
    if (!rest_.empty()) throw DesyncError("bytes are left after its end");
  }

 private:
  std::string_view take(std::size_t size) {
    if (size > rest_.size()) throw DesyncError("it ends too early");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  std::string_view rest_;
};

bool is_call(std::uint8_t value) {
  return (value >= static_cast<std::uint8_t>(StoreCall::kHello) && value <= static_cast<std::uint8_t>(StoreCall::kCount)) ||
         (value >= static_cast<std::uint8_t>(StoreCall::kDone) && value <= static_cast<std::uint8_t>(StoreCall::kRefused));
}

}  // namespace

std::string encode(const StoreMessage& message) {
  std::string body;
  append(body, static_cast<std::uint8_t>(message.call));
  append(body, message.number);
  append_texts(body, message.keys);
  append_texts(body, message.values);
  std::string bytes;
  append(bytes, kMagic);
  append(bytes, static_cast<std::uint32_t>(body.size()));
  return bytes + body;
}

std::optional<StoreMessage> StoreMessageReader::next(std::size_t limit) {
  // Something that speaks another language shows by its first bytes, however few.
  if (std::memcmp(bytes_.data(), &kMagic, std::min(bytes_.size(), sizeof kMagic)) != 0) {
    throw DesyncError("it does not speak levin's language");
  }
  if (bytes_.size() < kPrefixBytes) return std::nullopt;
  std::uint32_t length = 0;
  std::memcpy(&length, bytes_.data() + sizeof kMagic, sizeof length);
  if (length > limit) {
    throw DesyncError(format("it announced a message of {} bytes, where {} are the most", length, limit));
  }
  if (bytes_.size() - kPrefixBytes < length) return std::nullopt;
  Body body(std::string_view(bytes_).substr(kPrefixBytes, length));
  const auto call = body.number<std::uint8_t>();
  if (!is_call(call)) throw DesyncError("its message is of no known kind");
  StoreMessage message;
  message.call = static_cast<StoreCall>(call);
  message.number = body.number<std::int64_t>();
  message.keys = body.texts();
  message.values = body.texts();
  body.end();
  bytes_.erase(0, kPrefixBytes + length);
  return message;
}

}  // namespace levin
