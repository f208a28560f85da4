#pragma once

#include <ATen/ops/cat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/console/console.h"
#include "levin/data/data_loader.h"
#include "levin/data/table_data_module.h"
#include "support/shown_messages.h"
#include "support/temporary_folder.h"

namespace levin::test {

/// An epoch of a loader.
inline Batch all(const LoaderPtr& loader) {
  loader->start_epoch(0);
  std::vector<at::Tensor> features;
  std::vector<at::Tensor> labels;
  while (auto batch = loader->next()) {
    features.push_back((*batch)["features"]);
    labels.push_back((*batch)["label"]);
  }
  return {{"features", at::cat(features)}, {"label", at::cat(labels)}};
}

/// The first batch to predict.
inline Batch predicted(DataModule& data) {
  const LoaderPtr loader = data.predict_dataloaders().at(0);
  loader->start_epoch(0);
  return *loader->next();
}

inline TableDataOptions options_for(const std::filesystem::path& path) {
  TableDataOptions options;
  options.path = path;
  options.batch_size = 4;
  return options;
}

/// Writes a file into a test's folder.
inline std::filesystem::path write(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder / name) << text;
  return folder / name;
}

/// One that has read its files.
struct Ready : TableDataModule {
  explicit Ready(const TableDataOptions& options, Stage stage = Stage::kTrain) : TableDataModule(options) { setup(stage); }
};

/// Of reading, and of making loaders.
inline std::string error_of(const TableDataOptions& options) {
  try {
    Ready data(options);
    data.val_dataloaders();
    data.test_dataloaders();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// Messages that are printed while it lives, information too.
class Messages {
 public:
  Messages() { Console::instance().configure({.level = LogLevel::kInfo}); }
  ~Messages() { Console::instance().configure({.level = LogLevel::kWarning}); }
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  std::string text() const { return shown_.text(); }

 private:
  ShownMessages shown_;
};

}  // namespace levin::test
