#include "levin/core/state/checkpoint_choice.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>

#include "levin/core/base/error.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "support/shown_messages.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

/// What a ModelCheckpoint saves of itself.
Value decision(const Value& monitor, const std::filesystem::path& best) {
  Value state(Value::Map{});
  state["monitor"] = monitor;
  state["best_model_path"] = best.string();
  return state;
}

/// Writes a checkpoint that is the newer, the larger its step.
std::filesystem::path save(const std::filesystem::path& file, std::int64_t step, const Value::Map& callbacks = {}) {
  Checkpoint checkpoint;
  checkpoint.manifest["epoch"] = std::int64_t{3};
  checkpoint.manifest["global_step"] = step;
  checkpoint.manifest["callbacks"] = Value(callbacks);
  checkpoint.save(file);
  std::filesystem::last_write_time(file, std::filesystem::file_time_type(std::chrono::hours(step)));
  return file;
}

}  // namespace

TEST_CASE("last is the newest checkpoint of the first folder that has one, and best the one that it names") {
  const TemporaryFolder folder;
  const std::filesystem::path best = save(folder / "run" / "a.ckpt", 10);
  const std::filesystem::path newest = save(folder / "run" / "b.ckpt", 20, {{"ModelCheckpoint", decision("val_loss", best)}});
  save(folder / "older" / "c.ckpt", 30, {{"ModelCheckpoint", decision("val_loss", folder / "older" / "c.ckpt")}});
  std::ofstream(folder / "run" / "damaged.ckpt") << "no checkpoint";
  const std::vector<std::filesystem::path> folders = {folder / "none", folder / "run", folder / "older"};
  CHECK(find_checkpoint(folders, "last") == newest);
  CHECK(find_checkpoint(folders, "best") == best);
  // Of several ModelCheckpoints the first one with a monitor says what is best, also of a folder that was moved.
  save(newest, 21,
       {{"ModelCheckpoint{every}", decision({}, newest)},
        {"ModelCheckpoint{val_loss}", decision("val_loss", "/elsewhere/run/a.ckpt")},
        {"ModelCheckpoint{val_acc}", decision("val_acc", newest)}});
  CHECK(find_checkpoint(folders, "best") == best);
  {
    // `levin export --to lightning` writes it.
    std::ofstream(folder / "run" / "b.lightning.ckpt") << "a checkpoint of Lightning";
    const ShownMessages nothing;
    CHECK(find_checkpoint(folders, "last") == newest);
    CHECK(nothing.text().empty());
  }
  // A file that a full disk has cut off is skipped.
  std::filesystem::resize_file(save(folder / "run" / "cut.ckpt", 99), 40);
  std::filesystem::last_write_time(folder / "run" / "cut.ckpt", std::filesystem::file_time_type(std::chrono::hours(99)));
  const ShownMessages shown;
  CHECK(find_checkpoint(folders, "last") == newest);
  CHECK_THAT(shown.text(),
             Catch::Contains("Skipping a damaged checkpoint while looking for 'last'") && Catch::Contains("cut.ckpt"));
  CHECK_THROWS_WITH(
      find_checkpoint({folder / "a", folder / "b"}, "best"),
      Catch::Contains((folder / "a").string() + ", " + (folder / "b").string()) && Catch::Contains("version_3:best"));
}

TEST_CASE("a ckpt_path is a file, best or last, or those of a run's folder") {
  const TemporaryFolder folder;
  const std::filesystem::path file = save(folder / "run" / "a.ckpt", 1);
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
  CHECK_THROWS_WITH(read(""), Catch::Contains("it is empty"));
  CHECK_THROWS_WITH(read((folder / "none.ckpt").string()), Catch::Contains("there is no file") && Catch::Contains("none.ckpt"));
  // A path that the system refuses to examine is reported as missing.
  CHECK_THROWS_AS(read((folder / std::string(5000, 'x')).string()), ConfigError);
  CHECK_THROWS_AS(read((folder / std::string(5000, 'x')).string() + ":last"), ConfigError);
  CHECK_THROWS_WITH(read((folder / "none:best").string()), Catch::Contains("there is no folder") && Catch::Contains("none"));
}

TEST_CASE("a checkpoint is described by epoch, step and the score that it was saved for") {
  const TemporaryFolder folder;
  CHECK(checkpoint_summary(Checkpoint::load(save(folder / "a.ckpt", 40))) == "epoch 3, step 40");
  Value state = decision("val_loss", folder / "a.ckpt");
  state["saved_as"] = "/runs/epoch=3-step=40.ckpt";
  state["best_k_models"] =
      Value(Value::Map{{"/runs/epoch=1-step=20.ckpt", Value(0.5)}, {"/runs/epoch=3-step=40.ckpt", Value(0.12345)}});
  CHECK(checkpoint_summary(Checkpoint::load(save(folder / "b.ckpt", 40, {{"ModelCheckpoint", state}}))) ==
        "epoch 3, step 40, val_loss 0.1235");
}
