#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "distributed/rank_run.h"
#include "support/csv_table.h"

using levin::test::CsvTable;
using levin::test::GoodRun;
using levin::test::RankRun;

namespace {

using Metrics = std::map<std::string, double>;

/// What make_logging_reference.py recorded of Lightning 2.6.6.
const nlohmann::json& reference() {
  static const nlohmann::json document = [] {
    std::ifstream file(LEVIN_SOURCE_DIR "/tests/distributed/logging_reference.json");
    return nlohmann::json::parse(file);
  }();
  return document;
}

bool begins(const std::string& text, const std::string& with) { return text.rfind(with, 0) == 0; }
bool is_epoch_value(const std::string& key) { return key.find("_epoch") != std::string::npos; }

/// Where levin differs on purpose: the table in docs/logging.md.
bool differs_by_design(const std::string& place, const std::string& key, std::size_t rank) {
  // An epoch value is reduced over ranks unless sync_dist is false; Lightning reduces it when sync_dist is true.
  const std::set<std::string> reduced = {"t_first", "t_last", "t_hidden", "t_first_epoch", "t_last_epoch", "t_hidden_epoch"};
  const bool in_batch = begins(place, "epoch 1 on_train_batch_end");
  if (reduced.contains(key) && !(in_batch && !is_epoch_value(key))) return true;
  if (begins(key, "v_default")) return true;
  // All ranks know what rank 0 alone logs.
  if (rank > 0 && key.find("rank_zero") != std::string::npos) return true;
  if (is_epoch_value(key)) return false;
  // Step values of an evaluation stay local.
  for (const std::string prefix : {"v_s_true", "v_se_true", "x_s_true", "x_se_true"}) {
    const bool is_step_value = begins(prefix.substr(1), "_s_") || key.find("_step") != std::string::npos;
    if (begins(key, prefix) && is_step_value) return true;
  }
  // Reduced step values are known after the step's boundary, which comes after on_train_batch_end.
  return in_batch && (begins(key, "t_s_true") || begins(key, "t_se_true") || begins(key, "t_weighted"));
}

/// How many values were compared.
int compare(const Metrics& actual, const Metrics& expected, const std::string& place, std::size_t rank) {
  std::set<std::string> keys;
  for (const auto& [key, value] : actual) keys.insert(key);
  for (const auto& [key, value] : expected) keys.insert(key);
  int compared = 0;
  for (const std::string& key : keys) {
    if (differs_by_design(place, key, rank)) continue;
    INFO(place << ": " << key << " on rank " << rank);
    REQUIRE(actual.contains(key) == expected.contains(key));
    CHECK(actual.at(key) == Approx(expected.at(key)).epsilon(1e-5));
    ++compared;
  }
  return compared;
}

/// A rank's report of a view at a place.
Metrics reported(const RankRun& run, std::size_t rank, std::string place, const std::string& view) {
  std::replace(place.begin(), place.end(), ' ', '_');
  const std::string prefix = place + "|" + view;
  REQUIRE(run.has(rank, prefix));
  Metrics metrics;
  for (const auto& [name, values] : run.by_rank[rank]) {
    if (begins(name, prefix + "|")) metrics[name.substr(prefix.size() + 1)] = std::stod(values.back());
  }
  return metrics;
}

GoodRun run_like(const nlohmann::json& settings) {
  std::string validation;
  for (const int samples : settings["val"]) validation += (validation.empty() ? "" : ",") + std::to_string(samples);
  return GoodRun("numbers", "logs_as_the_reference", 2,
                 {"val=" + validation, "train=" + settings["train"].dump(), "accumulate=" + settings["accumulate"].dump(),
                  "log_every=" + settings["log_every"].dump()});
}

}  // namespace

TEST_CASE("each rank's views, results and rows are those of Lightning, but for what differs by design") {
  const std::string name = GENERATE("even", "accumulated", "rare", "loaders");
  const nlohmann::json& recorded = reference().at(name);
  const GoodRun run = run_like(recorded["settings"]);
  int compared = 0;
  for (std::size_t rank = 0; rank < recorded["ranks"].size(); ++rank) {
    for (const auto& snapshot : recorded["ranks"][rank]) {
      const std::string place = snapshot[0];
      const Metrics expected = snapshot[2].get<Metrics>();
      compared += compare(reported(run, rank, place, snapshot[1]), expected, place, rank);
    }
  }
  const CsvTable rows = CsvTable::read(run.folder / "run" / "metrics.csv");
  REQUIRE(rows.size() == recorded["rows"].size());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const Metrics expected = recorded["rows"][row].get<Metrics>();
    Metrics actual;
    for (const std::string& column : rows.columns()) {
      if (!rows.cell(row, column).empty()) actual[column] = std::stod(rows.cell(row, column));
    }
    // Rows of evaluation steps: levin also writes the epoch, and both the training step and the number of the evaluation batch.
    if (!expected.contains("epoch")) actual.erase("epoch");
    if (const auto batch = actual.extract("evaluation_batch")) actual["step"] = batch.mapped();
    compared += compare(actual, expected, "row " + std::to_string(row), 0);
  }
  CHECK(compared > 150);
}
