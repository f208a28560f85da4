#include "levin/strategies/store/store_message.h"

#include <algorithm>
#include <cstring>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {

namespace {

constexpr std::uint32_t kMagic = 0x5356454c;  // "LEVS"
constexpr std::size_t kPrefixBytes = 2 * sizeof(std::uint32_t);

void append_texts(std::string& bytes, const std::vector<std::string>& texts) {
  append_number(bytes, static_cast<std::uint32_t>(texts.size()));
  for (const std::string& text : texts) append_text(bytes, text);
}

std::vector<std::string> read_texts(ByteReader& body) {
  const auto count = body.number<std::uint32_t>();
  // Each text is at least its length; nothing is reserved beyond what arrived.
  if (count > body.left() / sizeof(std::uint32_t)) throw DesyncError("it says that there are more texts than arrived");
  std::vector<std::string> texts;
  texts.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) texts.push_back(body.text());
  return texts;
}

bool is_call(std::uint8_t value) {
  return (value >= static_cast<std::uint8_t>(StoreCall::kHello) && value <= static_cast<std::uint8_t>(StoreCall::kCount)) ||
         (value >= static_cast<std::uint8_t>(StoreCall::kDone) && value <= static_cast<std::uint8_t>(StoreCall::kRefused));
}

}  // namespace

std::string encode(const StoreMessage& message) {
  std::string body;
  append_number(body, static_cast<std::uint8_t>(message.call));
  append_number(body, message.number);
  append_texts(body, message.keys);
  append_texts(body, message.values);
  std::string bytes;
  append_number(bytes, kMagic);
  append_number(bytes, static_cast<std::uint32_t>(body.size()));
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
  ByteReader body(std::string_view(bytes_).substr(kPrefixBytes, length), "it ends too early");
  const auto call = body.number<std::uint8_t>();
  if (!is_call(call)) throw DesyncError("its message is of no known kind");
  StoreMessage message;
  message.call = static_cast<StoreCall>(call);
  message.number = body.number<std::int64_t>();
  message.keys = read_texts(body);
  message.values = read_texts(body);
  if (body.left() > 0) throw DesyncError("bytes are left after its end");
  bytes_.erase(0, kPrefixBytes + length);
  return message;
}

}  // namespace levin
