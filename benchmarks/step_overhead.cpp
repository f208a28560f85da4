// Time per training step under the Trainer, with CSVLogger, progress bar, checkpoints and a learning-rate monitor, against the
// same steps in a loop written by hand on LibTorch: the digits' MLP (64-256-256-10), Adam, batches of 32, one thread.
// The two alternate within one run, so that a busy machine slows both; the median of the ratios counts.
#include <levin/levin.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "levin/callbacks/learning_rate_monitor.h"
#include "levin/callbacks/model_checkpoint.h"
#include "levin/callbacks/progress_bar.h"
#include "levin/data/data_loader.h"
#include "levin/data/dataset.h"
#include "levin/loggers/csv_logger.h"

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kSamples = 1472;  // 46 batches, as many as the digits' training part
constexpr std::int64_t kBatchSize = 32;
constexpr std::int64_t kEpochs = 10;
constexpr double kSteps = static_cast<double>(kEpochs) * kSamples / kBatchSize;

torch::nn::Sequential make_net() {
  using torch::nn::Linear, torch::nn::ReLU;
  return torch::nn::Sequential(Linear(64, 256), ReLU(), Linear(256, 256), ReLU(), Linear(256, 10));
}

levin::Batch make_data() { return {{"image", torch::rand({kSamples, 64})}, {"label", torch::randint(10, {kSamples})}}; }

/// Measures the time between the first and the last step, leaving out what happens once a run.
class Stopwatch {
 public:
  void start() { started_ = Clock::now(); }
  void stop() { seconds_ = std::chrono::duration<double>(Clock::now() - started_).count(); }
  double microseconds_per_step() const { return seconds_ / kSteps * 1e6; }

 private:
  Clock::time_point started_;
  double seconds_ = 0;
};

class Mlp : public levin::Module {
 public:
  explicit Mlp(Stopwatch& stopwatch) : stopwatch_(stopwatch), net_(register_module("net", make_net())) {}
  void on_train_start() override { stopwatch_.start(); }
  void on_train_end() override { stopwatch_.stop(); }
  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto loss = torch::nn::functional::cross_entropy(net_->forward(batch["image"]), batch["label"]);
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }
  levin::OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::Adam>(parameters(), 1e-3); }

 private:
  Stopwatch& stopwatch_;
  torch::nn::Sequential net_;
};

double with_trainer(const levin::Batch& data, const fs::path& folder) {
  Stopwatch stopwatch;
  Mlp module(stopwatch);
  levin::TrainerOptions options;
  options.max_epochs = kEpochs;
  options.accelerator = "cpu";
  options.default_root_dir = folder;
  options.logger = std::make_shared<levin::CsvLogger>();
  options.callbacks = {std::make_shared<levin::ProgressBar>(), std::make_shared<levin::LearningRateMonitor>(),
                       std::make_shared<levin::ModelCheckpoint>()};
  options.enable_model_summary = false;
  levin::Trainer trainer(options);
  auto loader = std::make_shared<levin::DataLoader>(std::make_shared<levin::TensorDataset>(data),
                                                    levin::DataLoaderOptions{.batch_size = kBatchSize, .shuffle = true});
  trainer.fit(module, loader);
  return stopwatch.microseconds_per_step();
}

double by_hand(const levin::Batch& data) {
  Stopwatch stopwatch;
  auto net = make_net();
  torch::optim::Adam optimizer(net->parameters(), 1e-3);
  stopwatch.start();
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const auto order = torch::randperm(kSamples, torch::kLong);
    for (std::int64_t first = 0; first < kSamples; first += kBatchSize) {
      const auto indices = order.narrow(0, first, kBatchSize);
      const auto images = data["image"].index_select(0, indices);
      const auto labels = data["label"].index_select(0, indices);
      optimizer.zero_grad();
      const auto loss = torch::nn::functional::cross_entropy(net->forward(images), labels);
      loss.backward();
      optimizer.step();
    }
  }
  stopwatch.stop();
  return stopwatch.microseconds_per_step();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  if (rounds < 1) {
    std::cerr << "usage: step_overhead [rounds]\n";
    return 2;
  }
  at::set_num_threads(1);
  torch::manual_seed(0);
  const levin::Batch data = make_data();
  std::string pattern = (fs::temp_directory_path() / "step_overhead_XXXXXX").string();
  const fs::path folder = ::mkdtemp(pattern.data());

  std::vector<double> by_hand_times, trainer_times, ratios;
  by_hand(data);  // the first run pays for what LibTorch does once
  for (int round = 0; round < rounds; ++round) {
    by_hand_times.push_back(by_hand(data));
    trainer_times.push_back(with_trainer(data, folder));
    ratios.push_back(trainer_times.back() / by_hand_times.back());
  }
  fs::remove_all(folder);
  std::cout << "step_overhead: by hand " << median(by_hand_times) << " us a step, under the Trainer " << median(trainer_times)
            << " us, median ratio " << median(ratios) << " of " << rounds << " rounds\n";
}
