// Every place at which user code runs x every manner of failing x every rank. `make test` runs a sample in which every place
// and every manner occurs; with LEVIN_MATRIX=all the whole runs, and docs/deadlock-matrix.md gets the table.
#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <iostream>
#include <mutex>
#include <thread>

#include "distributed/failure_run.h"
#include "support/matrix_report.h"
#include "support/temporary_folder.h"

using levin::test::FailureCase;
using levin::test::MatrixReport;
using levin::test::problems_of;
using levin::test::TemporaryFolder;

namespace {

constexpr int kRanks = 4;
constexpr int kRunsAtOnce = 3;

constexpr std::array kManners = {"throw", "throw_object", "memory",  "abort",   "segfault",
                                 "exit",  "sigkill",      "sigterm", "sigstop", "loop"};

struct Place {
  const char* entry;
  const char* name;
  bool rank_zero_only = false;  ///< only rank 0 comes there
};

// clang-format off
constexpr std::array kPlaces = {
    Place{"fit", "main.start"},
    Place{"fit", "module.configure_callbacks"}, Place{"fit", "data.prepare_data", true}, Place{"fit", "module.prepare_data", true},
    Place{"fit", "logger.open", true}, Place{"fit", "data.setup"}, Place{"fit", "callback.setup"}, Place{"fit", "module.setup"},
    Place{"fit", "module.configure_model"}, Place{"fit", "module.configure_optimizers"}, Place{"fit", "callback.on_fit_start"},
    Place{"fit", "module.on_fit_start"}, Place{"fit", "data.val_dataloaders"}, Place{"fit", "callback.on_sanity_check_start"},
    Place{"fit", "callback.on_sanity_check_end"}, Place{"fit", "data.train_dataloader"}, Place{"fit", "callback.on_train_start"},
    Place{"fit", "module.on_train_start"}, Place{"fit", "module.on_train_epoch_start"}, Place{"fit", "train_loader.next"},
    Place{"fit", "worker.get_batch"}, Place{"fit", "module.on_before_batch_transfer"}, Place{"fit", "module.transfer_batch_to_device"},
    Place{"fit", "module.on_after_batch_transfer"}, Place{"fit", "callback.on_train_batch_start"},
    Place{"fit", "module.on_train_batch_start"}, Place{"fit", "module.optimizer_step"}, Place{"fit", "module.training_step"},
    Place{"fit", "module.on_before_zero_grad"}, Place{"fit", "module.optimizer_zero_grad"}, Place{"fit", "module.on_before_backward"},
    Place{"fit", "module.backward"}, Place{"fit", "callback.on_after_backward"}, Place{"fit", "module.on_after_backward"},
    Place{"fit", "module.on_before_optimizer_step"}, Place{"fit", "module.configure_gradient_clipping"},
    Place{"fit", "module.lr_scheduler_step"}, Place{"fit", "callback.on_train_batch_end"}, Place{"fit", "module.on_train_batch_end"},
    Place{"fit", "callback.on_rank_metrics"}, Place{"fit", "logger.log_metrics", true}, Place{"fit", "logger.save"},
    Place{"fit", "module.on_validation_model_zero_grad"}, Place{"fit", "module.on_validation_model_eval"},
    Place{"fit", "module.on_validation_start"}, Place{"fit", "module.on_validation_epoch_start"}, Place{"fit", "val_loader.next"},
    Place{"fit", "module.on_validation_batch_start"}, Place{"fit", "module.validation_step"},
    Place{"fit", "module.on_validation_batch_end"}, Place{"fit", "callback.on_validation_epoch_end"},
    Place{"fit", "module.on_validation_epoch_end"}, Place{"fit", "module.on_validation_end"},
    Place{"fit", "module.on_validation_model_train"}, Place{"fit", "callback.on_train_epoch_end"},
    Place{"fit", "module.on_train_epoch_end"}, Place{"fit", "callback.state_dict"}, Place{"fit", "data.state_dict"},
    Place{"fit", "callback.on_save_checkpoint"}, Place{"fit", "module.on_save_checkpoint"}, Place{"fit", "module.on_train_end"},
    Place{"fit", "callback.on_fit_end"}, Place{"fit", "module.on_fit_end"}, Place{"fit", "callback.teardown"},
    Place{"fit", "module.teardown"}, Place{"fit", "logger.finalize"},
    Place{"validate", "module.validation_step"}, Place{"validate", "module.on_validation_epoch_end"},
    Place{"test", "data.test_dataloaders"}, Place{"test", "module.on_test_start"}, Place{"test", "test_loader.next"},
    Place{"test", "module.test_step"}, Place{"test", "module.on_test_epoch_end"}, Place{"test", "module.teardown"},
    Place{"predict", "module.predict_step"}, Place{"predict", "module.on_predict_batch_end"}, Place{"predict", "module.on_predict_end"},
};
// clang-format on

std::vector<FailureCase> whole_matrix() {
  std::vector<FailureCase> cases;
  for (const Place& place : kPlaces) {
    for (const char* manner : kManners) {
      for (int rank = 0; rank < (place.rank_zero_only ? 1 : kRanks); ++rank) {
        cases.push_back({.entry = place.entry, .place = place.name, .manner = manner, .rank = rank, .ranks = kRanks});
      }
    }
  }
  return cases;
}

/// Every place once; manners and ranks in turn.
std::vector<FailureCase> sample() {
  std::vector<FailureCase> cases;
  int turn = 0;
  for (const Place& place : kPlaces) {
    const char* manner = kManners[static_cast<std::size_t>(turn) % kManners.size()];
    // The rank goes on faster than the manners do, so that each manner meets each rank.
    const int rank = place.rank_zero_only ? 0 : (turn + turn / static_cast<int>(kManners.size())) % kRanks;
    cases.push_back({.entry = place.entry, .place = place.name, .manner = manner, .rank = rank, .ranks = kRanks});
    ++turn;
  }
  return cases;
}

using Result = std::vector<std::string>;

/// Several runs at once: those that stall mostly wait.
std::vector<Result> run_all(const std::vector<FailureCase>& cases) {
  std::vector<Result> results(cases.size());
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> workers;
  for (int worker = 0; worker < kRunsAtOnce; ++worker) {
    workers.emplace_back([&] {
      for (std::size_t index = next++; index < cases.size(); index = next++) {
        const TemporaryFolder folder;
        try {
          results[index] = problems_of(cases[index], folder.path());
        } catch (const std::exception& error) {
          results[index] = {std::string("the test itself failed: ") + error.what()};
        }
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  return results;
}

}  // namespace

TEST_CASE("one failing rank ends all in time, with its place first, one line for each other, and nothing damaged") {
  const std::vector<FailureCase> cases = MatrixReport::whole() ? whole_matrix() : sample();
  const std::vector<Result> results = run_all(cases);
  MatrixReport report("failures", "hook");
  for (std::size_t index = 0; index < cases.size(); ++index) {
    const std::string row = (cases[index].entry == "fit" ? "" : cases[index].entry + ": ") + cases[index].place;
    report.add(row, cases[index].manner, results[index].empty());
    std::string problems;
    for (const std::string& problem : results[index]) problems += problem + "\n";
    INFO(cases[index].str() << "\n" << problems);
    CHECK(results[index].empty());
  }
  if (MatrixReport::whole()) report.write(LEVIN_SOURCE_DIR "/docs/deadlock-matrix.md");
}
