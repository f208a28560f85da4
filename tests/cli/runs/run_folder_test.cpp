#include "levin/cli/runs/run_folder.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "levin/cli/runs/natural_order.h"
#include "levin/cli/runs/run_checkpoints.h"
#include "levin/core/files/atomic_file.h"
#include "support/temporary_folder.h"

namespace fs = std::filesystem;
using levin::write_file;
using levin::cli::read_run_folder;
using levin::cli::RunFolder;
using levin::test::TemporaryFolder;

// Names, states and damaged files are in acceptance/cases/run_folders.txt.

namespace {

/// A safetensors file without tensors, with this manifest.
std::string checkpoint_of(const std::string& manifest) {
  std::string quoted;
  for (const char letter : manifest) quoted += letter == '"' ? std::string("\\\"") : std::string(1, letter);
  const std::string header = R"({"__metadata__":{"levin_manifest":")" + quoted + "\"}}";
  std::string size(8, '\0');
  size[0] = static_cast<char>(header.size() & 0xff);
  size[1] = static_cast<char>(header.size() >> 8U);
  return size + header;
}

}  // namespace

TEST_CASE("all that a run has on the disk is read") {
  const TemporaryFolder folder;
  const fs::path run = folder / "logs/version_3";
  write_file(run / "metrics.csv", "epoch,step,loss\n");
  write_file(run / "config.yaml", "# levin 0.1.0\nmodel:\n  class_path: Digits\n");
  write_file(run / "hparams.yaml", "model:\n  lr: 0.5\n");
  write_file(run / "run.json", R"({"status": "finished", "started": "2026-11-26 14:02:47", "seconds": 12.5, "ranks": 2})");
  write_file(run / "tags.json", R"(["good", "paper"])");
  write_file(run / "checkpoints/epoch=10-step=2.ckpt",
             checkpoint_of(R"({"callbacks":{"ModelCheckpoint{}":{"monitor":"val_loss","current_score":0.25,)"
                           R"("best_k_models":{"/elsewhere/epoch=10-step=2.ckpt":0.25},)"
                           R"("saved_as":"/elsewhere/epoch=10-step=2.ckpt"}}})"));
  write_file(run / "checkpoints/epoch=9-step=1.ckpt", "damaged");
  const RunFolder read = read_run_folder(run / "");
  CHECK(read.name == "version_3");
  CHECK(read.has_metrics());
  CHECK(read.config.at("model").at("class_path").as_string() == "Digits");
  CHECK(read.hyperparams.at("model").at("lr").as_double() == 0.5);
  CHECK(read.status == "finished");
  CHECK(read.started == "2026-11-26 14:02:47");
  CHECK(read.seconds == 12.5);
  CHECK(read.ranks == 2);
  CHECK(read.tags == std::vector<std::string>{"good", "paper"});
  CHECK(read.warnings.empty());
  REQUIRE(read.checkpoints.size() == 2);
  CHECK(read.checkpoints[0].file == run / "checkpoints/epoch=9-step=1.ckpt");
  CHECK(read.checkpoints[0].monitor.empty());
  CHECK(read.checkpoints[1].monitor == "val_loss");
  CHECK(read.checkpoints[1].score == 0.25);
}

TEST_CASE("each checkpoint has its own score, and what was not chosen by a metric has none") {
  const TemporaryFolder folder;
  const fs::path files = folder / "checkpoints";
  // As ModelCheckpoint leaves them: current_score is the score of what was ranked last, whatever is written now.
  const auto write = [&](const std::string& name, const std::string& current, const std::string& best) {
    write_file(files / name,
               checkpoint_of(R"({"callbacks":{"Timer":{},"ModelCheckpoint{}":{"monitor":"val_acc","current_score":)" + current +
                             R"(,"best_k_models":{)" + best + R"(},"saved_as":"/there/)" + name + R"("}}})"));
  };
  write("epoch=0.ckpt", "0.5", R"("/there/epoch=0.ckpt":0.5)");
  write("epoch=1.ckpt", "0.75", R"("/there/epoch=0.ckpt":0.5,"/there/epoch=1.ckpt":0.75)");
  write("last.ckpt", "0.75", R"("/there/epoch=0.ckpt":0.5,"/there/epoch=1.ckpt":0.75)");
  write("interrupted.ckpt", "0.75", R"("/there/epoch=0.ckpt":0.5,"/there/epoch=1.ckpt":0.75)");
  // Saved between two validations, and measured by the second.
  write("step=7.ckpt", "0.5", R"("/there/epoch=0.ckpt":0.5)");
  write("step=8.ckpt", "0.25", R"("/there/step=7.ckpt":0.25)");
  fs::create_symlink("epoch=1.ckpt", files / "newest.ckpt");
  fs::create_symlink("gone.ckpt", files / "broken.ckpt");
  std::map<std::string, std::optional<double>> scores;
  for (const auto& checkpoint : levin::cli::read_checkpoints(files))
    scores[checkpoint.file.filename()] = checkpoint.monitor.empty() ? std::nullopt : std::optional(checkpoint.score);
  CHECK(scores == std::map<std::string, std::optional<double>>{{"epoch=0.ckpt", 0.5},
                                                               {"epoch=1.ckpt", 0.75},
                                                               {"last.ckpt", std::nullopt},
                                                               {"interrupted.ckpt", std::nullopt},
                                                               {"step=7.ckpt", 0.25},
                                                               {"step=8.ckpt", std::nullopt},
                                                               {"newest.ckpt", 0.75}});
}

TEST_CASE("numbers in names count as numbers") {
  using levin::cli::comes_before;
  CHECK(comes_before("v_2", "v_10"));
  CHECK_FALSE(comes_before("v_10", "v_2"));
  CHECK(comes_before("v_10", "v_10a"));
  CHECK(comes_before("a", "b"));
  CHECK(comes_before("v_02/x", "v_2/y"));
  CHECK_FALSE(comes_before("v_2", "v_2"));
}
