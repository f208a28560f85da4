#include "levin/core/engine/resume/checkpoint_lookup.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>

#include "levin/core/base/error.h"
#include "support/temporary_folder.h"

namespace levin {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

/// What a ModelCheckpoint saves of itself.
Value decision(const Value& monitor, const fs::path& best) {
  Value state(Value::Map{});
  state["monitor"] = monitor;
  state["best_model_path"] = best.string();
  return state;
}

/// Writes a checkpoint that is the newer, the larger its step.
fs::path save(const fs::path& file, std::int64_t step, const Value::Map& callbacks = {}) {
  Checkpoint checkpoint;
  checkpoint.manifest["epoch"] = std::int64_t{3};
  checkpoint.manifest["global_step"] = step;
  checkpoint.manifest["callbacks"] = Value(callbacks);
  checkpoint.save(file);
  fs::last_write_time(file, fs::file_time_type(std::chrono::hours(step)));
  return file;
}

}  // namespace

TEST_CASE("last is the newest checkpoint of the first folder that has one, and best the one that it names") {
  const test::TemporaryFolder folder;
  const fs::path best = save(folder / "run" / "a.ckpt", 10);
  const fs::path newest = save(folder / "run" / "b.ckpt", 20, {{"ModelCheckpoint", decision("val_loss", best)}});
  save(folder / "older" / "c.ckpt", 30, {{"ModelCheckpoint", decision("val_loss", folder / "older" / "c.ckpt")}});
  const std::vector<fs::path> folders = {folder / "none", folder / "run", folder / "older"};
  CHECK(find_checkpoint(folders, "last") == newest);
  CHECK(find_checkpoint(folders, "best") == best);
}

TEST_CASE("of several ModelCheckpoints the first one with a monitor says what is best") {
  const test::TemporaryFolder folder;
  const fs::path first = save(folder / "first.ckpt", 1);
  const fs::path second = save(folder / "second.ckpt", 2);
  save(folder / "newest.ckpt", 3,
       {{"ModelCheckpoint{every}", decision({}, folder / "newest.ckpt")},
        {"ModelCheckpoint{val_loss}", decision("val_loss", second)},
        {"ModelCheckpoint{val_acc}", decision("val_acc", first)}});
  CHECK(find_checkpoint({folder.path()}, "best") == second);
}

TEST_CASE("best is found in a run's folder that was moved, and beside damaged files") {
  const test::TemporaryFolder folder;
  save(folder / "checkpoints" / "a.ckpt", 1);
  save(folder / "checkpoints" / "b.ckpt", 2, {{"ModelCheckpoint", decision("val_loss", "/elsewhere/checkpoints/a.ckpt")}});
  std::ofstream(folder / "checkpoints" / "damaged.ckpt") << "no checkpoint";
  CHECK(find_checkpoint({folder / "checkpoints"}, "best") == folder / "checkpoints" / "a.ckpt");
  CHECK(find_checkpoint({folder / "checkpoints"}, "last") == folder / "checkpoints" / "b.ckpt");
}

TEST_CASE("where there is no checkpoint, the error names the folders") {
  const test::TemporaryFolder folder;
  CHECK_THROWS_WITH(find_checkpoint({folder / "a", folder / "b"}, "best"),
                    Contains((folder / "a").string() + ", " + (folder / "b").string()) && Contains("version_3:best"));
}

TEST_CASE("a ckpt_path is a file, best or last, or those of a run's folder") {
  const test::TemporaryFolder folder;
  const fs::path file = save(folder / "run" / "a.ckpt", 1);
  const std::string run = (folder / "run").string();
  const auto read = [](const std::string& text) {
    const CheckpointChoice choice = read_checkpoint_choice(text);
    return std::pair(choice.place.string(), choice.which);
  };
  using Read = std::pair<std::string, std::string>;
  CHECK(read("best") == Read("", "best"));
  CHECK(read("last") == Read("", "last"));
  CHECK(read(file.string()) == Read(file.string(), ""));
  CHECK(read(run) == Read(run, "last"));
  CHECK(read(run + ":best") == Read(run, "best"));
  CHECK(read(run + ":last") == Read(run, "last"));
  CHECK_THROWS_WITH(read(""), Contains("it is empty"));
  CHECK_THROWS_WITH(read((folder / "none.ckpt").string()), Contains("there is no file") && Contains("none.ckpt"));
  // What the system refuses to look at is told as what is not there.
  CHECK_THROWS_AS(read((folder / std::string(5000, 'x')).string()), ConfigError);
  CHECK_THROWS_AS(read((folder / std::string(5000, 'x')).string() + ":last"), ConfigError);
  CHECK_THROWS_WITH(read((folder / "none:best").string()), Contains("there is no folder") && Contains("none"));
}

TEST_CASE("a checkpoint is described by epoch, step and the score that it was saved for") {
  const test::TemporaryFolder folder;
  CHECK(checkpoint_summary(Checkpoint::load(save(folder / "a.ckpt", 40))) == "epoch 3, step 40");
  Value state = decision("val_loss", folder / "a.ckpt");
  state["saved_as"] = "/runs/epoch=3-step=40.ckpt";
  state["best_k_models"] =
      Value(Value::Map{{"/runs/epoch=1-step=20.ckpt", Value(0.5)}, {"/runs/epoch=3-step=40.ckpt", Value(0.12345)}});
  CHECK(checkpoint_summary(Checkpoint::load(save(folder / "b.ckpt", 40, {{"ModelCheckpoint", state}}))) ==
        "epoch 3, step 40, val_loss 0.1235");
}

}  // namespace levin
