#include "levin/callbacks/model_checkpoint.h"

#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>
#include <fstream>

#include "callbacks/checkpointed_fit.h"

using namespace levin;
using namespace levin::test;
namespace fs = std::filesystem;

TEST_CASE("a run that goes on ranks what the earlier one had saved without a score") {
  Fit whole({.monitor = "val_loss", .save_top_k = -1, .every_n_train_steps = 3});
  whole.run();
  const std::filesystem::path third = whole.folder / "ckpt" / "epoch=1-step=6.ckpt";
  Fit resumed({.dirpath = whole.folder / "ckpt", .monitor = "val_loss", .save_top_k = 1, .every_n_train_steps = 3});
  resumed.scores = {0.5, 4, 4};
  resumed.run({.ckpt_path = third.string()});
  REQUIRE(resumed.checkpoint->best_k_models().size() == 1);
  CHECK(resumed.best() == "epoch=1-step=6.ckpt");
  CHECK(resumed.checkpoint->best_model_score() == 0.5);
}

TEST_CASE("a run that goes on keeps its best files, and the one it started from as long as it is one of them") {
  Fit first({.monitor = "val_loss", .save_top_k = 2});
  first.options.max_epochs = 2;
  first.run();
  REQUIRE(first.files() == Names{"epoch=0-step=4.ckpt", "epoch=1-step=8.ckpt"});

  Fit second({.dirpath = first.folder.path() / "ckpt", .monitor = "val_loss", .save_top_k = 2});
  second.scores = {2, 1.5};
  second.run({.ckpt_path = (first.folder.path() / "ckpt" / "epoch=0-step=4.ckpt").string()});
  // Epoch 1 anew (score 2 at step 8), then 1.5 at 12 displaces 3 of step 4, where the run came from.
  CHECK(first.files() == Names{"epoch=1-step=8.ckpt",  // not of the state that the run came from
                               "epoch=2-step=12.ckpt", "epoch=3-step=16.ckpt"});
  CHECK(second.checkpoint->best_model_score() == 1.5);
}

TEST_CASE("a run that goes on owns what the one before it wrote: one last.ckpt, the newest, and no file that stays behind") {
  // The run before was killed right after its first file, before it came to last.ckpt, or after both.
  const SaveLast save_last = GENERATE(SaveLast(true), SaveLast(SaveLast::kLink));
  const bool came_to_last = GENERATE(true, false);
  Fit first({.save_last = save_last});
  first.options.max_epochs = 1;
  first.run();
  const fs::path folder = first.folder / "ckpt";
  if (!came_to_last) fs::remove(folder / "last.ckpt");
  Fit second({.dirpath = folder, .save_last = save_last});
  second.options.max_epochs = 3;
  second.run({.ckpt_path = (folder / "epoch=0-step=4.ckpt").string()});
  CHECK(first.files() == Names{"epoch=2-step=12.ckpt", "last.ckpt"});
  CHECK(step_of(folder / "last.ckpt") == 12);
}

TEST_CASE("a run that goes on from its very end writes the last.ckpt that it had not come to") {
  const SaveLast save_last = GENERATE(SaveLast(true), SaveLast(SaveLast::kLink));
  Fit first({.save_last = save_last});
  first.options.max_epochs = 2;
  first.run();
  const fs::path folder = first.folder / "ckpt";
  fs::remove(folder / "last.ckpt");
  fs::copy_file(folder / "epoch=1-step=8.ckpt", folder / "last.ckpt");
  Checkpoint older = Checkpoint::load(folder / "last.ckpt");
  older.manifest["global_step"] = 4;
  older.save(folder / "last.ckpt");
  Fit second({.dirpath = folder, .save_last = save_last});
  second.options.max_epochs = 2;
  second.run({.ckpt_path = (folder / "epoch=1-step=8.ckpt").string()});
  CHECK(first.files() == Names{"epoch=1-step=8.ckpt", "last.ckpt"});
  CHECK(step_of(folder / "last.ckpt") == 8);
}

TEST_CASE("a file that a run had decided on and was killed before writing is written by the run that resumes") {
  // As where another callback's file of the same point, which says that both are written, is there.
  const std::int64_t epochs = GENERATE(2, 3);
  Fit first({.monitor = "val_loss", .save_top_k = -1});
  first.options.max_epochs = 2;
  first.run();
  const fs::path folder = first.folder / "ckpt";
  fs::rename(folder / "epoch=1-step=8.ckpt", first.folder / "other.ckpt");
  Fit second({.dirpath = folder, .monitor = "val_loss", .save_top_k = -1});
  second.options.max_epochs = epochs;
  second.run({.ckpt_path = (first.folder / "other.ckpt").string()});
  REQUIRE(fs::exists(folder / "epoch=1-step=8.ckpt"));
  CHECK(step_of(folder / "epoch=1-step=8.ckpt") == 8);
  CHECK(fs::exists(folder / "epoch=2-step=12.ckpt") == (epochs == 3));
}

