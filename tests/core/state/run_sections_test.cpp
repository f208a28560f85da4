#include "levin/core/state/run_sections.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "levin/callbacks/lambda_callback.h"
#include "levin/core/config/value_json.h"
#include "levin/core/state/trainer_state.h"
#include "support/recording.h"

namespace levin::test {
namespace {

class OneLayer : public Module {
 public:
  StepOutput training_step(const Batch& batch, std::int64_t) override { return layer->forward(batch[0]).mean(); }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }

  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(2, 1));
};

/// A part of a run's state: `set` makes it another one than `clear`, and `seen` says as a text which it is.
struct Part {
  std::string name;
  std::function<void(TrainerState&run, OneLayer&module)> set, clear;
  std::function<std::string(TrainerState& run, OneLayer& module)> seen;
};

const std::vector<Part> kParts = {
    {"evaluation_steps",
     [](TrainerState& run, OneLayer&) {
       run.progress.evaluation_steps = {7, 9};
     },
     [](TrainerState& run, OneLayer&) { run.progress.evaluation_steps.clear(); },
     [](TrainerState& run, OneLayer&) {
       std::string text;
       for (const std::int64_t steps : run.progress.evaluation_steps) text += format("{} ", steps);
       return text;
     }},
    {"wish to validate", [](TrainerState& run, OneLayer&) { run.wishes.ask(RunCommand::kValidate); },
     [](TrainerState& run, OneLayer&) { run.wishes.adopt_commands({.validate = true}); },
     [](TrainerState& run, OneLayer&) { return format("{}", run.wishes.wants_validation()); }},
    {"wish to stop", [](TrainerState& run, OneLayer&) { run.wishes.ask_to_stop("a reason"); },
     [](TrainerState& run, OneLayer&) { run.wishes.take_back_stop(); },
     [](TrainerState& run, OneLayer&) { return format("{} {}", run.wishes.stop_asked(), run.wishes.stop_reason()); }},
    {"wish to skip the epoch", [](TrainerState& run, OneLayer&) { run.wishes.skip_epoch(true); },
     [](TrainerState& run, OneLayer&) { run.wishes.skip_epoch(false); },
     [](TrainerState& run, OneLayer&) { return format("{}", run.wishes.skips_epoch()); }},
    {"agreement to stop", [](TrainerState& run, OneLayer&) { run.wishes.agree_to_stop(); },
     [](TrainerState& run, OneLayer&) { run.wishes.adopt({Votes{}}); },
     [](TrainerState& run, OneLayer&) { return format("{}", run.wishes.stop_agreed()); }},
    {"modes", [](TrainerState&, OneLayer& module) { module.layer->eval(); },
     [](TrainerState&, OneLayer& module) { module.layer->train(); },
     [](TrainerState&, OneLayer& module) { return format("{}", module.layer->is_training()); }},
    {"frozen parameters", [](TrainerState&, OneLayer& module) { module.layer->bias.requires_grad_(false); },
     [](TrainerState&, OneLayer& module) { module.layer->bias.requires_grad_(true); },
     [](TrainerState&, OneLayer& module) { return format("{}", module.layer->bias.requires_grad()); }},
    {"metrics", [](TrainerState&, OneLayer& module) { module.log("seen", 3.0, {.on_step = true, .on_epoch = true}); },
     [](TrainerState& run, OneLayer&) { run.metrics->restore({MetricSnapshot()}); },
     [](TrainerState& run, OneLayer&) { return to_json(run.metrics->save().training); }},
    {"batches of a step", [](TrainerState& run, OneLayer&) { run.accumulation.batches = 5; },
     [](TrainerState& run, OneLayer&) { run.accumulation.batches = 1; },
     [](TrainerState& run, OneLayer&) { return format("{}", run.accumulation.batches); }},
    {"random numbers", [](TrainerState&, OneLayer&) { torch::manual_seed(11); },
     [](TrainerState&, OneLayer&) { torch::manual_seed(12); },
     [](TrainerState&, OneLayer&) {
       const at::Tensor bytes = RandomSnapshot::take().states(0).at("cpu");
       return std::string(static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes());
     }}};

TEST_CASE("a run gets back from a checkpoint what each section has saved") {
  OneLayer module;
  std::size_t parts = 0;
  const auto look = [&](Trainer& trainer, Module&, const Batch&, std::int64_t batch_idx) {
    if (batch_idx != 1) return;
    TrainerState& run = TrainerState::of(trainer);
    for (const Part& part : kParts) {
      INFO(part.name);
      part.set(run, module);
      const std::string saved = part.seen(run, module);
      run.sections->begin(run, Place::kBatch);
      Checkpoint checkpoint;
      run.sections->save(run, checkpoint, /*weights_only=*/false);
      save_rank_states({run.sections->save_own(run)}, checkpoint);
      part.clear(run, module);
      CHECK(part.seen(run, module) != saved);
      run.sections->load(run, checkpoint);
      run.sections->restore(run, Moment::kPlace);
      run.sections->restore(run, Moment::kData);
      CHECK(part.seen(run, module) == saved);
      part.clear(run, module);
      run.sections->forget();
      ++parts;
    }
  };
  Trainer trainer(quiet({.max_epochs = 1, .callbacks = {LambdaCallback({.on_train_batch_start = look})}}));
  trainer.fit(module, FixedLoader::of_rows(2, 2));
  CHECK(parts == kParts.size());
}

}  // namespace
}  // namespace levin::test
