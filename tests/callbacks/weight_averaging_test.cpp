#include "levin/callbacks/weight_averaging.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "callbacks/scripted_run.h"
#include "levin/callbacks/model_checkpoint.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/options/value_json.h"
#include "levin/data/data_loader.h"
#include "support/file_text.h"

using namespace levin;
using namespace levin::test;

namespace {

/// As in make_weight_averaging_references.py.
class Regression final : public Module {
 public:
  Regression() {
    layer_->weight.set_data(torch::tensor({{0.5, -0.25}}, torch::kDouble));
    layer_->bias.set_data(torch::tensor({0.1}, torch::kDouble));
    to(torch::kDouble);
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override { return loss(batch); }
  void validation_step(const Batch& batch, std::int64_t) override {
    val_losses.push_back(loss(batch).item<double>());
    if (in_validation) in_validation();
  }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }

  std::vector<double> val_losses;
  std::function<void()> in_validation;

 private:
  at::Tensor loss(const Batch& batch) {
    return torch::mse_loss(layer_->forward(norm_->forward(batch["inputs"])), batch["targets"]);
  }
  torch::nn::BatchNorm1d norm_ = register_module("norm", torch::nn::BatchNorm1d(2));
  torch::nn::Linear layer_ = register_module("layer", torch::nn::Linear(2, 1));
};

LoaderPtr loader(std::int64_t samples, std::int64_t batch_size) {
  const at::Tensor index = torch::arange(samples, torch::kDouble);
  const at::Tensor first = index.sin(), second = (2 * index).cos();
  const Batch data{{"inputs", torch::stack({first, second}, 1)}, {"targets", (first - 2 * second + 0.5).unsqueeze(1)}};
  return std::make_shared<DataLoader>(std::make_shared<TensorDataset>(data), DataLoaderOptions{.batch_size = batch_size});
}

struct AveragedFit {
  explicit AveragedFit(Component<Callback> averaging) : run(3) {
    run.options.precision = PrecisionFormat::kFloat64;
    run.options.num_sanity_val_steps = 0;
    run.options.enable_checkpointing = std::nullopt;
    run.options.callbacks = {std::move(averaging), std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{
                                                       .dirpath = run.folder.path(), .save_last = true})};
  }
  void operator()() {
    Trainer trainer(run.options);
    trainer.fit(module, loader(12, 3), {loader(5, 5)});
  }
  Checkpoint last() const { return Checkpoint::load(run.folder / "last.ckpt"); }

  ScriptedRun run;
  Regression module;
};

void check_numbers(const Value& expected, const std::function<at::Tensor(const std::string&)>& tensor_of) {
  for (const auto& [name, numbers] : expected.as_map()) {
    INFO(name);
    const at::Tensor flat = tensor_of(name).reshape({-1});
    REQUIRE(flat.numel() == static_cast<std::int64_t>(numbers.as_list().size()));
    for (std::int64_t place = 0; place < flat.numel(); ++place) {
      CHECK(flat[place].item<double>() == Approx(numbers.as_list()[static_cast<std::size_t>(place)].as_double()).epsilon(1e-9));
    }
  }
}

at::Tensor tensor_of(const Module& module, const std::string& name) {
  const auto parameters = module.named_parameters();
  return parameters.contains(name) ? parameters[name] : module.named_buffers()[name];
}

}  // namespace

TEST_CASE("averaged weights are Lightning's: in validation, in checkpoints and after the fit") {
  const Value references = parse_json(read_text(LEVIN_SOURCE_DIR "/tests/callbacks/weight_averaging_references.json"));
  for (const Value& reference : references.as_list()) {
    INFO(to_json(reference.at("arguments")));
    AveragedFit averaged({reference.at("class"), reference.at("arguments")});
    averaged();
    const auto& losses = reference.at("val_losses").as_list();
    REQUIRE(averaged.module.val_losses.size() == losses.size());
    for (std::size_t epoch = 0; epoch < losses.size(); ++epoch) {
      // Lightning validates its initial weights here, before the end of the first epoch has averaged any.
      if (epoch == 0 && reference.at("arguments").find("update_starting_at_epoch") != nullptr &&
          reference.at("arguments").at("update_every_n_steps") == Value(0)) {
        CHECK(averaged.module.val_losses[0] < losses[0].as_double() * 0.9);
        continue;
      }
      CHECK(averaged.module.val_losses[epoch] == Approx(losses[epoch].as_double()).epsilon(1e-9));
    }
    const Checkpoint last = averaged.last();
    check_numbers(reference.at("module"), [&](const std::string& name) { return tensor_of(averaged.module, name); });
    check_numbers(reference.at("state_dict"), [&](const std::string& name) { return last.tensors.at("state_dict." + name); });
    check_numbers(reference.at("current_model_state"),
                  [&](const std::string& name) { return last.tensors.at("current_model_state." + name); });
  }
}

TEST_CASE("an exception in validation leaves the weights that are trained, and a checkpoint has both") {
  AveragedFit plain(std::make_shared<Callback>());
  plain.run.options.max_epochs = 2;
  plain();
  AveragedFit averaged(std::make_shared<EMAWeightAveraging>(EMAWeightAveragingOptions{.decay = 0.5}));
  averaged.module.in_validation = [&] {
    if (averaged.module.val_losses.size() < 2) return;
    averaged.module.trainer().save_checkpoint((averaged.run.folder / "inside.ckpt").string());
    throw std::runtime_error("the validation fails");
  };
  CHECK_THROWS_WITH(averaged(), Catch::Contains("the validation fails"));
  const Checkpoint inside = Checkpoint::load(averaged.run.folder / "inside.ckpt");
  for (const auto& parameter : plain.module.named_parameters()) {
    INFO(parameter.key());
    CHECK(torch::equal(tensor_of(averaged.module, parameter.key()), parameter.value()));
    CHECK(torch::equal(inside.tensors.at("current_model_state." + parameter.key()), parameter.value()));
    CHECK_FALSE(torch::equal(inside.tensors.at("state_dict." + parameter.key()), parameter.value()));
  }
}