TEST_CASE("what a run goes on from stays until there is something newer, whatever its options say") {
  Fit first({.monitor = "val_loss", .save_top_k = 3});
  first.options.max_epochs = 3;  // scores 3, 1, 2
  first.run();
  const fs::path folder = first.folder / "ckpt";
  const auto go_on = [&](std::int64_t save_top_k, double score) {
    Fit second({.dirpath = folder, .monitor = "val_loss", .save_top_k = save_top_k});
    second.scores = {score};
    second.run({.ckpt_path = (folder / "epoch=2-step=12.ckpt").string()});
    return file_names(folder);
  };
  // 9 is not among the best, so that nothing newer is written: of 3, 1 and 2 the 3 goes.
  CHECK(go_on(1, 9) == Names{"epoch=1-step=8.ckpt", "epoch=2-step=12.ckpt"});
  CHECK(go_on(1, 0.5) == Names{"epoch=3-step=16.ckpt"});
}

TEST_CASE("save_top_k made smaller keeps the best so many, and made larger has room") {
  const auto [k, expected] = GENERATE(table<std::int64_t, Names>(
      {{0, {"epoch=1-step=8.ckpt"}},  // the best stays known, and so does its file
       {1, {"epoch=3-step=16.ckpt"}},
       {2, {"epoch=1-step=8.ckpt", "epoch=3-step=16.ckpt"}},
       {4, {"epoch=0-step=4.ckpt", "epoch=1-step=8.ckpt", "epoch=2-step=12.ckpt", "epoch=3-step=16.ckpt"}}}));
  CAPTURE(k);
  Fit first({.monitor = "val_loss", .save_top_k = 5});
  first.options.max_epochs = 3;
  first.run();
  const fs::path folder = first.folder / "ckpt";
  Fit second({.dirpath = folder, .monitor = "val_loss", .save_last = k == 0, .save_top_k = k});
  second.scores = {0.5};
  second.run({.ckpt_path = (folder / "epoch=2-step=12.ckpt").string()});
  Names files = file_names(folder);
  CHECK(files.erase("last.ckpt") == (k == 0 ? 1 : 0));
  CHECK(files == expected);
}

TEST_CASE("an exception's file is replaced by what the run that goes on from it writes") {
  const TemporaryFolder root;
  const fs::path folder = root / "ckpt";
  ModelCheckpointOptions saving{.dirpath = folder, .save_last = true, .save_on_exception = true};
  TrainerOptions options = quiet_options(3);
  options.default_root_dir = root.path();
  const auto train = [&](std::int64_t throw_at_batch, const RunOptions& run) {
    options.callbacks = {std::make_shared<ModelCheckpoint>(saving)};
    ScriptedModule module;
    module.throw_at_batch = throw_at_batch;
    Trainer(options).fit(module, FixedLoader::of_rows(4, 1), {}, run);
  };
  CHECK_THROWS_WITH(train(2, {}), "scripted failure");
  CHECK(file_names(folder) == Names{"epoch=0-step=2.ckpt", "last.ckpt"});
  train(-1, {.ckpt_path = (folder / "epoch=0-step=2.ckpt").string()});
  CHECK(file_names(folder) == Names{"epoch=2-step=12.ckpt", "last.ckpt"});
  CHECK(step_of(folder / "last.ckpt") == 12);
}

TEST_CASE("a run that goes on removes only checkpoints in its folder, whatever the state says") {
  const TemporaryFolder folder;
  const auto make = [&folder](const std::string& name) { std::ofstream(folder / name) << "precious"; };
  const std::filesystem::path dirpath = folder / "ckpt";
  Fit first({.dirpath = dirpath, .save_last = true});
  first.options.max_epochs = 1;
  first.run();
  make("victim");
  make("ckpt/notes.txt");
  std::filesystem::create_directory(folder / "elsewhere");
  std::filesystem::copy_file(dirpath / "last.ckpt", folder / "elsewhere/other.ckpt");
  std::filesystem::create_directory_symlink(folder / "elsewhere", dirpath / "link");
  for (const std::string name : {"/./../victim", "/../victim", "/notes.txt", "/link/other.ckpt", "/link/../victim", "/."}) {
    CAPTURE(name);
    Checkpoint saved = Checkpoint::load(dirpath / "last.ckpt");
    for (auto& [key, state] : saved.manifest["callbacks"].as_map()) {
      if (key.find("ModelCheckpoint") == 0) state["last_model_path"] = dirpath.string() + name;
      if (key.find("ModelCheckpoint") == 0) state["best_model_path"] = dirpath.string() + name;
    }
    saved.save(folder / "changed.ckpt");
    Fit second({.dirpath = dirpath, .save_last = true});
    second.options.max_epochs = 2;
    second.run({.ckpt_path = (folder / "changed.ckpt").string()});
    for (const char* kept : {"victim", "ckpt/notes.txt", "elsewhere/other.ckpt", "ckpt/link"}) {
      CHECK(std::filesystem::exists(folder / kept));
    }
  }
}
