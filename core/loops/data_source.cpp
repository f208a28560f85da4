#include "levin/core/loops/data_source.h"

#include "levin/core/accelerator.h"
#include "levin/core/run/data_agreement.h"
#include "levin/core/run/hook_runner.h"
#include "levin/core/seed.h"

namespace levin {

namespace {

void prepare(Trainer::Runtime& runtime, BatchLoader& loader, Uneven uneven) {
  Shard shard;
  if (runtime.options.use_distributed_sampler) {
    shard.rank = runtime.strategy->rank();
    shard.world_size = runtime.world_size();
  }
  shard.uneven = uneven;
  shard.default_seed = static_cast<std::int64_t>(global_seed().value_or(0));
  const Limit& overfit = runtime.options.overfit_batches;
  shard.force_sequential = overfit.is_share() ? overfit.share() > 0.0 : overfit.batches() > 0;
  loader.set_shard(shard);
  loader.set_pin_memory(runtime.strategy->accelerator().pins_memory());
}

Hook loader_hook(Stage stage) {
  switch (stage) {
    case Stage::kTest:
      return Hook::kTestDataloader;
    case Stage::kPredict:
      return Hook::kPredictDataloader;
    default:
      return Hook::kValDataloader;
  }
}

template <class Source>
LoaderList ask(Source& source, Stage stage) {
  switch (stage) {
    case Stage::kTest:
      return source.test_dataloaders();
    case Stage::kPredict:
      return source.predict_dataloaders();
    default:
      return source.val_dataloaders();
  }
}

}  // namespace

DataSource DataSource::from(DataModule& data) {
  DataSource source;
  source.data_ = &data;
  return source;
}

DataSource DataSource::from(LoaderPtr train, LoaderList evaluation) {
  DataSource source;
  source.train_ = std::move(train);
  source.evaluation_ = std::move(evaluation);
  return source;
}

LoaderPtr DataSource::train(Trainer::Runtime& runtime) {
  HookScope scope(runtime, Hook::kTrainDataloader);
  LoaderPtr loader = data_ != nullptr ? data_->train_dataloader() : train_ ? train_ : runtime.module->train_dataloader();
  if (loader) prepare(runtime, *loader, runtime.options.uneven);
  check_same_data(runtime, "training", loader ? LoaderList{loader} : LoaderList{});
  return loader;
}

LoaderList DataSource::evaluation(Trainer::Runtime& runtime, Stage stage) {
  HookScope scope(runtime, loader_hook(stage));
  LoaderList loaders = data_ != nullptr ? ask(*data_, stage) : !evaluation_.empty() ? evaluation_ : ask(*runtime.module, stage);
  for (const LoaderPtr& loader : loaders) {
    if (!loader) throw MisuseError(std::string(hook_name(loader_hook(stage))) + " gave an empty loader among its loaders.");
    // Evaluation data is never padded: each sample counts once.
    prepare(runtime, *loader, Uneven::kKeep);
  }
  check_same_data(runtime, std::string(stage_name(stage)), loaders);
  return loaders;
}

}  // namespace levin
