// Microseconds per training step of several ranks, with so many metrics that are reduced over ranks at each step: the digits'
// MLP (64-256-256-10), SGD, batches of 32 a rank, one thread each, every step logged. One sample a run.
// benchmarks/peers/training_step.py is the same in Lightning. With `objects` they are metric objects, each updated and logged
// at each step: Accuracy over 10 classes.
//
//     synced_metrics RANKS METRICS [objects]
#include <levin/levin.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "sample.h"

namespace {

constexpr std::int64_t kSteps = 500;
constexpr std::int64_t kWarmUp = 100;
constexpr std::int64_t kBatchSize = 32;

class Mlp : public levin::Module {
 public:
  Mlp(int metrics, bool objects) {
    using torch::nn::Linear, torch::nn::ReLU;
    net_ = register_module("net", torch::nn::Sequential(Linear(64, 256), ReLU(), Linear(256, 256), ReLU(), Linear(256, 10)));
    for (int index = 0; index < metrics; ++index) {
      names_.push_back("metric_" + std::to_string(index));
      if (objects) objects_.push_back(&add_metric<levin::Accuracy>(names_.back(), {.num_classes = 10}));
    }
  }
  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto scores = net_->forward(batch["image"]);
    const auto loss = torch::nn::functional::cross_entropy(scores, batch["label"]);
    for (std::size_t index = 0; index < names_.size(); ++index) {
      if (objects_.empty()) {
        log(names_[index], loss, {.sync_dist = true});
      } else {
        objects_[index]->update(scores, batch["label"]);
        log(names_[index], *objects_[index], {.sync_dist = true});
      }
    }
    return loss;
  }
  void on_train_batch_end(const levin::StepOutput&, const levin::Batch&, std::int64_t batch_idx) override {
    if (batch_idx == kWarmUp) stopwatch_.start();
    if (batch_idx == kSteps - 1) seconds_ = stopwatch_.seconds();
  }
  levin::OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 1e-3); }

  double microseconds_per_step() const { return seconds_ / static_cast<double>(kSteps - 1 - kWarmUp) * 1e6; }

 private:
  torch::nn::Sequential net_;
  std::vector<std::string> names_;
  std::vector<levin::Accuracy*> objects_;
  levin::benchmarks::Stopwatch stopwatch_;
  double seconds_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: synced_metrics RANKS METRICS [objects]\n");
    return 2;
  }
  return levin::run_main([&] {
    const int ranks = std::atoi(argv[1]);
    levin::TrainerOptions options;
    options.max_epochs = 1;
    options.accelerator = "cpu";
    options.devices = levin::Devices(ranks);
    options.threads = 1;
    options.log_every_n_steps = 1;
    options.logger = false;
    options.enable_checkpointing = false;
    options.enable_progress_bar = false;
    options.enable_model_summary = false;
    options.log_level = levin::LogLevel::kWarning;
    levin::Trainer trainer(options);
    torch::manual_seed(0);
    const std::int64_t samples = kSteps * kBatchSize * ranks;
    const levin::Batch data{{"image", torch::rand({samples, 64})}, {"label", torch::randint(10, {samples})}};
    const auto loader = std::make_shared<levin::DataLoader>(std::make_shared<levin::TensorDataset>(data),
                                                            levin::DataLoaderOptions{.batch_size = kBatchSize});
    Mlp module(std::atoi(argv[2]), argc > 3 && std::string(argv[3]) == "objects");
    trainer.fit(module, loader);
    if (trainer.is_global_zero()) levin::benchmarks::print_sample(module.microseconds_per_step());
  });
}
