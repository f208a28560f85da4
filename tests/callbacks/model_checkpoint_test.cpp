#include "levin/callbacks/model_checkpoint.h"

#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>
#include <fstream>

#include "callbacks/scripted_run.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;
namespace fs = std::filesystem;

// Which files a run writes, keeps and calls best is in acceptance/cases/checkpoints.txt and checkpoint_resume.txt.

TEST_CASE("a run that resumes removes only checkpoints in its folder, whatever the state says") {
  const TemporaryFolder folder;
  const fs::path dirpath = folder / "ckpt";
  const auto fit = [&](std::int64_t epochs, const RunOptions& how) {
    TrainerOptions options = quiet_options(epochs);
    options.callbacks = {std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{.dirpath = dirpath, .save_last = true})};
    options.default_root_dir = folder.path();
    ScriptedModule module;
    Trainer(options).fit(module, FixedLoader::of_rows(4, 1), {}, how);
  };
  fit(1, {});
  for (const char* name : {"victim", "ckpt/notes.txt"}) std::ofstream(folder / name) << "precious";
  fs::create_directory(folder / "elsewhere");
  fs::copy_file(dirpath / "last.ckpt", folder / "elsewhere/other.ckpt");
  fs::create_directory_symlink(folder / "elsewhere", dirpath / "link");
  for (const std::string name : {"/./../victim", "/../victim", "/notes.txt", "/link/other.ckpt", "/link/../victim", "/."}) {
    CAPTURE(name);
    Checkpoint saved = Checkpoint::load(dirpath / "last.ckpt");
    for (auto& [key, state] : saved.manifest["callbacks"].as_map()) {
      if (key.find("ModelCheckpoint") == 0) state["last_model_path"] = state["best_model_path"] = dirpath.string() + name;
    }
    saved.save(folder / "changed.ckpt");
    fit(2, {.ckpt_path = (folder / "changed.ckpt").string()});
    for (const char* precious : {"victim", "ckpt/notes.txt", "elsewhere/other.ckpt", "ckpt/link"}) {
      CHECK(fs::exists(folder / precious));
    }
  }
}

TEST_CASE("next_save() does not name an epoch by its number, which screens count from 1 and files from 0") {
  struct Asking : Callback {
    explicit Asking(const ModelCheckpoint& asked) : checkpoint(asked) {}
    void on_train_epoch_start(Trainer& trainer, Module&) override { answers.push_back(checkpoint.next_save(trainer)); }
    const ModelCheckpoint& checkpoint;
    std::vector<std::string> answers;
  };
  const TemporaryFolder folder;
  const auto answers = [&](ModelCheckpointOptions options) {
    options.dirpath = folder.path();
    const auto checkpoint = std::make_shared<ModelCheckpoint>(std::move(options));
    const auto asking = std::make_shared<Asking>(*checkpoint);
    TrainerOptions of_trainer = quiet_options(4);
    of_trainer.callbacks = {checkpoint, asking};
    of_trainer.default_root_dir = folder.path();
    Trainer trainer(of_trainer);
    ScriptedModule module({1});
    trainer.fit(module, FixedLoader::of_rows(4, 1));
    return asking->answers;
  };
  const std::string now = "after this epoch";
  CHECK(answers({}) == std::vector<std::string>{now, now, now, now});
  CHECK(answers({.every_n_epochs = 3}) == std::vector<std::string>{"after 3 epochs", "after 2 epochs", now, "after 3 epochs"});
  CHECK(answers({.every_n_train_steps = 6}) ==
        std::vector<std::string>{"in 6 steps", "in 2 steps", "in 4 steps", "in 6 steps"});
}
