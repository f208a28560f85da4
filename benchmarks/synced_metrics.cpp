// What metrics with sync_dist cost a training step on several ranks: the digits' MLP (64-256-256-10), SGD, batches of 32 a
// rank, one thread each, every step logged. Numbers of metrics alternate within one run; the median of the rounds counts.
// benchmarks/peers/lightning_synced_metrics.py is the same in Lightning.
#include <levin/levin.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "levin/data/data_loader.h"
#include "levin/data/dataset.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kSteps = 300;
constexpr std::int64_t kWarmUp = 50;
constexpr std::int64_t kBatchSize = 32;

class Mlp : public levin::Module {
 public:
  explicit Mlp(int metrics) {
    using torch::nn::Linear, torch::nn::ReLU;
    net_ = register_module("net", torch::nn::Sequential(Linear(64, 256), ReLU(), Linear(256, 256), ReLU(), Linear(256, 10)));
    for (int index = 0; index < metrics; ++index) names_.push_back("metric_" + std::to_string(index));
  }
  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto loss = torch::nn::functional::cross_entropy(net_->forward(batch["image"]), batch["label"]);
    for (const std::string& name : names_) log(name, loss, {.sync_dist = true});
    return loss;
  }
  void on_train_batch_end(const levin::StepOutput&, const levin::Batch&, std::int64_t batch_idx) override {
    if (batch_idx == kWarmUp) started_ = Clock::now();
    if (batch_idx == kSteps - 1) seconds_ = std::chrono::duration<double>(Clock::now() - started_).count();
  }
  levin::OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 1e-3); }

  double microseconds_per_step() const { return seconds_ / static_cast<double>(kSteps - 1 - kWarmUp) * 1e6; }

 private:
  torch::nn::Sequential net_;
  std::vector<std::string> names_;
  Clock::time_point started_;
  double seconds_ = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  if (ranks < 1 || rounds < 1) {
    std::fprintf(stderr, "usage: synced_metrics [ranks] [rounds]\n");
    return 2;
  }
  at::set_num_threads(1);
  levin::TrainerOptions options;
  options.max_epochs = 1;
  options.accelerator = "cpu";
  options.devices = levin::Devices(ranks);
  options.log_every_n_steps = 1;
  options.logger = false;
  options.enable_checkpointing = false;
  options.enable_progress_bar = false;
  options.enable_model_summary = false;
  options.log_level = levin::LogLevel::kWarning;
  const std::int64_t samples = kSteps * kBatchSize * ranks;
  std::map<int, std::vector<double>> times;
  bool first_rank = false;
  for (int round = 0; round < rounds; ++round) {
    for (const int metrics : {0, 1, 10, 100}) {
      levin::Trainer trainer(options);
      first_rank = trainer.is_global_zero();
      torch::manual_seed(0);
      const levin::Batch data{{"image", torch::rand({samples, 64})}, {"label", torch::randint(10, {samples})}};
      auto loader = std::make_shared<levin::DataLoader>(std::make_shared<levin::TensorDataset>(data),
                                                        levin::DataLoaderOptions{.batch_size = kBatchSize});
      Mlp module(metrics);
      trainer.fit(module, loader);
      times[metrics].push_back(module.microseconds_per_step());
    }
  }
  if (!first_rank) return 0;
  const double none = median(times[0]);
  for (const auto& [metrics, values] : times) {
    const double time = median(values);
    std::printf("synced_metrics: %d ranks, %3d metrics with sync_dist: %7.0f us a step, %+6.0f us, ratio %.2f\n", ranks,
                metrics, time, time - none, time / none);
  }
}
