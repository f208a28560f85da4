#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "levin/strategies/store/store_message.h"

namespace levin {

/// The keys and values of a run's store, within a limit of memory.
class StoreTable {
 public:
  explicit StoreTable(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// Answers every call but kHello, kGet and kWait. Throws DesyncError where a message does not fit its call, or the store is
  /// full.
  StoreMessage answer(const StoreMessage& request);
  bool has(const std::string& key) const { return values_.contains(key); }
  /// Of keys that are there. Throws DesyncError when they are more than the store may hold: the same ones again and again.
  std::vector<std::string> values(const std::vector<std::string>& keys) const;

 private:
  void put(const std::string& key, std::string value);
  std::int64_t add(const std::string& key, std::int64_t number);

  std::size_t most_bytes_;
  std::size_t bytes_ = 0;
  std::unordered_map<std::string, std::string> values_;
};

}  // namespace levin
