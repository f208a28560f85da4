// Every place where user code runs x every manner of failing x every rank. `make test` runs a sample in which every place
// and every manner occurs; with LEVIN_MATRIX=all the whole runs, and reports each problem at once.
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <iostream>
#include <mutex>
#include <thread>

#include "distributed/failure_run.h"
#include "support/file_text.h"
#include "support/matrix_report.h"
#include "support/temporary_folder.h"
#include "support/whole_matrix.h"

namespace levin::test {
namespace {

constexpr int kRanks = 4;
constexpr int kRunsAtOnce = 3;

constexpr std::array kManners = {"throw", "throw_object", "memory",  "abort",   "segfault",
                                 "exit",  "sigkill",      "sigterm", "sigstop", "loop"};

struct Place {
  std::string entry;
  std::string name;
  bool rank_zero_only;  ///< only rank 0 reaches it
};

std::vector<Place> places() {
  std::vector<Place> all;
  // With *: on rank 0 only.
  for (const auto& [entry, names] : std::vector<std::pair<std::string, std::string>>{
           {"fit",
            "main.start module.configure_callbacks data.prepare_data* module.prepare_data* logger.open* data.setup "
            "callback.setup "
            "module.setup module.configure_model module.configure_optimizers callback.on_fit_start module.on_fit_start "
            "data.val_dataloaders callback.on_sanity_check_start callback.on_sanity_check_end data.train_dataloader "
            "callback.on_train_start module.on_train_start module.on_train_epoch_start train_loader.next worker.get_batch "
            "module.on_before_batch_transfer module.transfer_batch_to_device module.on_after_batch_transfer "
            "callback.on_train_batch_start module.on_train_batch_start module.optimizer_step module.training_step "
            "module.on_before_zero_grad module.optimizer_zero_grad module.on_before_backward module.backward "
            "callback.on_after_backward module.on_after_backward module.on_before_optimizer_step "
            "module.configure_gradient_clipping module.lr_scheduler_step callback.on_train_batch_end module.on_train_batch_end "
            "callback.on_rank_metrics logger.log_metrics* logger.save module.on_validation_model_zero_grad "
            "module.on_validation_model_eval module.on_validation_start module.on_validation_epoch_start val_loader.next "
            "module.on_validation_batch_start module.validation_step module.on_validation_batch_end "
            "callback.on_validation_epoch_end module.on_validation_epoch_end module.on_validation_end "
            "module.on_validation_model_train callback.on_train_epoch_end module.on_train_epoch_end callback.state_dict "
            "data.state_dict callback.on_save_checkpoint module.on_save_checkpoint module.on_train_end callback.on_fit_end "
            "module.on_fit_end callback.teardown module.teardown logger.finalize"},
           {"validate", "module.validation_step module.on_validation_epoch_end"},
           {"test",
            "data.test_dataloaders module.on_test_start test_loader.next module.test_step module.on_test_epoch_end "
            "module.teardown"},
           {"predict", "module.predict_step module.on_predict_batch_end module.on_predict_end"}}) {
    for (const std::string& name : words_in(names)) {
      const std::size_t end = name.find('*');
      all.push_back({entry, name.substr(0, end), end != std::string::npos});
    }
  }
  return all;
}

FailureCase case_of(const Place& place, const char* manner, int rank) {
  return {.entry = place.entry, .place = place.name, .manner = manner, .rank = rank, .ranks = kRanks};
}

std::vector<FailureCase> whole_matrix() {
  std::vector<FailureCase> cases;
  // A shortened run then covers every place and manner on some ranks.
  for (int rank = 0; rank < kRanks; ++rank) {
    for (const Place& place : places()) {
      for (const char* manner : kManners) {
        if (rank == 0 || !place.rank_zero_only) cases.push_back(case_of(place, manner, rank));
      }
    }
  }
  return cases;
}

/// Every place once; manners and ranks in turn.
std::vector<FailureCase> sample() {
  std::vector<FailureCase> cases;
  std::size_t turn = 0;
  for (const Place& place : places()) {
    // The rank advances faster than the manner, so that each manner meets each rank.
    const auto rank = static_cast<int>((turn + turn / kManners.size()) % kRanks);
    cases.push_back(case_of(place, kManners[turn++ % kManners.size()], place.rank_zero_only ? 0 : rank));
  }
  return cases;
}

/// Describes what goes wrong. Several runs at once: stalled ones mostly wait.
std::string problems_of_all(const std::vector<FailureCase>& cases) {
  std::string problems;
  MatrixReport report("Failures", "hook");
  std::mutex mutex;
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> workers;
  for (int worker = 0; worker < kRunsAtOnce; ++worker) {
    workers.emplace_back([&] {
      for (std::size_t index = next++; index < cases.size(); index = next++) {
        const TemporaryFolder folder;
        std::vector<std::string> found;
        try {
          found = problems_of(cases[index], folder.path());
        } catch (const std::exception& error) {
          found = {std::string("the test itself failed: ") + error.what()};
        }
        const std::lock_guard lock(mutex);
        for (const std::string& problem : found) problems += cases[index].str() + ": " + problem + "\n";
        report.add((cases[index].entry == "fit" ? "" : cases[index].entry + ": ") + cases[index].place, cases[index].manner,
                   found.empty());
        if (is_whole_matrix() && !found.empty()) std::cerr << cases[index].str() << ": " << found.front() << std::endl;
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  if (is_whole_matrix()) report.write();
  return problems;
}

}  // namespace

TEST_CASE("one failing rank ends all in time, with its place first, one line for each other, and nothing damaged") {
  // Part of the names of cases ("module.backward, loop"), to run those alone.
  const char* only = std::getenv("LEVIN_MATRIX_ONLY");
  std::vector<FailureCase> cases = is_whole_matrix() || only != nullptr ? whole_matrix() : sample();
  if (only != nullptr) {
    std::erase_if(cases, [&](const FailureCase& failed) { return failed.str().find(only) == std::string::npos; });
  }
  REQUIRE_FALSE(cases.empty());
  CHECK(problems_of_all(cases) == "");
}

}  // namespace levin::test
