#include <levin/levin.h>

#include <csignal>
#include <cstdlib>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

namespace {

struct MistakenOptions {
  std::string mistake;
  std::string password;

  static void declare(levin::OptionList<MistakenOptions>& options) {
    options.add("mistake", &MistakenOptions::mistake, "What is wrong with it; empty: nothing");
    options.add("password", &MistakenOptions::password, "Of the place that its data is at");
  }
};

/// Eight samples of four numbers, with two classes; or what should not be a dataset.
class Samples : public levin::SampleDataset {
 public:
  explicit Samples(std::string mistake) : mistake_(std::move(mistake)) {}
  std::int64_t size() const override { return mistake_ == "empty_dataset" ? 0 : mistake_ == "negative_size" ? -3 : 8; }

 protected:
  levin::Batch get_sample(std::int64_t index) const override {
    if (mistake_ == "throw_in_dataset" && index == 3) throw std::runtime_error("the sample is damaged");
    const std::int64_t columns = mistake_ == "uneven_samples" ? 4 + index % 2 : 4;
    return {{"features", torch::full({columns}, static_cast<double>(index))}, {"label", torch::tensor(index % 2)}};
  }

 private:
  std::string mistake_;
};

/// Leaves out the last sample of each batch.
class ShortBatches : public levin::Dataset {
 public:
  std::int64_t size() const override { return samples_.size(); }
  levin::Batch get_batch(std::span<const std::int64_t> indices) const override {
    return samples_.get_batch(indices.first(indices.size() - 1));
  }

 private:
  Samples samples_{""};
};

/// A classifier that is right but for one mistake, by name.
class Mistaken : public levin::Module {
 public:
  using Options = MistakenOptions;
  explicit Mistaken(MistakenOptions options) : mistake_(std::move(options.mistake)), password_(std::move(options.password)) {
    using torch::nn::Linear;
    if (!is("no_parameters")) linear_ = register_module("linear", Linear(4, 2));
    if (is("forgotten_parameters")) forgotten_ = register_module("forgotten", Linear(4, 2));
    if (is("no_optimizer_step") || is("step_without_backward")) set_automatic_optimization(false);
    if (is("log_in_constructor")) log("train_loss", 1.0);
  }

  void setup(levin::Stage) override {
    if (is("throw_in_setup")) throw std::runtime_error("no such sensor");
    if (is("log_in_setup")) log("train_loss", 1.0);
  }

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t batch_idx) override {
    if (is("no_training_step")) return levin::Module::training_step(batch, batch_idx);
    if (is("throw_password")) throw std::runtime_error("refused: user=me password=" + password_);
    if (is("throw")) throw std::runtime_error("the sample is damaged");
    if (is("throw_a_number")) throw 42;  // NOLINT: a mistake
    if (is("crash")) std::raise(SIGSEGV);
    if (is("exit")) std::exit(0);
    if (is("no_parameters")) return {};
    if (is("unknown_key")) return batch["labels"].sum();
    const auto scores = linear_->forward(features_of(batch));
    auto loss = torch::nn::functional::cross_entropy(scores, is("class_out_of_range") ? batch["label"] + 2 : batch["label"]);
    if (is("log_vector")) log("train_loss", scores);
    if (is("log_without_name")) log("", loss);
    if (is("step_without_backward")) step_optimizer();
    if (is("vector_loss")) return scores.sum(1);
    if (is("broadcast_loss")) return torch::mse_loss(scores.narrow(1, 0, 1), batch["label"].to(torch::kFloat));
    if (is("unregistered_layer")) return loss + plain_->forward(batch["features"]).sum();
    if (is("detached_loss")) return loss.detach();
    if (is("integer_loss")) return loss.to(torch::kLong);
    if (is("in_place")) return changed_in_place(scores);
    if (is("backward_twice")) loss.backward();
    if (is("nan_loss")) return loss * std::numeric_limits<double>::quiet_NaN();
    return loss;
  }

  levin::OptimizerSetups configure_optimizers() override {
    return std::make_shared<torch::optim::SGD>(is("forgotten_parameters") ? linear_->parameters() : parameters(), 0.1);
  }

  levin::LoaderPtr train_dataloader() override { return loader(); }
  levin::LoaderList val_dataloaders() override {
    if (is("train_only_with_validation")) return {loader()};
    return {};
  }

 private:
  bool is(const char* mistake) const { return mistake_ == mistake; }

  torch::Tensor features_of(const levin::Batch& batch) const {
    if (is("wrong_shape")) return batch["features"].narrow(1, 0, 3);
    return is("wrong_type") ? batch["features"].to(torch::kLong) : batch["features"];
  }
  static torch::Tensor changed_in_place(const torch::Tensor& scores) {
    auto exponential = scores.exp();
    const auto loss = exponential.sum();
    exponential.mul_(2);
    return loss;
  }
  levin::LoaderPtr loader() const {
    levin::DatasetPtr samples = std::make_shared<Samples>(mistake_);
    if (is("short_batches")) samples = std::make_shared<ShortBatches>();
    return std::make_shared<levin::DataLoader>(std::move(samples), levin::DataLoaderOptions{.batch_size = 4});
  }

  std::string mistake_;
  std::string password_;
  torch::nn::Linear linear_ = nullptr, forgotten_ = nullptr, plain_{4, 1};
};

LEVIN_REGISTER_MODULE(Mistaken, "A classifier with one mistake");

}  // namespace
