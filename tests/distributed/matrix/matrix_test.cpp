// Runs the scenarios of matrix_program on 2 and 4 ranks: a sample of them, or with LEVIN_MATRIX=all every one, and then writes
// deadlock-matrix.md of the build folder.
#include <catch2/catch.hpp>
#include <fstream>
#include <regex>
#include <set>

#include "support/file_text.h"
#include "support/matrix_report.h"
#include "support/program.h"
#include "support/temporary_folder.h"

using levin::test::MatrixReport;
using levin::test::TemporaryFolder;

namespace {

struct Case {
  std::string row;  ///< in the table
  std::string scenario;
  std::vector<std::string> parameters = {};
  int ranks = 2;
  bool gloo = false;                    ///< the control group that spans hosts, in place of shared memory
  bool sampled = false;                 ///< part of `make test`
  int status = 0;                       ///< what the run must end with
  std::vector<std::string> says = {};   ///< texts that standard error must hold
  std::vector<std::string> lacks = {};  ///< and those that it must not
  int limit = 60;                       ///< seconds
};

std::vector<std::string> words_in(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

/// What is wrong with a finished run; empty when nothing is.
std::string verdict(const Case& tested, const levin::test::Outcome& outcome, const std::filesystem::path& folder) {
  if (outcome.timed_out) return "did not end within " + std::to_string(tested.limit) + " s";
  if (outcome.status != tested.status) {
    return "exit status " + std::to_string(outcome.status) + ", not " + std::to_string(tested.status);
  }
  for (const std::string& text : tested.says) {
    if (outcome.err.find(text) == std::string::npos) return "does not say: " + text;
  }
  for (const std::string& text : tested.lacks) {
    if (outcome.err.find(text) != std::string::npos) return "says: " + text;
  }
  if (tested.status != 0) return "";
  for (int rank = 0; rank < tested.ranks; ++rank) {
    std::ifstream file(folder / ("rank_" + std::to_string(rank)));
    int checks = 0;
    for (std::string line; std::getline(file, line);) {
      if (line.rfind("checks ", 0) != 0) return line;
      checks = std::stoi(line.substr(7));
    }
    if (checks == 0) return "rank " + std::to_string(rank) + " checked nothing";
  }
  return "";
}

levin::test::Command command_of(const Case& tested, const std::filesystem::path& folder) {
  levin::test::Command command;
  command.arguments = {LEVIN_BINARY_DIR "/bin/matrix_program", tested.scenario, std::to_string(tested.ranks), folder.string()};
  command.arguments.insert(command.arguments.end(), tested.parameters.begin(), tested.parameters.end());
  if (tested.gloo) command.environment = {{"LEVIN_MATRIX_CONTROL_GROUP", "gloo"}};
  command.limit = std::chrono::seconds(tested.limit);
  command.copied = true;
  return command;
}

class Cases {
 public:
  /// Adds a case on 2 and on 4 ranks; `sampled_ranks` of them (0: neither) is part of the sample.
  void add(Case added, int sampled_ranks) {
    for (const int ranks : {2, 4}) {
      added.ranks = ranks;
      added.sampled = ranks == sampled_ranks;
      add_one(added);
    }
  }
  void add_one(Case added) {
    list_.push_back(added);
    if (added.ranks != 2) return;
    added.gloo = true;
    added.sampled = added.sampled && turn_++ % 4 == 0;
    list_.push_back(std::move(added));
  }
  const std::vector<Case>& list() const { return list_; }

 private:
  int turn_ = 0;
  std::vector<Case> list_;
};

void add_logging(Cases& cases) {
  int turn = 0;
  for (const char* who : {"guarded", "all"}) {
    for (const char* sync_dist : {"unset", "true", "false"}) {
      for (const char* rank_zero_only : {"false", "true"}) {
        const bool guarded = std::string(who) == "guarded";
        const std::string row = std::string("collected outputs logged ") +
                                (guarded ? "inside is_global_zero()" : "on all ranks") + ", sync_dist " + sync_dist +
                                ", rank_zero_only " + rank_zero_only;
        cases.add({.row = row, .scenario = "collected_outputs", .parameters = {who, sync_dist, rank_zero_only}},
                  turn++ % 2 == 0 ? 2 : 4);
      }
    }
  }
  for (const char* who : {"-1", "0", "1"}) {
    for (const char* sync_dist : {"false", "true"}) {
      for (const char* every : {"0", "3"}) {
        const std::string row = std::string("monitors of a step's value, logged by ") +
                                (who[0] == '-' ? "all ranks" : std::string("rank ") + who + " alone") + ", sync_dist " +
                                sync_dist + ", log_every_n_steps " + every;
        cases.add({.row = row, .scenario = "step_monitors", .parameters = {who, sync_dist, every}}, turn++ % 2 == 0 ? 2 : 4);
      }
    }
  }
  cases.add({.row = "log() in every hook, all ranks", .scenario = "every_hook", .parameters = {"-1"}}, 4);
  cases.add({.row = "log() in every hook, rank 0 alone", .scenario = "every_hook", .parameters = {"0"}}, 0);
  cases.add({.row = "log() in every hook, rank 1 alone", .scenario = "every_hook", .parameters = {"1"}}, 2);
  cases.add({.row = "different keys, another order, some steps only", .scenario = "different_keys"}, 4);
  cases.add({.row = "keys that come and go over epochs and ranks", .scenario = "keys_by_epoch"}, 2);
  cases.add({.row = "NaN and infinity on one rank", .scenario = "not_finite"}, 2);
  cases.add({.row = "1,000 keys on all ranks", .scenario = "thousand_keys", .parameters = {"-1"}}, 2);
  cases.add({.row = "1,000 keys on rank 1 alone", .scenario = "thousand_keys", .parameters = {"1"}}, 4);
  const std::vector<std::string> fickle = {"\"fickle\"", "logging_scenarios.cpp:", "training_step"};
  cases.add({.row = "a key changes its options on all ranks",
             .scenario = "options_change",
             .parameters = {"-1"},
             .status = 1,
             .says = fickle},
            2);
  cases.add({.row = "a key changes its options on rank 1",
             .scenario = "options_change",
             .parameters = {"1"},
             .status = 1,
             .says = fickle},
            4);
  cases.add({.row = "ranks disagree about a key's options",
             .scenario = "options_differ",
             .status = 1,
             .says = {"\"disputed\"", "logging_scenarios.cpp:"}},
            2);
  cases.add({.row = "a callback logs on one rank", .scenario = "callback_logs", .parameters = {"1"}}, 2);
  cases.add({.row = "strict_logging, a key missing on one rank",
             .scenario = "strict_logging",
             .status = 1,
             .says = {"strict_logging", "\"partial\"", "rank 1"}},
            4);
}

void add_data(Cases& cases) {
  cases.add_one({.row = "each rank seeds its own random numbers", .scenario = "seeded_by_rank", .ranks = 2, .sampled = true});
  for (const char* known : {"known", "unknown"}) {
    for (const char* accumulate : {"1", "3"}) {
      const std::string how = std::string(" of ") + known + " length, accumulate " + accumulate;
      cases.add_one({.row = "10 and 9 batches" + how,
                     .scenario = "uneven_batches",
                     .parameters = {"10,9", known, accumulate},
                     .ranks = 2,
                     .sampled = true});
      cases.add_one(
          {.row = "0 and 4 batches" + how, .scenario = "uneven_batches", .parameters = {"0,4", known, accumulate}, .ranks = 2});
      cases.add_one({.row = "10, 9, 1 and 0 batches" + how,
                     .scenario = "uneven_batches",
                     .parameters = {"10,9,1,0", known, accumulate},
                     .ranks = 4,
                     .sampled = true});
    }
    const std::string length = std::string(known) + " length";
    cases.add_one(
        {.row = "uneven validation of " + length, .scenario = "uneven_validation", .parameters = {"5,0", known}, .ranks = 2});
    cases.add_one({.row = "uneven validation of " + length,
                   .scenario = "uneven_validation",
                   .parameters = {"10,9,1,0", known},
                   .ranks = 4,
                   .sampled = true});
    cases.add({.row = "val_check_interval, uneven batches of " + length,
               .scenario = "validation_inside_epoch",
               .parameters = {known, "2"}},
              2);
    cases.add({.row = "val_check_interval as a time, uneven batches of " + length,
               .scenario = "validation_inside_epoch",
               .parameters = {known, "00:00:00:00"}},
              4);
    for (const auto& [counts, ranks] :
         {std::pair("3,4", 2), std::pair("0,2", 2), std::pair("3,4,9,5", 4), std::pair("2,1,0,3", 4)}) {
      Case manual{.row = std::string("manual optimization, ") + counts + " batches of " + length,
                  .scenario = "manual_optimization",
                  .parameters = {known, counts},
                  .ranks = ranks,
                  .sampled = ranks == 2};
      if (std::string(counts).find('0') != std::string::npos) {
        manual.status = 1;
        manual.says = {"gives no batch on some rank"};
      }
      cases.add_one(std::move(manual));
    }
    for (const auto& [counts, ranks] : {std::pair("1,0", 2), std::pair("0,0", 2), std::pair("0,1,0,2", 4)}) {
      cases.add_one({.row = std::string("monitors and checkpoints, validation of ") + counts + " batches of " + length,
                     .scenario = "monitored_uneven_validation",
                     .parameters = {counts, known},
                     .ranks = ranks,
                     .sampled = ranks == 2});
    }
    for (const char* how : {"manual", "automatic"}) {
      for (const char* batch : {"1", "3"}) {
        cases.add(
            {.row = std::string("skip_epoch() in training_step of batch ") + batch + " on one rank, " + how + ", " + length,
             .scenario = "skip_in_training_step",
             .parameters = {known, "1", batch, how}},
            2);
      }
    }
  }
  cases.add({.row = "a last batch that leaves ranks without samples", .scenario = "uneven_samples", .parameters = {"26", "8"}},
            4);
  cases.add({.row = "a step without loss on one rank", .scenario = "step_without_loss", .parameters = {"1"}}, 2);
  cases.add(
      {.row = "a parameter unused on one rank, find_unused_parameters", .scenario = "unused_parameter", .parameters = {"true"}},
      2);
  cases.add({.row = "a parameter unused on one rank",
             .scenario = "unused_parameter",
             .parameters = {"false"},
             .status = 1,
             .says = {"gave no gradient to second", "find_unused_parameters: true"},
             .limit = 10},
            4);
  cases.add({.row = "test, validate and predict with uneven ranks", .scenario = "uneven_evaluation"}, 4);
}

void add_stopping(Cases& cases) {
  const std::vector<std::string> hooks = words_in(
      "on_train_epoch_start on_before_batch_transfer transfer_batch_to_device on_after_batch_transfer "
      "on_train_batch_start training_step on_before_zero_grad optimizer_zero_grad on_before_backward backward "
      "on_after_backward on_before_optimizer_step configure_gradient_clipping optimizer_step on_train_batch_end "
      "on_train_epoch_end on_validation_model_zero_grad on_validation_model_eval on_validation_start "
      "on_validation_epoch_start on_validation_batch_start validation_step on_validation_batch_end "
      "on_validation_epoch_end on_validation_end");
  const std::vector<std::string> of_callbacks = words_in(
      "on_train_epoch_start on_train_batch_start on_before_zero_grad on_before_backward on_after_backward "
      "on_before_optimizer_step on_train_batch_end on_train_epoch_end on_validation_start on_validation_batch_end "
      "on_validation_epoch_end on_validation_end");
  std::size_t turn = 0;
  for (const std::string& hook : hooks) {
    cases.add({.row = "stop() on one rank in " + hook, .scenario = "stop_in_hook", .parameters = {"M." + hook, "1"}},
              turn++ % 4 == 0 ? 2 : 0);
  }
  for (const std::string& hook : of_callbacks) {
    cases.add(
        {.row = "stop() on one rank in a callback's " + hook, .scenario = "stop_in_hook", .parameters = {"C." + hook, "0"}},
        turn++ % 4 == 0 ? 4 : 0);
  }
  cases.add({.row = "stop() costs no collective", .scenario = "stop_is_free"}, 2);
  cases.add({.row = "every rank calls stop(), at another step", .scenario = "stops_of_all"}, 4);
  cases.add({.row = "a stop that min_steps holds up, taken back", .scenario = "stop_taken_back"}, 2);
  for (const char* known : {"known", "unknown"}) {
    cases.add({.row = std::string("a callback skips an epoch's validation on one rank, ") + known + " length",
               .scenario = "callback_skips_validation",
               .parameters = {"1", known}},
              2);
  }
}

void add_reading(Cases& cases) {
  cases.add({.row = "rank 0 alone reads metrics, log_dir and getters in every hook",
             .scenario = "one_rank_reads",
             .parameters = {"0"}},
            2);
  cases.add({.row = "rank 1 alone reads metrics, log_dir and getters in every hook",
             .scenario = "one_rank_reads",
             .parameters = {"1"}},
            4);
  cases.add({.row = "a logger reads metrics on rank 0", .scenario = "logger_reads"}, 2);
}

void add_collectives(Cases& cases) {
  constexpr int kSeconds = 10;
  const std::string site = "collective_scenarios.cpp:";
  const auto different = [&](const char* hook, const char* odd, const char* others, const char* who,
                             std::vector<std::string> says, int sampled) {
    const std::string row = std::string(odd) + " on rank " + who + ", " + others + " on others, in " + hook;
    cases.add({.row = row,
               .scenario = "collective",
               .parameters = {hook, odd, others, who},
               .status = 1,
               .says = std::move(says),
               .limit = kSeconds},
              sampled);
  };
  for (const char* operation : {"all_gather", "all_gather_large", "all_reduce", "broadcast", "barrier"}) {
    const std::string name = std::string(operation).substr(0, std::string(operation).find("_large"));
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
  for (const char* hook : {"on_fit_start", "on_train_start", "on_train_epoch_end", "on_validation_epoch_end",
                           "on_validation_end", "on_test_epoch_end", "on_train_end", "on_fit_end", "teardown"}) {
    const bool sampled = std::string(hook) == "on_validation_epoch_end" || std::string(hook) == "on_fit_end";
    different(hook, "barrier", "nothing", "0", {"barrier 'here' at " + site}, sampled ? 2 : 0);
    different(hook, "all_gather", "nothing", "1", {"all_gather at " + site}, 0);
  }
  for (const char* hook : {"training_step", "on_train_epoch_end", "on_validation_end", "on_fit_end"}) {
    const bool sampled = std::string(hook) == "on_validation_end";
    different(hook, "save_checkpoint", "nothing", "0", {"checkpoint"}, sampled ? 2 : 0);
  }
  cases.add({.row = "every rank calls every collective", .scenario = "collectives_of_all"}, 4);
  cases.add({.row = "rank 0 throws while others wait in a barrier",
             .scenario = "barrier_meets_exception",
             .status = 1,
             .says = {"rank 0 failed in training_step", "only rank 0 does this"},
             .limit = kSeconds},
            2);
}

void add_setup(Cases& cases) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> differences = {
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
  std::size_t turn = 0;
  for (const auto& [difference, texts] : differences) {
    std::vector<std::string> says = texts;
    says.push_back("ank 1");
    std::string row = difference;
    std::replace(row.begin(), row.end(), '_', ' ');
    const bool config = difference.rfind("parameter", 0) != 0 && difference != "buffer_shape";
    cases.add({.row = "another " + row + " on one rank",
               .scenario = "different_setup",
               .parameters = {difference, "1"},
               .status = config ? 2 : 1,
               .says = says,
               .lacks = {"step was taken"}},
              turn++ % 2 == 0 ? 2 : 4);
  }
  cases.add({.row = "the same set-up on all ranks",
             .scenario = "different_setup",
             .parameters = {"nothing", "1"},
             .says = {"a training step was taken"}},
            2);
}

void add_writing(Cases& cases) {
  for (const auto& [row, what] : {std::pair("a checkpoint that rank 0 cannot write", "checkpoint"),
                                  std::pair("a log folder that rank 0 cannot make", "log")}) {
    cases.add({.row = row,
               .scenario = "unwritable",
               .parameters = {what},
               .status = 1,
               .says = {"file/below", "levin: rank ", "rank 1 "},
               .limit = 10},
              2);
  }
}

std::vector<Case> all_cases() {
  Cases cases;
  add_logging(cases);
  add_data(cases);
  add_stopping(cases);
  add_reading(cases);
  add_collectives(cases);
  add_setup(cases);
  add_writing(cases);
  return cases.list();
}

}  // namespace

TEST_CASE("rows that docs/testing.md names are rows of the deadlock matrix") {
  std::set<std::string> rows;
  for (const Case& each : all_cases()) rows.insert(each.row);
  const std::string page = levin::test::read_text(LEVIN_SOURCE_DIR "/docs/testing.md");
  const std::regex named("row \"([^\n]+)\" \\|");
  int found = 0;
  for (std::sregex_iterator match(page.begin(), page.end(), named), end; match != end; ++match, ++found) {
    CHECK(rows.count((*match)[1]) == 1);
  }
  CHECK(found > 10);
}

TEST_CASE("the deadlock matrix") {
  // Part of the name of cells ("different keys", "2 ranks, Gloo"), to run those alone.
  const char* only = std::getenv("LEVIN_MATRIX_ONLY");
  MatrixReport report("Scenarios", "scenario");
  for (const char* column : {"2 ranks", "4 ranks", "2 ranks, Gloo"}) report.add_column(column);
  for (const Case& tested : all_cases()) {
    const std::string column = std::to_string(tested.ranks) + " ranks" + (tested.gloo ? ", Gloo" : "");
    const std::string name = tested.row + ", " + column;
    const bool chosen = only != nullptr ? name.find(only) != std::string::npos : tested.sampled || MatrixReport::whole();
    if (!chosen) continue;
    TemporaryFolder folder;
    const auto outcome = levin::test::run(command_of(tested, folder.path()));
    const std::string wrong = verdict(tested, outcome, folder.path());
    INFO(name << "\n" << outcome.text());
    CHECK(wrong == "");
    report.add(tested.row, column, wrong.empty());
  }
  if (MatrixReport::whole() && only == nullptr) report.write();
}
