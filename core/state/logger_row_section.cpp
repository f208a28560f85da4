#include "levin/core/state/logger_row_section.h"

#include "levin/core/state/checkpoint_values.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

void LoggerRowSection::begin(TrainerState& run, Place) { rows_ = rows_written(run.setup.loggers); }

void LoggerRowSection::save(TrainerState&, Checkpoint& checkpoint) {
  Value::List rows;
  for (const RowCounts& count : rows_) rows.push_back(count.rows);
  checkpoint.manifest["logger_rows"] = std::move(rows);
}

void LoggerRowSection::save_own(TrainerState&, RankState& state) {
  Value::List rows;
  for (const RowCounts& count : rows_) rows.push_back(count.rank_rows);
  state.manifest["rank_rows"] = std::move(rows);
}

RowCounts LoggerRowSection::rows_of(const Checkpoint& checkpoint, int rank, std::size_t logger) {
  const Value* values = values_of_rank(checkpoint, rank);
  const auto count = [logger](const Value* rows) {
    return rows == nullptr || logger >= rows->size() ? std::int64_t{-1} : rows->as_list()[logger].as_int();
  };
  return {.rows = count(checkpoint.manifest.find("logger_rows")),
          .rank_rows = count(values == nullptr ? nullptr : values->find("rank_rows"))};
}

}  // namespace levin
