#include "levin/core/engine/parts/metric_rows.h"

#include <catch2/catch.hpp>
#include <tuple>

#include "support/run_bench.h"

using namespace levin;
using namespace levin::test;

namespace {

/// Remembers the rows that it is given.
class RowLogger final : public Logger {
 public:
  explicit RowLogger(bool rank_rows = false, bool all_ranks = false) : rank_rows_(rank_rows), all_ranks_(all_ranks) {}
  void log_metrics(const MetricRow& row) override { rows.push_back(row); }
  bool wants_rank_metrics() const override { return rank_rows_; }
  void log_rank_metrics(const MetricRow& row) override { own_rows.push_back(row); }
  bool wants_all_ranks() const override { return all_ranks_; }
  void log_all_ranks(const MetricRow&, const std::vector<MetricMap>& by_rank) override { ranks = by_rank; }
  void save() override { ++saves; }

  std::vector<MetricRow> rows;
  std::vector<MetricRow> own_rows;
  std::vector<MetricMap> ranks;
  int saves = 0;

 private:
  bool rank_rows_;
  bool all_ranks_;
};

BoundaryOutcome outcome() {
  BoundaryOutcome outcome;
  outcome.logger_row = {{"loss", 0.5}};
  outcome.local_row = {{"loss", 0.25}};
  outcome.rank_rows = {{{"loss", 0.25}}, {{"loss", 0.75}}};
  return outcome;
}

struct RowsBench : RunBench {
  std::shared_ptr<RowLogger> plain = std::make_shared<RowLogger>();
  std::shared_ptr<RowLogger> detailed = std::make_shared<RowLogger>(true, true);
  LoggerList loggers = {plain, detailed};
  MetricRows rows(bool is_global_zero) { return {loggers, is_global_zero, progress, hooks}; }
};

}  // namespace

TEST_CASE("rank 0's loggers get the reduced row, and every rank's own values when they want them, of steps not a second time") {
  for (const bool is_global_zero : {true, false}) {
    RowsBench bench;
    bench.progress.epoch = 3;
    bench.progress.stage = Stage::kValidate;
    MetricRows rows = bench.rows(is_global_zero);
    rows.write({}, 0, /*epoch_end=*/true);
    CHECK(bench.detailed->own_rows.empty());
    rows.write(outcome(), 17, /*epoch_end=*/true);
    CHECK(bench.plain->own_rows.empty());
    CHECK(bench.plain->ranks.empty());
    REQUIRE(bench.detailed->own_rows.size() == 1);
    CHECK(bench.detailed->own_rows.front().values == MetricMap{{"loss", 0.25}});
    CHECK(bench.detailed->ranks == (is_global_zero ? outcome().rank_rows : std::vector<MetricMap>()));
    REQUIRE(bench.plain->rows.size() == (is_global_zero ? 1 : 0));
    if (is_global_zero) {
      const MetricRow& row = bench.plain->rows.front();
      CHECK(row.values == MetricMap{{"loss", 0.5}});
      CHECK(std::tuple(row.step, row.epoch, row.stage, row.epoch_end) == std::tuple(17, 3, Stage::kValidate, true));
    }
    rows.write(outcome(), 0, /*epoch_end=*/false);
    CHECK(bench.detailed->own_rows.size() == 1);
  }
}

TEST_CASE("a step's own values go where they are wanted") {
  RowsBench bench;
  bench.metrics->begin_stage(Stage::kTrain);
  bench.metrics->begin_batch({4, 0, 1});
  {
    const auto scope = bench.hooks.enter(Hook::kTrainingStep);
    bench.metrics->log("loss", 0.125, {}, SourceLocation::current());
  }
  bench.rows(true).write_local_step(*bench.metrics, 5);
  CHECK(bench.plain->rows.empty());
  REQUIRE(bench.detailed->own_rows.size() == 1);
  CHECK(bench.detailed->own_rows.front().values == MetricMap{{"loss", 0.125}});
  CHECK_FALSE(bench.detailed->own_rows.front().epoch_end);
  CHECK_FALSE(bench.detailed->own_rows.front().evaluation_batch);
  bench.rows(true).write_local_step(*bench.metrics, 5, /*evaluation_batch=*/2);
  REQUIRE(bench.plain->rows.size() == 1);
  CHECK(bench.plain->rows.front().step == 5);
  CHECK(bench.plain->rows.front().evaluation_batch == 2);
  bench.rows(true).save();
  CHECK(bench.plain->saves == 1);
}
