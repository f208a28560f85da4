#pragma once

#include <optional>
#include <string>

#include "levin/core/loops/runtime.h"

namespace levin {

/// Where an entry point takes its loaders from: a DataModule, loaders that were passed, or the module itself. Each loader is
/// told which part of the data this rank reads.
class DataSource {
 public:
  static DataSource from(DataModule& data);
  static DataSource from(LoaderPtr train, LoaderList evaluation);
  static DataSource from_module();

  /// Null when there is none.
  LoaderPtr train(Trainer::Runtime& runtime);
  /// For kValidate, kTest or kPredict.
  LoaderList evaluation(Trainer::Runtime& runtime, Stage stage);
  DataModule* data_module() const { return data_; }

 private:
  enum class Kind { kDataModule, kLoaders, kModule };
  Kind kind_ = Kind::kModule;
  DataModule* data_ = nullptr;
  LoaderPtr train_;
  LoaderList evaluation_;
};

}  // namespace levin
