#include "levin/cli/runs/run_folder.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "levin/cli/runs/natural_order.h"
#include "levin/cli/runs/run_checkpoints.h"
#include "levin/cli/runs/run_record.h"
#include "levin/core/base/error.h"
#include "levin/core/base/process.h"
#include "levin/core/base/process_id.h"
#include "levin/core/files/atomic_file.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"

namespace fs = std::filesystem;
using levin::IoError;
using levin::write_file;
using levin::cli::find_runs;
using levin::cli::read_run_folder;
using levin::cli::read_run_record;
using levin::cli::RunFolder;
using levin::test::error_of;
using levin::test::TemporaryFolder;

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

std::vector<std::string> names_of(const std::vector<RunFolder>& runs) {
  std::vector<std::string> names;
  for (const RunFolder& run : runs) names.push_back(run.name);
  return names;
}

/// `more`: further keys, each with a comma in front.
std::string run_json(const std::string& host, int process, const std::string& more = "") {
  return R"({"status": "running", "started": "2026-11-26 14:02:47", "started_seconds": 5, "host": ")" + host +
         R"(", "ranks": 2, "pid": )" + std::to_string(process) + more + "}";
}

/// A process that is no more.
int ended_process() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return child;
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

TEST_CASE("of damaged files what can be read is read, and the others are named") {
  const TemporaryFolder folder;
  write_file(folder / "config.yaml", "model: {");
  write_file(folder / "hparams.yaml", "lr: 1.0");
  write_file(folder / "run.json", "{\"status\": ");
  write_file(folder / "tags.json", R"({"no": "list"})");
  const RunFolder read = read_run_folder(folder.path());
  CHECK(read.status == "unknown");
  CHECK(read.config.is_null());
  CHECK(read.hyperparams.at("lr").as_double() == 1);
  CHECK(read.tags.empty());
  REQUIRE(read.warnings.size() == 2);
  CHECK_THAT(read.warnings[0], Catch::StartsWith("config.yaml cannot be read: "));
  CHECK_THAT(read.warnings[1], Catch::StartsWith("run.json cannot be read: "));
}

TEST_CASE("a run whose process is gone from this host has failed; on another host nobody knows") {
  const TemporaryFolder folder;
  const int gone = ended_process();
  write_file(folder / "gone/run.json", run_json(levin::host_name(), gone));
  write_file(folder / "gone/metrics.csv", "");
  write_file(folder / "here/run.json", run_json(levin::host_name(), getpid()));
  write_file(folder / "there/run.json", run_json("another" + levin::host_name(), gone));
  const RunFolder failed = read_run_folder(folder / "gone");
  CHECK(failed.status == "failed");
  CHECK_THAT(failed.failure, Catch::Contains(std::to_string(gone)));
  CHECK(failed.ranks == 2);
  CHECK(failed.seconds > 1e9);  // since second 5 of 1970
  CHECK(read_run_folder(folder / "here").status == "running");
  CHECK(read_run_folder(folder / "here").seconds == 0);
  CHECK(read_run_folder(folder / "there").status == "running");
  CHECK(read_run_record(folder / "there").status == "running");
  const auto age = [&](const char* file, int minutes) {
    std::filesystem::last_write_time(folder / file,
                                     std::filesystem::file_time_type::clock::now() - std::chrono::minutes(minutes));
  };
  age("there/run.json", 61);
  CHECK(read_run_folder(folder / "there").status == "running");
  CHECK(read_run_record(folder / "there").status == "running?");
  write_file(folder / "there/metrics.csv", "epoch,step\n");
  CHECK(read_run_record(folder / "there").status == "running");
  age("there/metrics.csv", 61);
  CHECK(read_run_record(folder / "there").status == "running?");
}

TEST_CASE("a later process with a run's number is not that of the run") {
  const TemporaryFolder folder;
  const auto start = levin::ProcessId::self().start_time;
  const auto began = [](auto ticks) { return R"(, "process_start": )" + std::to_string(ticks); };
  write_file(folder / "it/run.json", run_json(levin::host_name(), getpid(), began(start)));
  write_file(folder / "later/run.json", run_json(levin::host_name(), getpid(), began(start - 1)));
  CHECK(read_run_folder(folder / "it").status == "running");
  CHECK(read_run_folder(folder / "later").status == "failed");
}

TEST_CASE("nothing in a folder is waited for, or read without an end, or followed to where a page has no business") {
  const TemporaryFolder folder;
  const fs::path run = folder / "run";
  write_file(run / "run.json", R"({"status": "finished"})");
  write_file(folder / "secret.yaml", "password: precious\n");
  fs::create_symlink(folder / "secret.yaml", run / "hparams.yaml");
  REQUIRE(mkfifo((run / "config.yaml").c_str(), 0600) == 0);
  REQUIRE(mkfifo((run / "tags.json").c_str(), 0600) == 0);
  fs::create_directory(run / "checkpoints");
  REQUIRE(mkfifo((run / "checkpoints/a.ckpt").c_str(), 0600) == 0);
  fs::create_symlink("/dev/zero", run / "checkpoints/b.ckpt");
  fs::create_directory(folder / "other");
  fs::create_symlink("/dev/zero", folder / "other/config.yaml");
  const RunFolder read = find_runs({folder.path()}).at(0);
  CHECK(read.status == "finished");
  CHECK(read.hyperparams.is_null());
  REQUIRE(read.warnings.size() == 3);
  for (const std::string& warning : read.warnings) CHECK_THAT(warning, Catch::Contains("cannot be read: "));
  REQUIRE(read.checkpoints.size() == 2);
  for (const auto& checkpoint : read.checkpoints) CHECK(checkpoint.monitor.empty());
  CHECK(find_runs({folder.path()}).size() == 1);  // "# levin" is not what endless zeros begin with
}

TEST_CASE("runs are found below folders, in the order of their numbers, with names that differ") {
  const TemporaryFolder folder;
  for (const char* name : {"a/logs/version_10", "a/logs/version_9", "a/logs/version_9/checkpoints/x", "b"})
    write_file(folder / name / "metrics.csv", "");
  write_file(folder / "project/config.yaml", "model: Digits\n");
  write_file(folder / "saved/config.yaml", "# levin 0.1.0\nmodel: Digits\n");
  CHECK(names_of(find_runs({folder.path()})) ==
        std::vector<std::string>{"a/logs/version_9", "a/logs/version_10", "b", "saved"});
  CHECK(names_of(find_runs({folder / "a/logs/version_9", folder / "a"})) ==
        std::vector<std::string>{"version_9", "version_10"});
  CHECK(names_of(find_runs({folder / "b"})) == std::vector<std::string>{"b"});
}

TEST_CASE("a folder that is missing or no run is an error that names it") {
  const TemporaryFolder folder;
  CHECK_THAT(error_of<IoError>([&] { find_runs({folder / "none"}); }),
             Catch::Contains("there is no folder '" + (folder / "none").string()));
  CHECK_THAT(error_of<IoError>([&] { find_runs({folder.path()}); }),
             Catch::Contains("there is no run in '" + folder.path().string()));
  CHECK_THAT(error_of<IoError>([&] { read_run_folder(folder.path()); }), Catch::Contains("is not the folder of a run"));
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
