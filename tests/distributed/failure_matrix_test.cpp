// Every place at which user code runs x every manner of failing x every rank. `make test` runs a sample in which every place
// and every manner occurs; with LEVIN_MATRIX=all the whole runs, and deadlock-matrix.md of the build folder gets the table.
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
  // A run that is cut short has then seen every place and manner on some ranks.
  for (int rank = 0; rank < kRanks; ++rank) {
    for (const Place& place : kPlaces) {
      for (const char* manner : kManners) {
        if (place.rank_zero_only && rank > 0) continue;
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

/// The results as they come, written down now and then: a run of the whole matrix takes long.
class Results {
 public:
  void add(const FailureCase& failed, const std::vector<std::string>& problems) {
    const std::lock_guard lock(mutex_);
    const std::string row = (failed.entry == "fit" ? "" : failed.entry + ": ") + failed.place;
    report_.add(row, failed.manner, problems.empty());
    for (const std::string& problem : problems) problems_ += failed.str() + ": " + problem + "\n";
    if (++count_ % kBetweenWrites == 0) write();
  }
  /// What went wrong; empty when nothing did.
  const std::string& problems() const { return problems_; }
  void write() const {
    if (!MatrixReport::whole()) return;
    report_.write();
    std::cerr << count_ << " runs" << (problems_.empty() ? "" : ", with these problems:\n") << problems_ << std::endl;
  }

 private:
  static constexpr int kBetweenWrites = 100;
  std::mutex mutex_;
  MatrixReport report_{"Failures", "hook"};
  std::string problems_;
  int count_ = 0;
};

/// Several runs at once: those that stall mostly wait.
void run_all(const std::vector<FailureCase>& cases, Results& results) {
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> workers;
  for (int worker = 0; worker < kRunsAtOnce; ++worker) {
    workers.emplace_back([&] {
      for (std::size_t index = next++; index < cases.size(); index = next++) {
        const TemporaryFolder folder;
        try {
          results.add(cases[index], problems_of(cases[index], folder.path()));
        } catch (const std::exception& error) {
          results.add(cases[index], {std::string("the test itself failed: ") + error.what()});
        }
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
}

}  // namespace

TEST_CASE("one failing rank ends all in time, with its place first, one line for each other, and nothing damaged") {
  // Part of the names of cases ("module.backward, loop"), to run those alone.
  const char* only = std::getenv("LEVIN_MATRIX_ONLY");
  std::vector<FailureCase> cases = MatrixReport::whole() || only != nullptr ? whole_matrix() : sample();
  if (only != nullptr) {
    std::erase_if(cases, [&](const FailureCase& failed) { return failed.str().find(only) == std::string::npos; });
  }
  REQUIRE_FALSE(cases.empty());
  Results results;
  run_all(cases, results);
  results.write();
  CHECK(results.problems() == "");
}
