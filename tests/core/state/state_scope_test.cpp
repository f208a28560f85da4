#include "levin/core/state/state_scope.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "levin/callbacks/lambda_callback.h"
#include "levin/core/config/value_json.h"
#include "levin/core/state/run_sections.h"
#include "levin/core/state/trainer_state.h"
#include "levin/metrics/regression.h"
#include "support/recording.h"

namespace levin::test {
namespace {

class Measured : public Module {
 public:
  StepOutput training_step(const Batch& batch, std::int64_t) override { return layer->forward(batch[0]).mean(); }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }

  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(2, 1));
  MeanSquaredError& errors = add_metric<MeanSquaredError>("errors");
  int logged = 0;
};

std::string text_of(const at::Tensor& bytes) { return {static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()}; }

/// A section that side computations restore: its state as a text, and a change of it.
struct Probe {
  std::function<std::string(TrainerState& run, Measured& module)> seen;
  std::function<void(TrainerState& run, Measured& module)> change;
};

const std::map<std::string, Probe, std::less<>> kProbes = {
    {"random numbers",
     {[](TrainerState&, Measured&) { return text_of(RandomSnapshot::take().states(0).at("cpu")); },
      [](TrainerState&, Measured&) { torch::rand({1}); }}},
    {"modes",
     {[](TrainerState&, Measured& module) { return format("{} {}", module.is_training(), module.layer->is_training()); },
      [](TrainerState&, Measured& module) { module.layer->train(!module.layer->is_training()); }}},
    {"parameters and optimizers",
     {[](TrainerState&, Measured& module) {
        return format("{} {}", module.layer->weight.requires_grad(), module.layer->bias.requires_grad());
      },
      [](TrainerState&, Measured& module) { module.layer->bias.requires_grad_(!module.layer->bias.requires_grad()); }}},
    {"metric objects",
     {[](TrainerState&, Measured& module) { return format("{}", module.errors.compute().item()); },
      [](TrainerState&, Measured& module) {
        module.errors.update(torch::full({1}, module.errors.compute().item() + 10), torch::zeros({1}));
      }}},
    {"metrics",
     {[](TrainerState& run, Measured&) {
        return to_json(run.metrics->save().training) + format(" {}", run.metrics->callback_metrics().size());
      },
      [](TrainerState&, Measured& module) {
        module.log(format("value {}", module.logged++), 1.0, {.on_step = true, .on_epoch = true});
      }}},
    {"wishes",
     {[](TrainerState& run, Measured&) { return format("{}", run.wishes.skips_epoch()); },
      [](TrainerState& run, Measured&) { run.wishes.skip_epoch(!run.wishes.skips_epoch()); }}},
    {"counters of evaluations",
     {[](TrainerState& run, Measured&) {
        return format("{} {}", run.progress.evaluation_totals.batches, run.progress.num_evaluation_batches.size());
      },
      [](TrainerState& run, Measured&) {
        ++run.progress.evaluation_totals.batches;
        run.progress.num_evaluation_batches.push_back(1);
      }}}};

TEST_CASE("each side computation puts back the sections of its set, and no others") {
  Measured module;
  int pairs = 0;
  const auto look = [&](Trainer& trainer, Module&, const Batch&, std::int64_t) {
    TrainerState& run = TrainerState::of(trainer);
    module.errors.update(torch::ones({1}), torch::zeros({1}));
    for (int number = 0; number < static_cast<int>(SideComputation::kCount); ++number) {
      const auto computation = static_cast<SideComputation>(number);
      std::map<std::string, std::string> before, within;
      for (const auto& [name, probe] : kProbes) before[name] = probe.seen(run, module);
      {
        const StateScope scope(run, computation);
        for (const auto& [name, probe] : kProbes) {
          probe.change(run, module);
          within[name] = probe.seen(run, module);
        }
      }
      std::set<std::string> set;
      for (const Section* section : sections_of(run, computation)) set.emplace(section->name());
      for (const auto& [name, probe] : kProbes) {
        INFO("computation " << number << ", " << name);
        CHECK(within.at(name) != before.at(name));
        CHECK((probe.seen(run, module) == before.at(name)) == set.contains(name));
        ++pairs;
      }
      run.wishes.skip_epoch(false);
    }
    std::set<std::string> can_be_held;
    for (Section* const section : run.sections->list()) {
      if (section->hold(run) != nullptr) can_be_held.emplace(section->name());
    }
    // A section that can be put back, and that no line above changes.
    for (const std::string& name : can_be_held) CHECK(kProbes.contains(name));
    CHECK(can_be_held.size() == kProbes.size());
  };
  Trainer trainer(quiet({.max_epochs = 1, .callbacks = {LambdaCallback({.on_train_batch_start = look})}}));
  trainer.fit(module, FixedLoader::of_rows(1, 2));
  CHECK(pairs == static_cast<int>(SideComputation::kCount) * static_cast<int>(kProbes.size()));
}

}  // namespace
}  // namespace levin::test
