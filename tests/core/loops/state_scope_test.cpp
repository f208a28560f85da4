#include "levin/core/state/state_scope.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "levin/callbacks/builtin_callbacks.h"
#include "levin/core/config/value_json.h"
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

/// What a section of a run is, as a text.
std::string seen(StateSection section, TrainerState& run, Measured& module) {
  switch (section) {
    case StateSection::kRandom:
      return text_of(RandomSnapshot::take().states(0).at("cpu"));
    case StateSection::kModes:
      return format("{} {}", module.is_training(), module.layer->is_training());
    case StateSection::kRequiresGrad:
      return format("{} {}", module.layer->weight.requires_grad(), module.layer->bias.requires_grad());
    case StateSection::kMetricObjects:
      return format("{}", module.errors.compute().item());
    case StateSection::kMetrics:
      return to_json(run.metrics->save().training) + format(" {}", run.metrics->callback_metrics().size());
    case StateSection::kSkipEpoch:
      return format("{}", run.stop.skips_epoch());
    case StateSection::kEvaluationCounters:
      return format("{} {}", run.progress.evaluation_totals.batches, run.progress.num_evaluation_batches.size());
    case StateSection::kCount:
      break;
  }
  return "";
}

void change(StateSection section, TrainerState& run, Measured& module) {
  switch (section) {
    case StateSection::kRandom:
      torch::rand({1});
      return;
    case StateSection::kModes:
      return module.layer->train(!module.layer->is_training());
    case StateSection::kRequiresGrad:
      module.layer->bias.requires_grad_(!module.layer->bias.requires_grad());
      return;
    case StateSection::kMetricObjects:
      return module.errors.update(torch::full({1}, module.errors.compute().item() + 10), torch::zeros({1}));
    case StateSection::kMetrics:
      return module.log(format("value {}", module.logged++), 1.0, {.on_step = true, .on_epoch = true});
    case StateSection::kSkipEpoch:
      return run.stop.skip_epoch(!run.stop.skips_epoch());
    case StateSection::kEvaluationCounters:
      ++run.progress.evaluation_totals.batches;
      run.progress.num_evaluation_batches.push_back(1);
      return;
    case StateSection::kCount:
      return;
  }
}

template <class Enum>
std::vector<Enum> all_of() {
  std::vector<Enum> values;
  for (int index = 0; index < static_cast<int>(Enum::kCount); ++index) values.push_back(static_cast<Enum>(index));
  return values;
}

TEST_CASE("each side computation puts back the sections of its set, and no others") {
  Measured module;
  int pairs = 0;
  const auto look = [&](Trainer& trainer, Module&, const Batch&, std::int64_t) {
    TrainerState& run = TrainerState::of(trainer);
    module.errors.update(torch::ones({1}), torch::zeros({1}));
    for (const SideComputation computation : all_of<SideComputation>()) {
      std::map<StateSection, std::string> before, within;
      for (const StateSection section : all_of<StateSection>()) before[section] = seen(section, run, module);
      {
        const StateScope scope(run, computation);
        for (const StateSection section : all_of<StateSection>()) {
          change(section, run, module);
          within[section] = seen(section, run, module);
        }
      }
      const auto set = sections_of(computation);
      for (const StateSection section : all_of<StateSection>()) {
        INFO("computation " << static_cast<int>(computation) << ", " << section_name(section));
        CHECK(within.at(section) != before.at(section));
        const bool is_put_back = std::ranges::find(set, section) != set.end();
        CHECK((seen(section, run, module) == before.at(section)) == is_put_back);
        ++pairs;
      }
      run.stop.skip_epoch(false);
    }
  };
  Trainer trainer(quiet({.max_epochs = 1, .callbacks = {LambdaCallback({.on_train_batch_start = look})}}));
  trainer.fit(module, FixedLoader::of_rows(1, 2));
  CHECK(pairs == static_cast<int>(SideComputation::kCount) * static_cast<int>(StateSection::kCount));
}

}  // namespace
}  // namespace levin::test
