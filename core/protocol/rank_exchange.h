#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "levin/core/export.h"
#include "levin/core/protocol/control_group.h"

namespace levin {

/// One call in which all ranks meet. It cannot be made without the reason for which every rank comes to it: a rank that does
/// not would leave the others waiting.
class LEVIN_API Meeting {
 public:
  /// `what`: "opening a logger". `every_rank`: completes "every rank comes here, since …". Both stand in the table of a stalled
  /// run and in errors, where they tell a person what a rank waits for and which rule a rank that is missing has broken.
  Meeting(const std::string& what, const std::string& every_rank);
  const char* text() const { return text_.c_str(); }

 private:
  std::string text_;
};

/// The first line in which a rank's text differs from rank 0's. The same on all ranks.
struct LEVIN_API RankDifference {
  int rank = 0;
  std::size_t line = 0;  ///< counted from 1
  std::string first;     ///< rank 0's; "nothing more" where its text ends before
  std::string other;     ///< that rank's

  /// "Rank 0 has `seed: 1`, rank 2 has `seed: 3` (line 4)"
  std::string str() const;
};

/// How the runtime and callbacks exchange what is no metric: everything outside of strategies and the protocol that waits for
/// other ranks goes through here or through a boundary. A group of one exchanges nothing.
/// Ranks: all, for every method, in the same order. Throws DesyncError, as ControlGroup's do.
class LEVIN_API RankExchange {
 public:
  /// The longest text that a rank may announce, in bytes.
  static constexpr std::uint64_t kLongestText = std::uint64_t{64} << 20;

  explicit RankExchange(ControlGroup& group) : group_(group) {}

  /// One text of any bytes from each rank, in the order of ranks, on every rank. Two exchanges. A rank that announces more than
  /// `longest` bytes is an error on all.
  std::vector<std::string> gather_text(const std::string& mine, const Meeting& meeting, std::uint64_t longest = kLongestText);
  /// The same for what only rank 0 needs, as the writer of a file does: on other ranks no text at all. One exchange.
  std::vector<std::string> gather_text_to_rank_zero(const std::string& mine, const Meeting& meeting,
                                                    std::uint64_t longest = kLongestText);
  /// Rank 0's text, on every rank; what others give does not matter. One exchange.
  std::string broadcast_text(const std::string& mine, const Meeting& meeting, std::uint64_t longest = kLongestText);
  /// Every rank's bytes, one after another; each rank gives as many. One exchange.
  std::vector<std::byte> gather_bytes(std::span<const std::byte> mine, const Meeting& meeting);
  /// Every rank's value, in the order of ranks. `Value` is plain bytes without pointers. One exchange.
  template <class Value>
  std::vector<Value> gather_values(const Value& mine, const Meeting& meeting);
  /// Rank 0's value, on every rank. One exchange.
  template <class Value>
  Value broadcast_value(const Value& mine, const Meeting& meeting);

  /// Compares a text of all ranks: one exchange when all have the same. Else every rank's, by rank.
  std::optional<std::vector<std::string>> gather_if_different(const std::string& mine, const Meeting& meeting);
  /// The same, with the first line that differs.
  std::optional<RankDifference> first_difference(const std::string& mine, const Meeting& meeting);

 private:
  ControlGroup& group_;
};

template <class Value>
std::vector<Value> RankExchange::gather_values(const Value& mine, const Meeting& meeting) {
  static_assert(std::is_trivially_copyable_v<Value>);
  if (group_.size() == 1) return {mine};
  std::vector<Value> all(static_cast<std::size_t>(group_.size()));
  group_.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)), meeting.text());
  return all;
}

template <class Value>
Value RankExchange::broadcast_value(const Value& mine, const Meeting& meeting) {
  static_assert(std::is_trivially_copyable_v<Value>);
  Value value = mine;
  auto* const bytes = reinterpret_cast<char*>(&value);
  broadcast_text(std::string(bytes, sizeof value), meeting, sizeof value).copy(bytes, sizeof value);
  return value;
}

}  // namespace levin
