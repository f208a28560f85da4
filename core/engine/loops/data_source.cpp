#include "levin/core/engine/loops/data_source.h"

#include <utility>

#include "levin/core/accelerator.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/batch_loader.h"
#include "levin/core/console/console.h"
#include "levin/core/engine/parts/epoch_plan.h"
#include "levin/core/engine/parts/rank_agreement.h"
#include "levin/core/module.h"
#include "levin/core/random/seed.h"

namespace levin {

namespace {

void prepare(const RunSetup& setup, BatchLoader& loader, Uneven uneven) {
  Shard shard;
  if (setup.options.use_distributed_sampler) {
    shard.rank = setup.strategy->rank();
    shard.world_size = setup.world_size();
  }
  shard.uneven = uneven;
  shard.default_seed = setup.data_seed;
  shard.force_sequential = takes_batches(setup.options.overfit_batches);
  loader.set_shard(shard);
  loader.set_pin_memory(setup.strategy->accelerator().pins_memory());
}

/// Of training data it is an error, once ranks know how much all of them have.
void warn_of_empty(const RunSetup& setup, const BatchLoader& loader, Stage stage) {
  const auto share = loader.sample_share();
  if (share ? share->all != 0 : setup.world_size() > 1 || loader.size() != 0) return;
  rank_zero_warn(format("The {} loader is empty: it gives no batch. Look at what its dataset reads, and at its size().",
                        stage_name(stage)));
}

void check_given(const LoaderPtr& train) {
  if (train) return;
  throw MisuseError(
      "fit needs training data: pass a loader, or a data module (`data:` in a YAML file) whose train_dataloader() gives one, "
      "or let the module's own train_dataloader() do so.");
}

template <class Source>
LoaderList ask(Source& source, Stage stage) {
  if (stage == Stage::kTest) return source.test_dataloaders();
  return stage == Stage::kPredict ? source.predict_dataloaders() : source.val_dataloaders();
}

}  // namespace

Hook dataloaders_hook(Stage stage) {
  if (stage == Stage::kTest) return Hook::kTestDataloaders;
  return stage == Stage::kPredict ? Hook::kPredictDataloaders : Hook::kValDataloaders;
}

LoaderPtr DataSource::ask_for_train(Module& module, const RunSetup& setup, HookRunner& hooks) const {
  const auto scope = hooks.enter(Hook::kTrainDataloader);
  LoaderPtr loader = data_ != nullptr ? data_->train_dataloader() : train_ ? train_ : module.train_dataloader();
  if (loader) prepare(setup, *loader, setup.options.uneven);
  return loader;
}

LoaderPtr DataSource::train(Module& module, const RunSetup& setup, HookRunner& hooks) {
  LoaderPtr loader = train_ahead_ ? std::exchange(train_ahead_, nullptr) : ask_for_train(module, setup, hooks);
  {
    const auto scope = hooks.enter(Hook::kTrainDataloader);
    check_same_data(setup.strategy->control_group(), setup.strategy->node_rank(), "training",
                    loader ? LoaderList{loader} : LoaderList{});
  }
  check_given(loader);
  return loader;
}

const BatchLoader& DataSource::train_ahead(Module& module, const RunSetup& setup, HookRunner& hooks) {
  if (!train_ahead_) train_ahead_ = ask_for_train(module, setup, hooks);
  check_given(train_ahead_);
  return *train_ahead_;
}

LoaderList DataSource::evaluation(Stage stage, Module& module, const RunSetup& setup, HookRunner& hooks) {
  const auto scope = hooks.enter(dataloaders_hook(stage));
  LoaderList loaders = data_ != nullptr ? ask(*data_, stage) : !evaluation_.empty() ? evaluation_ : ask(module, stage);
  for (const LoaderPtr& loader : loaders) {
    if (!loader)
      throw MisuseError(std::string(hook_name(dataloaders_hook(stage))) + " gave an empty loader among its loaders.");
    // Evaluation data is never padded: each sample counts once.
    prepare(setup, *loader, Uneven::kKeep);
    warn_of_empty(setup, *loader, stage);
  }
  check_same_data(setup.strategy->control_group(), setup.strategy->node_rank(), std::string(stage_name(stage)), loaders);
  return loaders;
}

}  // namespace levin
