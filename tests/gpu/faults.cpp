// A plug-in for `make gpu-check`: modules whose step fails as GPUs fail.
#include <levin/levin.h>

namespace {

/// Learns nothing; at step `at` it asks for more memory than exists, or gives cross_entropy a label out of range.
class Faulty : public levin::Module {
 public:
  struct Options {
    std::string fault = "none";
    std::int64_t at = 3;

    static void declare(levin::OptionList<Options>& options) {
      options.add("fault", &Options::fault, "memory, label or none");
      options.add("at", &Options::at, "The step of the fault");
    }
  };
  explicit Faulty(const Options& options) : options_(options) {}

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const bool now = trainer().global_step() == options_.at;
    at::Tensor labels = batch["label"];
    if (now && options_.fault == "memory") torch::empty({std::int64_t{1} << 42}, torch::TensorOptions(device()));
    if (now && options_.fault == "label") labels = labels + 100;
    const auto loss = torch::nn::functional::cross_entropy(layer_->forward(batch["features"]), labels);
    log("loss", loss, {.on_step = true});
    return loss;
  }
  levin::LoaderPtr train_dataloader() override {
    torch::manual_seed(1);
    const levin::Batch data{{"features", torch::randn({640, 16})}, {"label", torch::randint(4, {640})}};
    return levin::DataLoader(levin::TensorDataset(data), {.batch_size = 32});
  }
  levin::OptimizerSetups configure_optimizers() override { return levin::AdamW(parameters(), 1e-3); }

 private:
  Options options_;
  torch::nn::Linear layer_ = register_module("layer", torch::nn::Linear(16, 4));
};

LEVIN_REGISTER_MODULE(Faulty, "Fails as GPUs fail");

}  // namespace
