#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "levin/core/base/hook.h"
#include "levin/strategies/failure/failure.h"

namespace levin {

/// Bytes of a message before its sender is known to be of the run: a hello with a token.
inline constexpr std::size_t kLargestHello = 1024;
/// Of any other. Gloo's addresses of N ranks are values of some 200 N bytes; an error text has up to 16 KiB.
inline constexpr std::size_t kLargestMessage = std::size_t{256} << 20;

/// The messages of a connection to the run's store.
enum class StoreCall : std::uint8_t {
  kHello = 1,   ///< number: the rank; keys: the number of ranks, the attempt; values: the run's token, build, process
  kSet,         ///< values[i] under keys[i]
  kGet,         ///< all keys' values, once they exist; number: milliseconds to wait for them
  kWait,        ///< the same without the values
  kCheck,       ///< do all keys exist?
  kAdd,         ///< number is added to what the key holds as text; no key: 0
  kCompareSet,  ///< values: what it must hold to be replaced (of a new key: empty), and by what
  kRemove,      ///< the key is gone; number of the answer: whether it existed
  kCount,       ///< the number of keys
  kDone,        ///< an answer: number and values are the result
  kMissing,     ///< an answer to kGet and kWait: the time is over; keys are the missing ones
  kRefused      ///< an answer, the last one: values says why; number: 1 when a later try may succeed
};

/// One message in either direction.
struct StoreMessage {
  StoreCall call = StoreCall::kDone;
  std::int64_t number = 0;
  std::vector<std::string> keys{};
  std::vector<std::string> values{};
};

/// The message as it travels: how long it is, then what it says.
std::string encode(const StoreMessage& message);

/// The received part of a peer's messages. Memory grows with received bytes, not with announced ones. Throws DesyncError when
/// the bytes are not a message, or one that is longer than `limit` bytes; its text is short, and does not name the peer.
class StoreMessageReader {
 public:
  void add(std::string_view bytes) { bytes_ += bytes; }
  std::optional<StoreMessage> next(std::size_t limit);
  bool is_empty() const { return bytes_.empty(); }

 private:
  std::string bytes_;
};

/// The keys and values of a run's store.
class StoreTable {
 public:
  /// Answers every call but kHello, kGet and kWait. Throws DesyncError where a message does not fit its call.
  StoreMessage answer(const StoreMessage& request);
  bool has(const std::string& key) const { return values_.contains(key); }
  /// Of existing keys.
  std::vector<std::string> values(const std::vector<std::string>& keys) const;

 private:
  std::int64_t add(const std::string& key, std::int64_t number);

  std::unordered_map<std::string, std::string> values_;
};

// The values of ranks on several hosts under the keys of the run's store. Any client can write to the store: malformed values
// count as missing.

/// Where a rank is, as it last posted it.
struct RankPost {
  std::int64_t number = 0;  ///< counts up; 0: nothing yet
  Whereabouts where;
  bool waits = false;
  std::int64_t reduction = 0;  ///< the gradient reduction it is in, counted from 1; 0 outside
  std::string line;            ///< for people
};

std::string to_text(const RankPost& post);
std::optional<RankPost> post_from_text(const std::string& text);

/// An error is cut where it is too long to be looked at.
std::string to_text(const FailureRecord& failure);
/// Of a run of `ranks` ranks.
std::optional<FailureRecord> failure_from_text(const std::string& text, int ranks);

}  // namespace levin
