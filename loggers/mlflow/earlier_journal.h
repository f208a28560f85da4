#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <tuple>

#include "levin/core/config/value.h"
#include "levin/core/logger.h"

namespace levin::mlflow {

/// How many rows of a journal a resumed run knows.
struct JournalCut {
  RowCounts rows = {};  ///< -1: those of steps before end_step
  std::int64_t end_step = 0;
};

/// What a resumed run takes from the journal of the run's earlier part.
class EarlierJournal {
 public:
  /// Writes the journal `to` of a resumed run, over an existing one: all entries of `from`, which may be the same file, that
  /// the server has or may have, and the others up to the cut. The state is copied. Throws IoError.
  EarlierJournal(const std::filesystem::path& from, const std::filesystem::path& to, const JournalCut& cut);

  /// How many rows the resumed run has written already.
  const RowCounts& rows() const { return rows_; }
  /// Removes from an entry what the server has of steps that are done again, since the checkpoint was before them: each point
  /// once.
  void remove_known(Value& entry);

 private:
  using Point = std::tuple<std::int64_t, std::string, std::uint64_t>;  ///< step, name and bits of the value
  static Point point(const Value& entry, const std::string& name, const Value& value);
  void add_known(const Value& entry);

  RowCounts rows_{0, 0};
  std::multiset<Point> known_;
};

}  // namespace levin::mlflow
