#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <optional>
#include <vector>

#include "levin/core/config/component.h"
#include "support/fixed_loader.h"
#include "support/recording.h"
#include "support/scripted_line.h"

using namespace levin;
using namespace levin::test;

namespace {

constexpr double kFlops = 1e6;

struct Counted final : ScriptedLine {
  std::optional<double> flops_per_batch() const override { return flops; }
  std::optional<double> flops;
};

std::vector<MetricRow> rows_of_fit(Counted& module, std::int64_t accumulate = 1) {
  TrainerOptions options = quiet_options();
  options.max_epochs = 1;
  options.log_every_n_steps = 2;
  options.accumulate_grad_batches = accumulate;
  const auto rows = std::make_shared<RowsOf>();
  options.logger = rows;
  options.callbacks = {Component<Callback>(Value("ThroughputMonitor"), Value(Value::Map{{"window_size", 4}}))};
  Trainer(options).fit(module, FixedLoader::of_rows(12, 2));
  return rows->rows;
}

}  // namespace

TEST_CASE("samples and batches are counted in each row of steps, and rates from the second on") {
  Counted module;
  const auto rows = rows_of_fit(module);
  REQUIRE(rows.size() == 6);
  const double samples = rows[0].values.at("train/samples") / 2;
  for (std::size_t index = 0; index < rows.size(); ++index) {
    CAPTURE(index);
    const MetricMap& row = rows[index].values;
    CHECK(row.at("train/batches") == 2.0 * static_cast<double>(index + 1));
    CHECK(row.at("train/samples") == samples * row.at("train/batches"));
    CHECK(row.contains("train/samples_per_sec") == (index > 0));
    CHECK_FALSE(row.contains("train/flops_per_sec"));
    if (index == 0) continue;
    CHECK(row.at("train/time") > rows[index - 1].values.at("train/time"));
    // A mean over the window: of 2 batches at first, then of 4.
    const std::size_t first = index < 2 ? 0 : index - 2;
    const double seconds = row.at("train/time") - rows[first].values.at("train/time");
    const double batches = 2.0 * static_cast<double>(index - first);
    CHECK(row.at("train/batches_per_sec") == Approx(batches / seconds));
    CHECK(row.at("train/samples_per_sec") == Approx(samples * batches / seconds));
    CHECK(row.at("train/device/samples_per_sec") == row.at("train/samples_per_sec"));
  }
}

TEST_CASE("with accumulated gradients each row counts the batches of its steps, and operations as the module counts them") {
  Counted module;
  module.flops = kFlops;
  const auto rows = rows_of_fit(module, 3);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].values.at("train/batches") == 6);
  CHECK(rows[1].values.at("train/batches") == 12);
  CHECK(rows[1].values.at("train/flops_per_sec") == Approx(kFlops * rows[1].values.at("train/batches_per_sec")));
  CHECK(rows[1].values.at("train/device/flops_per_sec") == rows[1].values.at("train/flops_per_sec"));
}
