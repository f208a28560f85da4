#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace levin {

/// What a connection to the run's store asks for, or is told.
enum class StoreCall : std::uint8_t {
  kHello = 1,   ///< number: the rank; keys: the number of ranks, the attempt; values: the run's token, build, process
  kSet,         ///< values[i] under keys[i]
  kGet,         ///< all keys' values, once they are there; number: milliseconds to wait for them
  kWait,        ///< the same without the values
  kCheck,       ///< are all keys there?
  kAdd,         ///< number is added to what the key holds as text; no key: 0
  kCompareSet,  ///< values: what it must hold to be replaced (of a new key: empty), and by what
  kAppend,      ///< values[i] at the end of what keys[i] holds
  kRemove,      ///< the key is gone; number of the answer: whether it was there
  kCount,       ///< how many keys are there
  kDone = 64,   ///< an answer: number and values are what was asked for
  kMissing,     ///< an answer to kGet and kWait: the time is over; keys are those that are not there
  kRefused      ///< an answer, the last one: values says why; number: 1 when a later try may be welcome
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

/// What has arrived of a peer's messages. Memory follows what has come, not what a peer says will come. Throws DesyncError
/// where the bytes are no message, or one that is longer than `limit` bytes; its text is short, and says nothing of the peer.
class StoreMessageReader {
 public:
  void add(std::string_view bytes) { bytes_ += bytes; }
  std::optional<StoreMessage> next(std::size_t limit);
  bool is_empty() const { return bytes_.empty(); }

 private:
  std::string bytes_;
};

}  // namespace levin
