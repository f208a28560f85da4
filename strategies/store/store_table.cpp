#include "levin/strategies/store/store_table.h"

#include <algorithm>
#include <charconv>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {

namespace {

/// What a key costs beside its text and its value's.
constexpr std::size_t kOverhead = 128;

void require(bool fits) {
  if (!fits) throw DesyncError("its message does not fit what it asks for");
}

}  // namespace

void StoreTable::put(const std::string& key, std::string value) {
  const auto place = values_.find(key);
  const std::size_t before = place == values_.end() ? 0 : kOverhead + key.size() + place->second.size();
  const std::size_t after = kOverhead + key.size() + value.size();
  if (bytes_ - before + after > most_bytes_) {
    throw DesyncError(format("the run's store is full: it holds at most {} bytes", most_bytes_));
  }
  bytes_ = bytes_ - before + after;
  values_[key] = std::move(value);
}

std::int64_t StoreTable::add(const std::string& key, std::int64_t number) {
  std::int64_t sum = 0;
  if (const auto place = values_.find(key); place != values_.end()) {
    const std::string& text = place->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sum);
    if (error != std::errc() || end != text.data() + text.size()) throw DesyncError("it adds to what is no number");
  }
  if (__builtin_add_overflow(sum, number, &sum)) throw DesyncError("it adds more than a number can hold");
  put(key, std::to_string(sum));
  return sum;
}

std::vector<std::string> StoreTable::values(const std::vector<std::string>& keys) const {
  std::vector<std::string> found;
  std::size_t bytes = 0;
  for (const std::string& key : keys) {
    bytes += found.emplace_back(values_.at(key)).size();
    if (bytes > most_bytes_) throw DesyncError("it asks for more than the store may hold");
  }
  return found;
}

StoreMessage StoreTable::answer(const StoreMessage& request) {
  const std::vector<std::string>& keys = request.keys;
  switch (request.call) {
    case StoreCall::kSet:
      require(keys.size() == request.values.size());
      for (std::size_t i = 0; i < keys.size(); ++i) put(keys[i], request.values[i]);
      return {};
    case StoreCall::kAppend:
      require(keys.size() == request.values.size());
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const auto place = values_.find(keys[i]);
        put(keys[i], (place == values_.end() ? std::string() : place->second) + request.values[i]);
      }
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
      put(keys[0], request.values[1]);
      return {.values = {request.values[1]}};
    }
    case StoreCall::kRemove: {
      require(keys.size() == 1);
      const auto place = values_.find(keys[0]);
      if (place == values_.end()) return {};
      bytes_ -= kOverhead + keys[0].size() + place->second.size();
      values_.erase(place);
      return {.number = 1};
    }
    case StoreCall::kCount:
      return {.number = static_cast<std::int64_t>(values_.size())};
    default:
      throw DesyncError("its message is no call");
  }
}

}  // namespace levin
