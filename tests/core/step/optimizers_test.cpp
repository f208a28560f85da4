#include <catch2/catch.hpp>

#include "levin/core/base/error.h"
#include "levin/core/checkpoint/background_files.h"
#include "support/recording.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

/// A weight with two names, and its optimizer.
class Tied : public RecordingModule {
 public:
  using Make = std::function<std::shared_ptr<torch::optim::Optimizer>(const std::vector<at::Tensor>&)>;
  Tied(HookTrace& trace, Make make) : RecordingModule(trace), make_(std::move(make)) {
    register_parameter("twin", layer_->weight);
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    trace_.add("M.training_step");
    return (layer_->forward(batch[0]) - 1).pow(2).mean();
  }
  OptimizerSetups make_optimizers() override { return make_(parameters()); }
  torch::nn::Linear& layer() { return layer_; }

 private:
  Make make_;
};

}  // namespace

TEST_CASE("a parameter that an optimizer was given twice is stepped once, and is refused in two groups") {
  HookTrace trace;
  Tied tied(trace, [](const auto& parameters) {
    CHECK(parameters.size() == 3);
    return std::make_shared<torch::optim::SGD>(parameters, 0.1);
  });
  const at::Tensor before = tied.layer()->weight.detach().clone();
  at::Tensor gradient;
  trace.on_entry = [&](const std::string& entry) {
    if (entry == "M.on_after_backward") gradient = tied.layer()->weight.grad().clone();
  };
  Trainer trainer(quiet_options(1));
  trainer.fit(tied, FixedLoader::of_rows(1, 2));
  CHECK(trainer.optimizers().at(0)->param_groups().at(0).params().size() == 2);
  CHECK(torch::allclose(tied.layer()->weight, before - 0.1 * gradient, 1e-6, 1e-7));

  Tied twice(trace, [](const auto& parameters) {
    const std::vector<torch::optim::OptimizerParamGroup> groups = {{{parameters[0]}}, {{parameters[1], parameters[2]}}};
    return std::make_shared<torch::optim::SGD>(groups, torch::optim::SGDOptions(0.1));
  });
  trace.on_entry = {};
  Trainer refusing(quiet_options(1));
  CHECK_THROWS_WITH(refusing.fit(twice, FixedLoader::of_rows(1, 2)),
                    Catch::Contains("is in groups 0 and 1 of optimizer 0 (SGD), which would step it twice"));
}

TEST_CASE("Adagrad steps what add_param_group() has brought as if it had been there") {
  const auto weights = [](bool late) {
    torch::manual_seed(1);
    HookTrace trace;
    std::shared_ptr<torch::optim::Optimizer> adagrad;
    Tied module(trace, [&](const auto& parameters) {
      const auto options = torch::optim::AdagradOptions(0.1).initial_accumulator_value(0.5);
      const std::vector<at::Tensor> first(parameters.begin(), parameters.begin() + 1);
      const std::vector<at::Tensor> second(parameters.begin() + 2, parameters.end());
      adagrad = std::make_shared<torch::optim::Adagrad>(first, options);
      if (!late) adagrad = std::make_shared<torch::optim::Adagrad>(std::vector{first[0], second[0]}, options);
      return adagrad;
    });
    trace.on_entry = [&](const std::string& entry) {
      if (late && entry == "M.on_fit_start") adagrad->add_param_group({{module.layer()->bias}});
    };
    Trainer(quiet_options(1)).fit(module, FixedLoader::of_rows(3, 2));
    return torch::cat({module.layer()->weight.flatten(), module.layer()->bias});
  };
  CHECK(torch::equal(weights(true), weights(false)));
}

TEST_CASE("what is asked for between the evaluations of an optimizer's closure is saved when the step is taken") {
  HookTrace trace;
  Tied module(trace, [](const auto& parameters) {
    return std::make_shared<torch::optim::LBFGS>(parameters, torch::optim::LBFGSOptions(0.1).max_iter(3));
  });
  Trainer trainer(quiet_options(1));
  std::vector<at::Tensor> weights;
  std::vector<at::Tensor> saved;
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "saved.ckpt";
  trace.on_entry = [&](const std::string& entry) {
    if (entry == "M.on_train_batch_end") weights.push_back(module.layer()->weight.detach().clone());
    if (entry != "M.on_after_backward") return;
    trainer.save_checkpoint(file);
    trainer.checkpoint_files().when_done([&] {
      const Checkpoint checkpoint = Checkpoint::load(file);
      for (const auto& [name, tensor] : checkpoint.tensors) {
        if (name.starts_with("state_dict.") && tensor.dim() == 2) return saved.push_back(tensor.clone());
      }
    });
  };
  trainer.fit(module, FixedLoader::of_rows(2, 2));
  REQUIRE(weights.size() == 2);
  REQUIRE(saved.size() > 2);
  CHECK(saved.front().equal(weights.front()));
  CHECK(saved.back().equal(weights.back()));
  CHECK_FALSE(weights.front().equal(weights.back()));
}
