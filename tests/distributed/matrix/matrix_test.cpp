// Runs the scenarios of matrix_program on 2 and 4 ranks: a sample of them, or with LEVIN_MATRIX=all every one.
#include <catch2/catch.hpp>
#include <fstream>
#include <regex>
#include <set>

#include "support/file_text.h"
#include "support/matrix_report.h"
#include "support/program.h"
#include "support/temporary_folder.h"
#include "support/whole_matrix.h"

namespace levin::test {
namespace {

using Texts = std::vector<std::string>;

/// A row of the matrix: its cells are numbers of ranks, and two ranks once more over the control group that spans hosts instead
/// of shared memory.
struct Row {
  std::string name;
  std::string scenario;
  Texts parameters = {};
  int sampled = 0;  ///< on so many ranks it is part of `make test`; 0: on none
  Texts says = {};  ///< what standard error must hold
  int status = 0;   ///< what the run must end with
  int limit = 60;   ///< seconds
  std::vector<int> ranks = {2, 4};
  Texts lacks = {};  ///< what standard error must not hold
};

struct Cell {
  Row row;
  int ranks;
  bool gloo;
  bool sampled;
  std::string column() const { return std::to_string(ranks) + " ranks" + (gloo ? ", Gloo" : ""); }
  std::string str() const { return row.name + ", " + column(); }
};

/// The faults of a finished run; empty for none.
std::string verdict(const Cell& cell, const Outcome& outcome, const std::filesystem::path& folder) {
  if (outcome.timed_out) return "did not end within " + std::to_string(cell.row.limit) + " s";
  if (outcome.status != cell.row.status) {
    return "exit status " + std::to_string(outcome.status) + ", not " + std::to_string(cell.row.status);
  }
  for (const std::string& text : cell.row.says) {
    if (outcome.err.find(text) == std::string::npos) return "does not say: " + text;
  }
  for (const std::string& text : cell.row.lacks) {
    if (outcome.err.find(text) != std::string::npos) return "says: " + text;
  }
  if (cell.row.status != 0) return "";
  for (int rank = 0; rank < cell.ranks; ++rank) {
    const std::string report = read_text(folder / ("rank_" + std::to_string(rank)));
    if (!report.starts_with("checks ")) return report;
    if (report == "checks 0\n") return "rank " + std::to_string(rank) + " checked nothing";
  }
  return "";
}

Command command_of(const Cell& cell, const std::filesystem::path& folder) {
  Command command{
      .arguments = {LEVIN_BINARY_DIR "/bin/matrix_program", cell.row.scenario, std::to_string(cell.ranks), folder.string()},
      .limit = std::chrono::seconds(cell.row.limit),
      .copied = true};
  command.arguments.insert(command.arguments.end(), cell.row.parameters.begin(), cell.row.parameters.end());
  if (cell.gloo) command.environment = {{"LEVIN_MATRIX_CONTROL_GROUP", "gloo"}};
  return command;
}

void add_logging(std::vector<Row>& rows) {
  int turn = 0;
  const auto in_turn = [&turn] { return turn++ % 2 == 0 ? 2 : 4; };
  for (const std::string who : {"guarded", "all"}) {
    for (const std::string sync_dist : {"unset", "true", "false"}) {
      for (const std::string rank_zero_only : {"false", "true"}) {
        rows.push_back({"collected outputs logged " +
                            std::string(who == "guarded" ? "inside is_global_zero()" : "on all ranks") + ", sync_dist " +
                            sync_dist + ", rank_zero_only " + rank_zero_only,
                        "collected_outputs",
                        {who, sync_dist, rank_zero_only},
                        in_turn()});
      }
    }
  }
  for (const std::string who : {"-1", "0", "1"}) {
    for (const std::string sync_dist : {"false", "true"}) {
      for (const std::string every : {"0", "3"}) {
        rows.push_back({"monitors of a step's value, logged by " + (who == "-1" ? "all ranks" : "rank " + who + " alone") +
                            ", sync_dist " + sync_dist + ", log_every_n_steps " + every,
                        "step_monitors",
                        {who, sync_dist, every},
                        in_turn()});
      }
    }
  }
  const Texts fickle = {"\"fickle\"", "logging_scenarios.cpp:", "training_step"};
  rows.insert(
      rows.end(),
      {{"log() in every hook, all ranks", "every_hook", {"-1"}, 4},
       {"log() in every hook, rank 0 alone", "every_hook", {"0"}},
       {"log() in every hook, rank 1 alone", "every_hook", {"1"}, 2},
       {"different keys, another order, some steps only",
        "different_keys",
        {},
        4,
        {"log(\"once\") in training_step (logging_scenarios.cpp:"}},
       {"keys that come and go over epochs and ranks", "keys_by_epoch", {}, 2},
       {"NaN and infinity on one rank", "not_finite", {}, 2},
       {"1,000 keys on all ranks", "thousand_keys", {"-1"}, 2},
       {"1,000 keys on rank 1 alone", "thousand_keys", {"1"}, 4},
       {"a key changes its options on all ranks", "options_change", {"-1"}, 2, fickle, 1},
       {"a key changes its options on rank 1", "options_change", {"1"}, 4, fickle, 1},
       {"ranks disagree about a key's options", "options_differ", {}, 2, {"\"disputed\"", "logging_scenarios.cpp:"}, 1},
       {"a callback logs on one rank", "callback_logs", {"1"}, 2},
       {"strict_logging, a key missing on one rank", "strict_logging", {}, 4, {"strict_logging", "\"partial\"", "rank 1"}, 1}});
}

void add_data(std::vector<Row>& rows) {
  /// On as many ranks as there are numbers in `counts`.
  const auto add_counts = [&](const std::string& name, const std::string& scenario, const std::string& counts, Texts parameters,
                              bool sampled, const Texts& says = {}, int status = 0) {
    const int ranks = static_cast<int>(std::count(counts.begin(), counts.end(), ',')) + 1;
    rows.push_back({name, scenario, std::move(parameters), sampled ? ranks : 0, says, status, 60, {ranks}});
  };
  add_counts("each rank seeds its own random numbers", "seeded_by_rank", "1,1", {}, true);
  for (const std::string known : {"known", "unknown"}) {
    const std::string length = known + " length";
    for (const std::string accumulate : {"1", "3"}) {
      const std::string how = " batches of " + length + ", accumulate " + accumulate;
      add_counts("10 and 9" + how, "uneven_batches", "10,9", {"10,9", known, accumulate}, true);
      add_counts("0 and 4" + how, "uneven_batches", "0,4", {"0,4", known, accumulate}, false);
      add_counts("10, 9, 1 and 0" + how, "uneven_batches", "10,9,1,0", {"10,9,1,0", known, accumulate}, true);
    }
    for (const std::string counts : {"5,0", "10,9,1,0"}) {
      add_counts("uneven validation of " + length, "uneven_validation", counts, {counts, known}, counts != "5,0");
    }
    rows.push_back({"val_check_interval, uneven batches of " + length, "validation_inside_epoch", {known, "2"}, 2});
    rows.push_back(
        {"val_check_interval as a time, uneven batches of " + length, "validation_inside_epoch", {known, "00:00:00:00"}, 4});
    for (const std::string counts : {"3,4", "0,2", "3,4,9,5", "2,1,0,3"}) {
      const bool fails = counts.find('0') != std::string::npos;
      add_counts("manual optimization, " + counts + " batches of " + length, "manual_optimization", counts, {known, counts},
                 counts.size() == 3, fails ? Texts{"gives no batch on some rank"} : Texts(), fails ? 1 : 0);
    }
    for (const std::string counts : {"1,0", "0,0", "0,1,0,2"}) {
      add_counts("monitors and checkpoints, validation of " + counts + " batches of " + length, "monitored_uneven_validation",
                 counts, {counts, known}, counts.size() == 3);
    }
    for (const std::string how : {"manual", "automatic"}) {
      for (const std::string batch : {"1", "3"}) {
        rows.push_back({"skip_epoch() in training_step of batch " + batch + " on one rank, " + how + ", " + length,
                        "skip_in_training_step",
                        {known, "1", batch, how},
                        2});
      }
    }
  }
  rows.insert(rows.end(),
              {{"a last batch that leaves ranks without samples", "uneven_samples", {"26", "8", "ddp"}, 4},
               {"the same under a strategy that a user has written", "uneven_samples", {"26", "8", "MeanGradients"}, 4},
               {"a step without loss on one rank", "step_without_loss", {"1"}, 2},
               {"a parameter unused on one rank, find_unused_parameters", "unused_parameter", {"true"}, 2},
               {"a parameter unused on one rank",
                "unused_parameter",
                {"false"},
                4,
                {"gave no gradient to second", "find_unused_parameters: true"},
                1,
                10},
               {"test, validate and predict with uneven ranks", "uneven_evaluation", {}, 4}});
}

void add_stopping(std::vector<Row>& rows) {
  int turn = 0;
  for (const std::string& hook :
       words_in("on_train_epoch_start on_before_batch_transfer transfer_batch_to_device on_after_batch_transfer "
                "on_train_batch_start training_step on_before_zero_grad optimizer_zero_grad on_before_backward backward "
                "on_after_backward on_before_optimizer_step configure_gradient_clipping optimizer_step on_train_batch_end "
                "on_train_epoch_end on_validation_model_zero_grad on_validation_model_eval on_validation_start "
                "on_validation_epoch_start on_validation_batch_start validation_step on_validation_batch_end "
                "on_validation_epoch_end on_validation_end")) {
    rows.push_back({"stop() on one rank in " + hook, "stop_in_hook", {"M." + hook, "1"}, turn++ % 4 == 0 ? 2 : 0});
  }
  for (const std::string& hook :
       words_in("on_train_epoch_start on_train_batch_start on_before_zero_grad on_before_backward on_after_backward "
                "on_before_optimizer_step on_train_batch_end on_train_epoch_end on_validation_start on_validation_batch_end "
                "on_validation_epoch_end on_validation_end")) {
    rows.push_back({"stop() on one rank in a callback's " + hook, "stop_in_hook", {"C." + hook, "0"}, turn++ % 4 == 0 ? 4 : 0});
  }
  rows.insert(rows.end(),
              {{"stop() costs no collective", "stop_is_free", {}, 2},
               {"every rank calls stop(), at another step", "stops_of_all", {"ddp"}, 4},
               {"every rank calls stop(), under a strategy that a user has written", "stops_of_all", {"MeanGradients"}, 2},
               {"a stop that min_steps holds up, taken back", "stop_taken_back", {}, 2}});
  for (const std::string known : {"known", "unknown"}) {
    rows.push_back({"a callback skips an epoch's validation on one rank, " + known + " length",
                    "callback_skips_validation",
                    {"1", known},
                    2});
  }
}

void add_reading(std::vector<Row>& rows) {
  const std::string reads = " alone reads metrics, log_dir and getters in every hook";
  rows.insert(rows.end(), {{"rank 0" + reads, "one_rank_reads", {"0"}, 2},
                           {"rank 1" + reads, "one_rank_reads", {"1"}, 4},
                           {"a logger reads metrics on rank 0", "logger_reads", {}, 2}});
}

void add_collectives(std::vector<Row>& rows) {
  constexpr int kSeconds = 10;
  const std::string site = "collective_scenarios.cpp:";
  const auto different = [&](const std::string& hook, const std::string& odd, const std::string& others, const std::string& who,
                             const Texts& says, int sampled) {
    rows.push_back({odd + " on rank " + who + ", " + others + " on others, in " + hook,
                    "collective",
                    {hook, odd, others, who},
                    sampled,
                    says,
                    1,
                    kSeconds});
  };
  for (const std::string operation : {"all_gather", "all_gather_large", "all_reduce", "broadcast", "barrier"}) {
    const std::string name = operation.substr(0, operation.find("_large"));
    for (const char* who : {"0", "1"}) {
      different("training_step", operation, "nothing", who, {name, site, "gradient reduction"}, name == "barrier" ? 2 : 0);
    }
  }
  different("training_step", "all_gather", "barrier", "1", {"all_gather at " + site, "barrier 'here' at " + site}, 4);
  different("training_step", "broadcast", "all_reduce", "1", {"broadcast at " + site, "all_reduce(mean) at " + site}, 2);
  different("training_step", "broadcast_1", "broadcast", "1", {"broadcast at " + site}, 0);
  different("training_step", "all_gather_shape", "all_gather", "1", {"all_gather at " + site}, 2);
  different("training_step", "all_gather_type", "all_gather", "1", {"all_gather at " + site}, 0);
  different("training_step", "all_reduce_max", "all_reduce", "1", {"all_reduce(max) at " + site, "all_reduce(mean) at " + site},
            0);
  for (const std::string hook : {"on_fit_start", "on_train_start", "on_train_epoch_end", "on_validation_epoch_end",
                                 "on_validation_end", "on_test_epoch_end", "on_train_end", "on_fit_end", "teardown"}) {
    const bool sampled = hook == "on_validation_epoch_end" || hook == "on_fit_end";
    different(hook, "barrier", "nothing", "0", {"barrier 'here' at " + site}, sampled ? 2 : 0);
    different(hook, "all_gather", "nothing", "1", {"all_gather at " + site}, 0);
  }
  for (const std::string hook : {"training_step", "on_train_epoch_end", "on_validation_end", "on_fit_end"}) {
    different(hook, "save_checkpoint", "nothing", "0", {"checkpoint"}, hook == "on_validation_end" ? 2 : 0);
  }
  rows.push_back({"every rank calls every collective", "collectives_of_all", {}, 4});
  rows.push_back({"rank 0 throws while others wait in a barrier",
                  "barrier_meets_exception",
                  {},
                  2,
                  {"rank 0 failed in training_step", "only rank 0 does this"},
                  1,
                  kSeconds});
}

void add_setup(std::vector<Row>& rows) {
  const std::vector<std::pair<std::string, Texts>> differences = {
      {"option", {"accumulate_grad_batches: 1", "accumulate_grad_batches: 3"}},
      {"dirpath", {"ModelCheckpoint.dirpath", "elsewhere"}},
      {"dirpath_unset", {"ModelCheckpoint.dirpath"}},
      {"callback_option", {"EarlyStopping.patience: 2", "EarlyStopping.patience: 5"}},
      {"callback_missing", {"EarlyStopping"}},
      {"hyperparameters", {"module.width: 7"}},
      {"learning_rate", {"lr 0.1", "lr 0.2"}},
      {"parameter_count", {"extra.weight"}},
      {"parameter_shape", {"layer.weight", "[3, 2]", "[1, 2]"}},
      {"parameter_name", {"layer.weight", "other.weight"}},
      {"parameter_type", {"layer.weight", "Double"}},
      {"parameter_frozen", {"layer.bias", "not trained"}},
      {"buffer_shape", {"buffer seen"}}};
  int turn = 0;
  for (const auto& [difference, texts] : differences) {
    Texts says = texts;
    says.emplace_back("ank 1");
    std::string name = difference;
    std::replace(name.begin(), name.end(), '_', ' ');
    const bool config = !difference.starts_with("parameter") && difference != "buffer_shape";
    rows.push_back({"another " + name + " on one rank",
                    "different_setup",
                    {difference, "1"},
                    turn++ % 2 == 0 ? 2 : 4,
                    says,
                    config ? 2 : 1,
                    60,
                    {2, 4},
                    {"step was taken"}});
  }
  rows.push_back({"the same set-up on all ranks", "different_setup", {"nothing", "1"}, 2, {"a training step was taken"}});
}

void add_writing(std::vector<Row>& rows) {
  const Texts says = {"file/below", "levin: rank ", "rank 1 "};
  rows.push_back({"a checkpoint that rank 0 cannot write", "unwritable", {"checkpoint"}, 2, says, 1, 10});
  rows.push_back({"a log folder that rank 0 cannot make", "unwritable", {"log"}, 2, says, 1, 10});
}

std::vector<Row> all_rows() {
  std::vector<Row> rows;
  for (const auto add : {add_logging, add_data, add_stopping, add_reading, add_collectives, add_setup, add_writing}) add(rows);
  return rows;
}

std::vector<Cell> all_cells() {
  std::vector<Cell> cells;
  int turn = 0;
  for (const Row& row : all_rows()) {
    for (const int ranks : row.ranks) {
      const bool sampled = ranks == row.sampled;
      cells.push_back({row, ranks, /*gloo=*/false, sampled});
      if (ranks == 2) cells.push_back({row, ranks, /*gloo=*/true, sampled && turn++ % 4 == 0});
    }
  }
  return cells;
}

}  // namespace

TEST_CASE("rows that docs/internals/testing.md names are rows of the deadlock matrix") {
  std::set<std::string> names;
  for (const Row& row : all_rows()) names.insert(row.name);
  const std::string page = read_text(LEVIN_SOURCE_DIR "/docs/internals/testing.md");
  const std::regex named("row \"([^\n]+)\" \\|");
  int found = 0;
  for (std::sregex_iterator match(page.begin(), page.end(), named), end; match != end; ++match, ++found) {
    CHECK(names.contains((*match)[1]));
  }
  CHECK(found > 10);
}

TEST_CASE("the deadlock matrix") {
  // Part of the name of cells ("different keys", "2 ranks, Gloo"), to run those alone.
  const char* only = std::getenv("LEVIN_MATRIX_ONLY");
  MatrixReport report("Scenarios", "scenario");
  for (const Cell& cell : all_cells()) {
    const bool chosen = only != nullptr ? cell.str().find(only) != std::string::npos : cell.sampled || is_whole_matrix();
    if (!chosen) continue;
    const TemporaryFolder folder;
    const Outcome outcome = run(command_of(cell, folder.path()));
    INFO(cell.str() << "\n" << outcome.text());
    const std::string wrong = verdict(cell, outcome, folder.path());
    CHECK(wrong == "");
    report.add(cell.row.name, cell.column(), wrong.empty());
  }
  if (is_whole_matrix() && only == nullptr) report.write();
}

}  // namespace levin::test
