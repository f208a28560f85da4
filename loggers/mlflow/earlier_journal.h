#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <tuple>

#include "levin/core/config/value.h"
#include "levin/core/logger.h"

namespace levin::mlflow {

/// Metrics that the server has of steps which a run does again, since it goes on from a checkpoint before them.
class KnownPoints {
 public:
  /// `entry`: one of a journal; only metrics count.
  void add(const Value& entry);
  /// Takes out of an entry of metrics what is known, each point once.
  void remove_from(Value& entry);

 private:
  using Point = std::tuple<std::int64_t, std::string, std::uint64_t>;  ///< step, name and bits of the value
  static Point point(const Value& entry, const std::string& name, const Value& value);

  std::multiset<Point> points_;
};

/// How much of a journal a run that goes on knows.
struct JournalCut {
  RowCounts rows = {};  ///< those known; -1: those of steps before end_step
  std::int64_t end_step = 0;
};

/// What a run that goes on takes over of a journal.
struct EarlierJournal {
  RowCounts rows = {0, 0};
  KnownPoints known;
};

/// Makes the journal `to` of a run that goes on, in place of what is there: with all of `from`, which may be the same file,
/// that the server has or may have, and with what it has not up to the cut. The state comes along. Throws IoError.
EarlierJournal carry_over(const std::filesystem::path& from, const std::filesystem::path& to, const JournalCut& cut);

}  // namespace levin::mlflow
