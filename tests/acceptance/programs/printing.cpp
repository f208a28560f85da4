// A user's own program, whose hooks print on every rank. Run by cases/console.txt.
// Arguments: number of ranks; what to do: fit with the data "dataset", "own_loader" or "unknown_length", or a test with
// the same after "test_"; folder; log level.
#include <levin/levin.h>

#include <string>
#include <utility>

#include "levin/core/callback.h"
#include "support/fixed_loader.h"

namespace {

constexpr std::int64_t kSamples = 9;

class Printing : public levin::Module {
 public:
  Printing() { linear_ = register_module("linear", torch::nn::Linear(2, 1)); }

  void on_fit_start() override {
    levin::rank_info("own weights: ", linear_->weight.sizes());
    levin::rank_zero_only([] { levin::rank_zero_info("a table\n\n  of the whole run"); });
  }
  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t batch_idx) override {
    levin::rank_info("epoch ", trainer().current_epoch(), " batch ", batch_idx, " here");
    levin::rank_zero_info("epoch ", trainer().current_epoch(), " batch ", batch_idx, " everywhere");
    if (batch_idx == 0) levin::rank_zero_warn("watch epoch ", trainer().current_epoch());
    levin::rank_debug("details");
    // This rank's own value: a bar shows whose it is.
    log("bar_of_rank", static_cast<double>(trainer().rank()), {.prog_bar = true});
    // Said by every rank, and again in each epoch.
    levin::rank_warn_once("the rate is ", 0.5);
    TORCH_WARN("from LibTorch");
    return linear_->forward(batch[0]).square().mean();
  }
  void on_train_batch_end(const levin::StepOutput&, const levin::Batch& batch, std::int64_t) override {
    samples_ += levin::samples_of_all_ranks(trainer(), batch).value_or(0);
  }
  void on_train_epoch_end() override { levin::rank_info("samples of all ranks: ", std::exchange(samples_, 0)); }
  void test_step(const levin::Batch&, std::int64_t) override {}
  void on_test_epoch_end() override {
    const auto& totals = levin::evaluation_of_all_ranks(trainer());
    levin::rank_info("tested ", totals.batches, " batches, ", totals.samples, " samples");
  }
  levin::OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }

 private:
  torch::nn::Linear linear_ = nullptr;
  std::int64_t samples_ = 0;
};

levin::LoaderPtr make_loader(const std::string& data, int rank) {
  if (data != "dataset") return levin::test::FixedLoader::of_rows(2 + rank, 4, /*knows_size=*/data == "own_loader");
  auto dataset = std::make_shared<levin::TensorDataset>(levin::Batch{{"x", torch::ones({kSamples, 2})}});
  return std::make_shared<levin::DataLoader>(dataset, levin::DataLoaderOptions{.batch_size = 2});
}

void run(char** argv) {
  levin::TrainerOptions options;
  options.max_epochs = 2;
  options.accelerator = "cpu";
  options.devices = std::stoi(argv[1]);
  options.logger = false;
  options.enable_checkpointing = false;
  options.enable_model_summary = false;
  options.default_root_dir = argv[3];
  options.log_level = levin::choice_of<levin::LogLevel>(argv[4]).value();
  levin::Trainer trainer(options);
  Printing module;
  const std::string task = argv[2];
  const std::string test = "test_";
  if (task.starts_with(test)) {
    trainer.test(module, {make_loader(task.substr(test.size()), trainer.rank())}, {.verbose = false});
  } else {
    trainer.fit(module, make_loader(task, trainer.rank()));
  }
}

}  // namespace

int main(int, char** argv) {
  return levin::run_main([&] { run(argv); });
}
