#pragma once

#include "levin/core/data_module.h"
#include "levin/core/protocol/hook.h"
#include "levin/core/run/hook_runner.h"
#include "levin/core/run/run_setup.h"

namespace levin {

/// Where an entry point takes its loaders from: a DataModule, or loaders that were passed, or, for those that were not, the
/// module itself. Each loader is told which part of the data this rank reads.
class DataSource {
 public:
  explicit DataSource(DataModule& data) : data_(&data) {}
  /// Null and an empty list: the module's own.
  DataSource(LoaderPtr train, LoaderList evaluation) : train_(std::move(train)), evaluation_(std::move(evaluation)) {}

  /// The one that was asked for ahead, if any; anew when called again. Ranks: all. Throws MisuseError when there is none.
  LoaderPtr train(Module& module, const RunSetup& setup, HookRunner& hooks);
  /// The loader that train() will give, asked for once. Ranks: any. Throws as train() does.
  const BatchLoader& train_ahead(Module& module, const RunSetup& setup, HookRunner& hooks);
  /// What was asked for ahead is out of date.
  void forget_ahead() { train_ahead_.reset(); }
  /// For kValidate, kTest or kPredict.
  LoaderList evaluation(Stage stage, Module& module, const RunSetup& setup, HookRunner& hooks);
  DataModule* data_module() const { return data_; }

 private:
  LoaderPtr ask_for_train(Module& module, const RunSetup& setup, HookRunner& hooks) const;

  DataModule* data_ = nullptr;
  LoaderPtr train_;
  LoaderPtr train_ahead_;
  LoaderList evaluation_;
};

}  // namespace levin
