#include "levin/strategies/store/store_message.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

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

void require(bool fits) {
  if (!fits) throw DesyncError("its message does not fit what it asks for");
}

using Json = nlohmann::json;

constexpr std::size_t kLongestError = 16 << 10;

/// JSON itself holds numbers of any kind and size, and a cast would take each for another.
std::int64_t whole_number(const Json& json, std::int64_t least, std::int64_t most) {
  const bool fits = json.is_number_unsigned()
                        ? json.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())
                        : json.is_number_integer();
  if (!fits || json.get<std::int64_t>() < least || json.get<std::int64_t>() > most) throw std::out_of_range("number");
  return json.get<std::int64_t>();
}

std::int64_t any_number(const Json& json) {
  return whole_number(json, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
}

Json to_json(const Whereabouts& where) {
  return {static_cast<int>(where.stage), static_cast<int>(where.hook), where.epoch, where.step};
}

Whereabouts to_whereabouts(const Json& json) {
  return {static_cast<Stage>(whole_number(json.at(0), 0, static_cast<int>(Stage::kPredict))),
          static_cast<Hook>(whole_number(json.at(1), 0, static_cast<int>(Hook::kCount) - 1)), any_number(json.at(2)),
          any_number(json.at(3))};
}

/// An error's text may hold any bytes; JSON holds UTF-8 only.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

template <class Value, class Read>
std::optional<Value> read_value(const std::string& text, Read read_json) {
  if (text.size() > kLongestStoreValue) return std::nullopt;
  try {
    return read_json(Json::parse(text));
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const std::out_of_range&) {
    return std::nullopt;
  }
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

std::int64_t StoreTable::add(const std::string& key, std::int64_t number) {
  std::int64_t sum = 0;
  if (const auto place = values_.find(key); place != values_.end()) {
    const std::string& text = place->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sum);
    if (error != std::errc() || end != text.data() + text.size()) throw DesyncError("it adds to what is no number");
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
      // As c10d's own stores do: a key that is not there holds nothing, and another's value is told.
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
      throw DesyncError("its message is no call");
  }
}

std::string to_text(const RankPost& post) {
  return dump({{"number", post.number},
               {"where", to_json(post.where)},
               {"waits", post.waits},
               {"reduction", post.reduction},
               {"line", post.line}});
}

std::optional<RankPost> post_from_text(const std::string& text) {
  return read_value<RankPost>(text, [](const Json& json) {
    return RankPost{any_number(json.at("number")), to_whereabouts(json.at("where")), json.at("waits").get<bool>(),
                    any_number(json.at("reduction")), json.at("line").get<std::string>()};
  });
}

std::string to_text(const FailureRecord& failure) {
  return dump({{"rank", failure.rank},
               {"where", to_json(failure.where)},
               {"error", failure.error.substr(0, kLongestError)},
               {"is_final", failure.is_final},
               {"is_lost", failure.is_lost}});
}

std::optional<FailureRecord> failure_from_text(const std::string& text, int ranks) {
  return read_value<FailureRecord>(text, [ranks](const Json& json) {
    return FailureRecord{static_cast<int>(whole_number(json.at("rank"), 0, ranks - 1)), to_whereabouts(json.at("where")),
                         json.at("error").get<std::string>(), json.value("is_final", false), json.value("is_lost", false)};
  });
}

}  // namespace levin
