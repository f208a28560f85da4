#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "callbacks/scripted_run.h"
#include "levin/callbacks/model_checkpoint.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "support/temporary_folder.h"

namespace levin::test {

using Names = std::set<std::string>;

/// A fit of 4 epochs of 4 batches, as the runs of Lightning that the expected values were made with.
struct Fit {
  TemporaryFolder folder;
  std::shared_ptr<ModelCheckpoint> checkpoint;
  std::vector<double> scores{3, 1, 2, 1.5};
  TrainerOptions options = quiet_options(4);
  std::int64_t validation_batches = 2;
  std::shared_ptr<ScriptedModule> module;

  explicit Fit(ModelCheckpointOptions of_checkpoint) {
    if (!of_checkpoint.dirpath) of_checkpoint.dirpath = folder.path() / "ckpt";
    checkpoint = std::make_shared<ModelCheckpoint>(std::move(of_checkpoint));
  }
  Fit& run(const RunOptions& how = {}) {
    options.callbacks = {checkpoint};
    options.default_root_dir = folder.path();
    Trainer trainer(options);
    module = std::make_shared<ScriptedModule>(scores);
    LoaderList validation;
    if (validation_batches > 0) validation.push_back(FixedLoader::of_rows(validation_batches, 1));
    trainer.fit(*module, FixedLoader::of_rows(4, 1), validation, how);
    return *this;
  }
  Names files() const { return file_names(folder.path() / "ckpt"); }
  std::string best() const { return std::filesystem::path(checkpoint->best_model_path()).filename().string(); }
  std::string last() const { return std::filesystem::path(checkpoint->last_model_path()).filename().string(); }
  std::string kth() const { return std::filesystem::path(checkpoint->kth_best_model_path()).filename().string(); }
};

inline std::int64_t step_of(const std::filesystem::path& file) {
  return Checkpoint::load(file).manifest.at("global_step").as_int();
}

}  // namespace levin::test
