// Collectives that not every rank calls. Each ends with an error on every rank that prints both call sites.
#include "distributed/matrix/scenario.h"
#include "distributed/one_weight.h"
#include "levin/callbacks/lambda_callback.h"

namespace levin::test {
namespace {

/// Calls a collective by name.
void call(Trainer& trainer, const std::string& name) {
  Strategy& strategy = trainer.strategy();
  if (name == "all_gather") strategy.all_gather(torch::ones({2}));
  if (name == "all_gather_large") strategy.all_gather(torch::ones({100000}));
  if (name == "all_gather_shape") strategy.all_gather(torch::ones({3}));
  if (name == "all_gather_type") strategy.all_gather(torch::ones({2}, torch::kInt64));
  if (name == "all_reduce") strategy.all_reduce(torch::ones({2}));
  if (name == "all_reduce_max") strategy.all_reduce(torch::ones({2}), "max");
  if (name == "broadcast") strategy.broadcast(torch::ones({2}));
  if (name == "broadcast_1") strategy.broadcast(torch::ones({2}), 1);
  if (name == "barrier") strategy.barrier("here");
  if (name == "save_checkpoint") trainer.save_checkpoint(trainer.default_root_dir() / "own.ckpt");
}

/// parameters: the hook; the call of rank `who`; that of the others, or "nothing"; `who`.
void collective(Scenario& scenario) {
  const std::string& hook = scenario.text(0);
  const auto here = [&scenario](Trainer& trainer) {
    call(trainer, trainer.rank() == scenario.number(3) ? scenario.text(1) : scenario.text(2));
  };
  TrainerOptions options = scenario.options();
  options.max_epochs = 3;
  LambdaCallbackOptions functions;
  const auto in_epoch_1 = [&](Trainer& trainer, Module&) {
    if (trainer.current_epoch() == 1) here(trainer);
  };
  const auto at_once = [&](Trainer& trainer, Module&) { here(trainer); };
  if (hook == "on_fit_start") functions.on_fit_start = at_once;
  if (hook == "on_train_start") functions.on_train_start = at_once;
  if (hook == "on_train_epoch_end") functions.on_train_epoch_end = in_epoch_1;
  if (hook == "on_validation_epoch_end") functions.on_validation_epoch_end = in_epoch_1;
  if (hook == "on_validation_end") functions.on_validation_end = in_epoch_1;
  if (hook == "on_test_epoch_end") functions.on_test_epoch_end = at_once;
  if (hook == "on_train_end") functions.on_train_end = at_once;
  if (hook == "on_fit_end") functions.on_fit_end = at_once;
  if (hook == "teardown") functions.teardown = [&](Trainer& trainer, Module&, Stage) { here(trainer); };
  options.callbacks = {std::make_shared<LambdaCallback>(functions)};
  Trainer trainer(options);
  struct Testable : OneWeight {
    void test_step(const Batch&, std::int64_t) override {}
  } module;
  module.on_step = [&](OneWeight& self, std::int64_t batch_idx) {
    if (hook == "training_step" && self.current_epoch() == 1 && batch_idx == 2) here(trainer);
  };
  trainer.fit(module, numbers(5, 1), {numbers(2, 1)});
  if (hook == "on_test_epoch_end") trainer.test(module, {numbers(2, 1)}, {.verbose = false});
}

/// parameters: none. Every rank calls all of them, everywhere: this is correct.
void collectives_of_all(Scenario& scenario) {
  TrainerOptions options = scenario.options();
  Trainer trainer(options);
  OneWeight module;
  const int rank = trainer.rank();
  const int ranks = scenario.ranks();
  const auto check = [&](std::int64_t size) {
    const at::Tensor mine = torch::full({size}, rank, torch::kDouble);
    const at::Tensor all = trainer.strategy().all_gather(mine);
    scenario.expect("rows of all_gather", all.size(0), ranks);
    scenario.expect("last row of all_gather", all[ranks - 1][size - 1].item<double>(), ranks - 1);
    scenario.expect("mean", trainer.strategy().all_reduce(mine)[0].item<double>(), (ranks - 1) / 2.0);
    scenario.expect("sum", trainer.strategy().all_reduce(mine, "sum")[0].item<double>(), ranks * (ranks - 1) / 2.0);
    scenario.expect("min", trainer.strategy().all_reduce(mine, "min")[0].item<double>(), 0.0);
    scenario.expect("max", trainer.strategy().all_reduce(mine, "max")[0].item<double>(), ranks - 1.0);
    scenario.expect("broadcast", trainer.strategy().broadcast(mine, ranks - 1)[0].item<double>(), ranks - 1.0);
    trainer.strategy().barrier("checked");
  };
  module.on_step = [&](OneWeight&, std::int64_t) { check(2); };
  module.at_validation_end = [&](OneWeight&) { check(100000); };
  trainer.fit(module, numbers(3, 1), {numbers(1, 1)});
}

/// parameters: none. An exception in a callback that only rank 0 calls, while others wait in a barrier.
void barrier_meets_exception(Scenario& scenario) {
  Trainer trainer(scenario.options());
  OneWeight module;
  module.on_step = [&](OneWeight&, std::int64_t batch_idx) {
    if (batch_idx != 1) return;
    if (trainer.rank() == 0) throw std::runtime_error("only rank 0 does this");
    trainer.strategy().barrier("before the file is read");
  };
  trainer.fit(module, numbers(5, 1));
}

}  // namespace

void add_collective_scenarios(Scenarios& scenarios) {
  scenarios.insert({{"collective", collective},
                    {"collectives_of_all", collectives_of_all},
                    {"barrier_meets_exception", barrier_meets_exception}});
}

}  // namespace levin::test
