#include <levin/levin.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace {

struct FaultyOptions {
  std::string fault = "throw";
  std::int64_t rank = 1;
  std::int64_t step = 3;

  static void declare(levin::OptionList<FaultyOptions>& options) {
    options.add("fault", &FaultyOptions::fault, "What goes wrong")
        .choices({"throw", "crash", "exit", "terminate", "log", "none"});
    options.add("rank", &FaultyOptions::rank, "On which rank").min(0);
    options.add("step", &FaultyOptions::step, "At which batch").min(0);
  }
};

/// Tells when objects of the plug-in are destroyed, where someone asks.
struct Farewell {
  ~Farewell() {
    if (std::getenv("LEVIN_TEST_FAREWELL") != nullptr) std::printf("farewell of rank %s\n", std::getenv("RANK"));
  }
} farewell;

/// A linear model in whose training step something goes wrong on one rank.
class Faulty : public levin::Module {
 public:
  using Options = FaultyOptions;
  explicit Faulty(FaultyOptions options) : options_(std::move(options)) {
    linear_ = register_module("linear", torch::nn::Linear(4, 1));
  }

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t batch_idx) override {
    if (trainer().rank() == options_.rank && batch_idx == options_.step) go_wrong();
    return linear_->forward(batch[0]).square().mean();
  }
  levin::OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }

 private:
  void go_wrong() {
    if (options_.fault == "throw") throw std::runtime_error("the sample is damaged");
    if (options_.fault == "crash") std::raise(SIGSEGV);
    if (options_.fault == "exit") std::_Exit(7);
    if (options_.fault == "terminate") std::raise(SIGTERM);
    // Only this rank logs: legal, and no reason to wait for the others.
    if (options_.fault == "log") log("lonely", 4.0, {.on_epoch = true, .sync_dist = true});
  }

  FaultyOptions options_;
  torch::nn::Linear linear_ = nullptr;
};

/// 64 samples of four ones.
levin::LoaderPtr ones() {
  auto dataset = std::make_shared<levin::TensorDataset>(levin::Batch{{"x", torch::ones({64, 4})}});
  return std::make_shared<levin::DataLoader>(dataset, levin::DataLoaderOptions{.batch_size = 4});
}

class OnesData : public levin::DataModule {
 public:
  levin::LoaderPtr train_dataloader() override { return ones(); }
};

/// The same model with the data in it.
class SelfFed : public Faulty {
 public:
  using Faulty::Faulty;
  levin::LoaderPtr train_dataloader() override { return ones(); }
};

LEVIN_REGISTER_MODULE(Faulty, "A model in whose training step something goes wrong");
LEVIN_REGISTER_MODULE(SelfFed, "A model that brings its data");
LEVIN_REGISTER_DATA_MODULE(OnesData, "Samples that are all ones");

}  // namespace
