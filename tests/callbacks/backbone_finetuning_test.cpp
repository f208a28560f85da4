#include "levin/callbacks/backbone_finetuning.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "callbacks/scripted_run.h"
#include "levin/callbacks/lambda_callback.h"
#include "levin/core/config/value_json.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/optim/lr_schedulers.h"
#include "support/file_text.h"

using namespace levin;
using namespace levin::test;

namespace {

/// As in make_finetuning_references.py.
class Finetuned final : public Module {
 public:
  explicit Finetuned(double gamma = 1) : gamma_(gamma) {
    const at::NoGradGuard no_grad;
    to(torch::kDouble);
    for (const auto& layer : {linear_, head_}) {
      for (at::Tensor& parameter : layer->parameters())
        parameter.copy_((torch::arange(parameter.numel(), torch::kDouble) + 1).sin().view(parameter.sizes()));
    }
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor loss = torch::mse_loss(head_->forward(backbone->forward(batch["inputs"])), batch["targets"]);
    losses.push_back(loss.item<double>());
    return loss;
  }
  OptimizerSetups configure_optimizers() override {
    std::vector<at::Tensor> trained = parameters();
    if (!gives_all) std::erase_if(trained, [](const at::Tensor& parameter) { return !parameter.requires_grad(); });
    return {std::make_shared<torch::optim::SGD>(trained, torch::optim::SGDOptions(0.05).momentum(0.5)),
            ExponentialLr::Options{.gamma = gamma_}};
  }

  std::vector<double> losses;
  bool gives_all = false;
  torch::nn::Linear linear_{2, 3};
  torch::nn::BatchNorm1d norm{3};
  torch::nn::Sequential backbone = register_module("backbone", torch::nn::Sequential(linear_, norm, torch::nn::Tanh()));

 private:
  torch::nn::Linear head_ = register_module("head", torch::nn::Linear(3, 1));
  double gamma_;
};

class UnfreezeLater final : public BaseFinetuning {
 public:
  void freeze_before_training(Module& module) override { freeze(*module.named_children()["backbone"]); }
  void finetune_function(Module& module, std::int64_t epoch, torch::optim::Optimizer& optimizer) override {
    torch::nn::Module& backbone = *module.named_children()["backbone"];
    if (epoch == 1) unfreeze_and_add_param_group(backbone, optimizer, std::nullopt, /*initial_denom_lr=*/4);
    if (epoch == 3) freeze(*backbone.children()[0]);
  }
};

/// Calls `look` at the start of each epoch's first batch.
std::shared_ptr<Callback> at_each_epoch(std::function<void(Trainer&)> look) {
  return std::make_shared<LambdaCallback>(LambdaCallbackOptions{
      .on_train_batch_start = [look = std::move(look)](Trainer& trainer, Module&, const Batch&, std::int64_t batch_idx) {
        if (batch_idx == 0) look(trainer);
      }});
}

void fit_in_double(Module& module, std::vector<Component<Callback>> callbacks, const RunOptions& how = {}) {
  ScriptedRun run(5);
  run.options.precision = PrecisionFormat::kFloat64;
  run.options.callbacks = std::move(callbacks);
  Trainer(run.options).fit(module, waves(12, 4), {}, how);
}

}  // namespace

