// One class of each kind that a plug-in may register. Together they train one weight in a way that is easily reckoned.
#include <levin/levin.h>

#include <fstream>

#include "support/sign_descent.h"

namespace {

struct CountingOptions {
  std::int64_t length = 1;
  static void declare(levin::OptionList<CountingOptions>& options) {
    options.add("length", &CountingOptions::length, "Samples").min(1);
  }
};

/// The numbers 1, 2, 3, …
class Counting : public levin::SampleDataset {
 public:
  using Options = CountingOptions;
  explicit Counting(CountingOptions options) : options_(options) {}
  std::int64_t size() const override { return options_.length; }

 protected:
  levin::Batch get_sample(std::int64_t index) const override {
    return torch::full({1}, static_cast<double>(index + 1), torch::kDouble);
  }

 private:
  CountingOptions options_;
};
LEVIN_REGISTER_DATASET(Counting, "Counts from 1");

class Backwards : public levin::Sampler {
 public:
  std::vector<std::int64_t> order(const levin::EpochKey& key) const override {
    std::vector<std::int64_t> order(static_cast<std::size_t>(key.dataset_size));
    for (std::size_t i = 0; i < order.size(); ++i) order[order.size() - 1 - i] = static_cast<std::int64_t>(i);
    return order;
  }
  bool shuffles() const override { return false; }
};
LEVIN_REGISTER_SAMPLER(Backwards, "The last sample first");

class CountingData : public levin::DataModule {
 public:
  levin::LoaderPtr train_dataloader() override {
    return std::make_shared<levin::DataLoader>(std::make_shared<Counting>(CountingOptions{.length = 2}));
  }
};
LEVIN_REGISTER_DATA_MODULE(CountingData, "Counts to 2");

class Halving : public levin::SteppedLrScheduler {
 public:
  explicit Halving(torch::optim::Optimizer& optimizer) : SteppedLrScheduler(optimizer) { start(); }

 private:
  double next_lr(std::size_t, double lr) override { return last_epoch() == 0 ? lr : lr / 2; }
};
LEVIN_REGISTER_LR_SCHEDULER(Halving, "Half the rate at each step");

class Alone : public levin::SingleDeviceStrategy {
 public:
  std::string name() const override { return "alone"; }
};
LEVIN_REGISTER_STRATEGY(Alone, "One process");

class OneWeight : public levin::Module {
 public:
  OneWeight() { weight_ = register_parameter("weight", torch::ones({1}, torch::kDouble)); }
  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    log("x", batch[0].item<double>());
    log("weight", weight_.item<double>());
    return (weight_ * batch[0]).sum();
  }

 private:
  at::Tensor weight_;
};
LEVIN_REGISTER_MODULE(OneWeight, "One weight");

struct FileOptions {
  std::filesystem::path file;
  static void declare(levin::OptionList<FileOptions>& options) {
    options.add("file", &FileOptions::file, "Where to write").required();
  }
};

class Lines : public levin::Logger {
 public:
  using Options = FileOptions;
  explicit Lines(FileOptions options) : file_(options.file) {}
  void log_metrics(const levin::MetricRow& row) override { file_ << levin::to_json(row.values) << std::endl; }

 private:
  std::ofstream file_;
};
LEVIN_REGISTER_LOGGER(Lines, "Lines of JSON");

/// Writes down what a callback can learn at the end.
class Witness : public levin::Callback {
 public:
  using Options = FileOptions;
  explicit Witness(FileOptions options) : options_(std::move(options)) {}
  void on_fit_end(levin::Trainer& trainer, levin::Module&) override {
    std::ofstream(options_.file) << levin::to_json(levin::learning_rates(trainer)) << '\n'
                                 << trainer.stop_reason() << '\n'
                                 << trainer.strategy().name() << '\n'
                                 << (trainer.callback<Witness>() == this ? "itself" : "another") << '\n';
  }

 private:
  FileOptions options_;
};
LEVIN_REGISTER_CALLBACK(Witness, "Writes down how a run ended");

}  // namespace
