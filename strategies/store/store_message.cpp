#include "levin/strategies/store/store_message.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

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
  if (count > body.left() / sizeof(std::uint32_t)) throw DesyncError("it announced more texts than arrived");
  std::vector<std::string> texts;
  texts.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) texts.push_back(body.text());
  return texts;
}

void require(bool fits) {
  if (!fits) throw DesyncError("its message does not fit its request");
}

constexpr std::size_t kLongestError = 16 << 10;
/// What is longer is not looked at.
constexpr std::size_t kLongestValue = 256 << 10;

Whereabouts read_where(ByteReader& value) {
  const auto where = value.number<Whereabouts>();
  require(where.stage <= Stage::kPredict && where.hook < Hook::kCount);
  return where;
}

bool read_flag(ByteReader& value) { return value.number<std::uint8_t>() != 0; }

template <class Value, class Read>
std::optional<Value> read_value(const std::string& text, Read read) {
  if (text.size() > kLongestValue) return std::nullopt;
  try {
    ByteReader bytes(text, "it ends too early");
    Value value = read(bytes);
    return bytes.left() == 0 ? std::optional(std::move(value)) : std::nullopt;
  } catch (const DesyncError&) {
    return std::nullopt;
  }
}

}  // namespace

std::string encode(const StoreMessage& message) {
  std::string body;
  append_number(body, message.call);
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
    throw DesyncError("it does not speak levin's protocol");
  }
  if (bytes_.size() < kPrefixBytes) return std::nullopt;
  std::uint32_t length = 0;
  std::memcpy(&length, bytes_.data() + sizeof kMagic, sizeof length);
  if (length > limit) {
    throw DesyncError(format("it announced a message of {} bytes, where the limit is {}", length, limit));
  }
  if (bytes_.size() - kPrefixBytes < length) return std::nullopt;
  ByteReader body(std::string_view(bytes_).substr(kPrefixBytes, length), "it ends too early");
  StoreMessage message{.call = body.number<StoreCall>()};
  if (message.call < StoreCall::kHello || message.call > StoreCall::kRefused) {
    throw DesyncError("its message is of an unknown kind");
  }
  message.number = body.number<std::int64_t>();
  message.keys = read_texts(body);
  message.values = read_texts(body);
  if (body.left() > 0) throw DesyncError("bytes are left after its end");
  bytes_.erase(0, kPrefixBytes + length);
  return message;
}

std::int64_t StoreTable::add(const std::string& key, std::int64_t number) {
  std::int64_t sum = 0;
  if (const auto place = values_.find(key); place != values_.end()) {
    const std::string& text = place->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sum);
    if (error != std::errc() || end != text.data() + text.size()) throw DesyncError("it adds to a value that is not a number");
  }
  if (__builtin_add_overflow(sum, number, &sum)) throw DesyncError("it adds more than a number can hold");
  values_[key] = std::to_string(sum);
  return sum;
}

std::vector<std::string> StoreTable::values(const std::vector<std::string>& keys) const {
  std::vector<std::string> found;
  for (const std::string& key : keys) found.push_back(values_.at(key));
  return found;
}

StoreMessage StoreTable::answer(const StoreMessage& request) {
  const std::vector<std::string>& keys = request.keys;
  switch (request.call) {
    case StoreCall::kSet:
      require(keys.size() == request.values.size());
      for (std::size_t i = 0; i < keys.size(); ++i) values_[keys[i]] = request.values[i];
      return {};
    case StoreCall::kCheck:
      return {.number = std::all_of(keys.begin(), keys.end(), [&](const std::string& key) { return has(key); }) ? 1 : 0};
    case StoreCall::kAdd:
      require(keys.size() == 1);
      return {.number = add(keys[0], request.number)};
    case StoreCall::kCompareSet: {
      require(keys.size() == 1 && request.values.size() == 2);
      const auto place = values_.find(keys[0]);
      // As c10d's stores do: a missing key compares as empty, and the value of another is returned.
      if (place == values_.end() ? !request.values[0].empty() : place->second != request.values[0]) {
        return {.values = {place == values_.end() ? request.values[0] : place->second}};
      }
      values_[keys[0]] = request.values[1];
      return {.values = {request.values[1]}};
    }
    case StoreCall::kRemove:
      require(keys.size() == 1);
      return {.number = static_cast<std::int64_t>(values_.erase(keys[0]))};
    case StoreCall::kCount:
      return {.number = static_cast<std::int64_t>(values_.size())};
    default:
      throw DesyncError("its message is not a call");
  }
}

std::string to_text(const RankPost& post) {
  std::string bytes;
  append_number(bytes, post.number);
  append_number(bytes, post.where);
  append_number(bytes, post.waits);
  append_number(bytes, post.reduction);
  append_text(bytes, post.line);
  return bytes;
}

std::optional<RankPost> post_from_text(const std::string& text) {
  return read_value<RankPost>(text, [](ByteReader& bytes) {
    return RankPost{bytes.number<std::int64_t>(), read_where(bytes), read_flag(bytes), bytes.number<std::int64_t>(),
                    bytes.text()};
  });
}

std::string to_text(const FailureRecord& failure) {
  std::string bytes;
  append_number(bytes, failure.rank);
  append_number(bytes, failure.where);
  append_text(bytes, failure.error.substr(0, kLongestError));
  append_number(bytes, failure.is_final);
  append_number(bytes, failure.is_lost);
  return bytes;
}

std::optional<FailureRecord> failure_from_text(const std::string& text, int ranks) {
  return read_value<FailureRecord>(text, [ranks](ByteReader& bytes) {
    const FailureRecord failure{bytes.number<int>(), read_where(bytes), bytes.text(), read_flag(bytes), read_flag(bytes)};
    require(failure.rank >= 0 && failure.rank < ranks);
    return failure;
  });
}

}  // namespace levin