TEST_CASE("rates, what is trained, and losses are Lightning's when a part of a module is trained later") {
  const Value references = parse_json(read_text(LEVIN_SOURCE_DIR "/tests/callbacks/finetuning_references.json"));
  REQUIRE(references.size() == 6);
  for (const Value& reference : references.as_list()) {
    INFO(to_json(reference.at("class")) << to_json(reference.at("arguments")));
    Finetuned module(reference.at("gamma").as_double());
    const auto& epochs = reference.at("epochs").as_list();
    std::size_t seen = 0;
    const auto watch = at_each_epoch([&](Trainer& trainer) {
      const Value& epoch = epochs.at(seen++);
      const auto& groups = trainer.optimizers()[0]->param_groups();
      CHECK_THAT(get_lrs(*trainer.optimizers()[0]), Catch::Approx(numbers_in(epoch.at("lrs"))).epsilon(1e-12));
      Value::List sizes;
      for (const auto& group : groups) sizes.emplace_back(static_cast<std::int64_t>(group.params().size()));
      CHECK(Value(sizes) == epoch.at("sizes"));
      Value::List trained;
      for (const auto& parameter : module.named_parameters()) {
        if (parameter.value().requires_grad()) trained.emplace_back(parameter.key());
      }
      CHECK(Value(trained) == epoch.at("trained"));
    });
    Component<Callback> finetuning = std::make_shared<UnfreezeLater>();
    if (reference.at("class") == Value("BackboneFinetuning")) finetuning = {reference.at("class"), reference.at("arguments")};
    fit_in_double(module, {finetuning, watch});
    CHECK(seen == epochs.size());
    CHECK_THAT(module.losses, Catch::Approx(numbers_in(reference.at("losses"))).epsilon(1e-9));
  }
}

TEST_CASE("BatchNorm layers of a frozen part keep weights and statistics without train_bn, and after it is unfrozen") {
  const bool train_bn = GENERATE(false, true);
  Finetuned module;
  const at::Tensor linear = module.linear_->weight.detach().clone();
  const auto watch = at_each_epoch([&](Trainer& trainer) {
    if (trainer.current_epoch() == 0) return;
    CHECK(torch::equal(module.linear_->weight, linear) == (trainer.current_epoch() < 3));
    CHECK((module.norm->num_batches_tracked.item<std::int64_t>() > 0) == train_bn);
    CHECK(torch::equal(module.norm->running_mean, torch::zeros({3}, torch::kDouble)) == !train_bn);
    CHECK(torch::equal(module.norm->weight, torch::ones({3}, torch::kDouble)) == !train_bn);
    CHECK(module.norm->is_training() == train_bn);
  });
  // One that was frozen as a whole is put into training mode first.
  module.eval();
  fit_in_double(
      module,
      {std::make_shared<BackboneFinetuning>(BackboneFinetuningOptions{.unfreeze_backbone_at_epoch = 2, .train_bn = train_bn}),
       watch});
  const auto trained = BaseFinetuning::filter_params(module, /*train_bn=*/false);
  CHECK(trained.size() == 4);
  CHECK(BaseFinetuning::filter_params(module).size() == (train_bn ? 6 : 4));
  CHECK(BaseFinetuning::filter_params(module, true, /*requires_grad=*/false).size() == (train_bn ? 0 : 2));
}

TEST_CASE("a backbone that the optimizer has from the start stays in its group, and the head's rate is left alone") {
  Finetuned module;
  module.gives_all = true;
  fit_in_double(module, {std::make_shared<BackboneFinetuning>(BackboneFinetuningOptions{.unfreeze_backbone_at_epoch = 1}),
                         at_each_epoch([&](Trainer& trainer) {
                           CHECK(get_lrs(*trainer.optimizers()[0]) == std::vector<double>{0.05});
                           CHECK(module.linear_->weight.requires_grad() == (trainer.current_epoch() >= 1));
                         })});
}

TEST_CASE("a fit that resumes behind the epoch from a run without the callback unfreezes the backbone at once") {
  const TemporaryFolder folder;
  const auto finetuning = [](std::int64_t epoch) {
    return std::make_shared<BackboneFinetuning>(BackboneFinetuningOptions{.unfreeze_backbone_at_epoch = epoch});
  };
  Finetuned module;
  fit_in_double(module, {finetuning(9), at_each_epoch([&](Trainer& trainer) {
                           if (trainer.current_epoch() == 3) trainer.save_checkpoint(folder / "3.ckpt");
                         })});
  Finetuned resumed;
  std::vector<std::vector<double>> rates;
  fit_in_double(resumed,
                {finetuning(1), at_each_epoch([&](Trainer& trainer) { rates.push_back(get_lrs(*trainer.optimizers()[0])); })},
                {.ckpt_path = (folder / "3.ckpt").string()});
  REQUIRE(rates.size() == 1);
  REQUIRE(rates.back().size() == 2);
  CHECK(rates.back()[1] == Approx(0.005));
}
