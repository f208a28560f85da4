#pragma once

#include <optional>
#include <string>

#include "levin/core/run/runtime.h"

namespace levin {

/// Where an entry point takes its loaders from: a DataModule, or loaders that were passed, or, for those that were not, the
/// module itself. Each loader is told which part of the data this rank reads.
class DataSource {
 public:
  static DataSource from(DataModule& data);
  /// Null and an empty list: the module's own.
  static DataSource from(LoaderPtr train, LoaderList evaluation);

  /// Null when there is none.
  LoaderPtr train(Trainer::Runtime& runtime);
  /// For kValidate, kTest or kPredict.
  LoaderList evaluation(Trainer::Runtime& runtime, Stage stage);
  DataModule* data_module() const { return data_; }

 private:
  DataModule* data_ = nullptr;
  LoaderPtr train_;
  LoaderList evaluation_;
};

}  // namespace levin
