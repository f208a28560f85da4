#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "levin/core/base/hook.h"
#include "levin/strategies/failure/failure_record.h"

namespace levin {

// What ranks on several hosts tell one another under the keys of the run's store, as JSON. Whoever can write to the store may
// have put anything there: what is no such value is not there.

/// The longest value that is looked at, in bytes.
inline constexpr std::size_t kLongestStoreValue = 256 << 10;

/// Where a rank is, as it last posted it.
struct RankPost {
  std::int64_t number = 0;  ///< counts up; 0: nothing yet
  Whereabouts where;
  bool waits = false;
  std::int64_t reduction = 0;  ///< the gradient reduction it is in, counted from 1; 0 outside
  std::string line;            ///< for a person
};

std::string to_text(const RankPost& post);
std::optional<RankPost> post_from_text(const std::string& text);

/// An error is cut where it is too long to be looked at.
std::string to_text(const FailureRecord& failure);
/// Of a run of `ranks` ranks.
std::optional<FailureRecord> failure_from_text(const std::string& text, int ranks);

}  // namespace levin
