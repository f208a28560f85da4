#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>

#include "acceptance/digits_run.h"
#include "support/csv_table.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

TEST_CASE("the digits example learns to read digits") {
  const TemporaryFolder folder;
  const Outcome fit = digits("fit", folder.path());
  INFO(fit.text());
  REQUIRE(fit.ok());

  const CsvTable metrics = CsvTable::read(version_folder(folder.path()) / "metrics.csv");
  for (const char* column : {"epoch", "step", "train_loss", "val_loss", "val_acc"}) CHECK(metrics.has(column));
  CHECK(metrics.values("val_loss").size() == 20);
  CHECK(metrics.values("train_loss").front() > 1.0);
  CHECK(metrics.values("train_loss").back() < 0.3);
  CHECK(fs::exists(version_folder(folder.path()) / "hparams.yaml"));
  CHECK(fs::exists(version_folder(folder.path()) / "config.yaml"));
  CHECK(fs::exists(version_folder(folder.path()) / "checkpoints" / "last.ckpt"));

  const fs::path tested = folder / "test";
  const Outcome test = digits("test", tested, {"--ckpt_path=" + best_checkpoint(folder.path()).string()});
  INFO(test.text());
  REQUIRE(test.ok());
  CHECK(test.out.find("test_acc") != std::string::npos);
  CHECK(CsvTable::read(version_folder(tested) / "metrics.csv").values("test_acc").at(0) >= 0.97);
}

TEST_CASE("the saved config.yaml alone repeats the run") {
  const TemporaryFolder folder;
  REQUIRE(digits("fit", folder.path(), {"--trainer.max_epochs=2", "--model.init_args.channels=8"}).ok());
  const std::string config = (version_folder(folder.path()) / "config.yaml").string();
  const Outcome again = levin({"fit", "--config", config});
  INFO(again.text());
  REQUIRE(again.ok());
  CHECK(read_text(version_folder(folder.path(), 1) / "metrics.csv") ==
        read_text(version_folder(folder.path()) / "metrics.csv"));
  CHECK(read_text(version_folder(folder.path(), 1) / "hparams.yaml").find("channels: 8") != std::string::npos);
}

/// Runs the program there.
Outcome levin_in(const fs::path& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), loaded_levin_program());
  return run({.arguments = std::move(arguments), .folder = folder, .environment = {{"OMP_NUM_THREADS", "1"}}, .copied = true});
}

TEST_CASE("the saved config.yaml of a run with relative paths repeats it from any folder") {
  const TemporaryFolder folder;
  const fs::path project = folder / "project", elsewhere = folder / "elsewhere";
  fs::create_directories(project / "data");
  fs::create_directory(elsewhere);
  fs::copy(LEVIN_SOURCE_DIR "/examples/digits/data/digits.csv", project / "data");
  fs::create_symlink(LEVIN_BINARY_DIR "/lib/levin/plugins/libdigits.so", project / "libmine.so");
  std::ofstream(project / "run.yaml")
      << "plugins: [libmine.so]\nseed_everything: 3\n"
         "trainer: {accelerator: cpu, max_epochs: 1, limit_train_batches: 2, log_every_n_steps: 1}\n"
         "model: {class_path: Digits, init_args: {channels: 4}}\n"
         "data: {class_path: TableDataModule, init_args: {path: data/digits.csv, shape: [1, 8, 8], test_fraction: 0.2}}\n";
  const auto saved = [&](int version) { return (version_folder(project, version) / "config.yaml").string(); };
  const auto metrics = [](const fs::path& version) { return read_text(version / "metrics.csv"); };

  const Outcome fit = levin_in(project, {"fit", "--config", "run.yaml"});
  INFO(fit.text());
  REQUIRE(fit.ok());
  const Outcome test = levin_in(project, {"test", "--config", "run.yaml", "--ckpt_path=best"});
  INFO(test.text());
  REQUIRE(test.ok());

  const Outcome fit_again = levin_in(elsewhere, {"fit", "--config", saved(0)});
  INFO(fit_again.text());
  REQUIRE(fit_again.ok());
  CHECK(metrics(version_folder(elsewhere)) == metrics(version_folder(project)));
  const Outcome test_again = levin_in(elsewhere, {"test", "--config", saved(1)});
  INFO(test_again.text());
  REQUIRE(test_again.ok());
  CHECK(test_again.out.find(best_checkpoint(project).string()) != std::string::npos);
  CHECK(metrics(version_folder(elsewhere, 1)) == metrics(version_folder(project, 1)));
}

TEST_CASE("a run that resumes from last.ckpt ends as one that was not interrupted") {
  const TemporaryFolder folder;
  const std::vector<std::string> small = {"--model.init_args.channels=8", "--model.init_args.dropout=0"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), small.begin(), small.end());
    return more;
  };
  REQUIRE(digits("fit", folder / "whole", with({"--trainer.max_epochs=4"})).ok());
  REQUIRE(digits("fit", folder / "parts", with({"--trainer.max_epochs=2"})).ok());
  const fs::path last = version_folder(folder / "parts") / "checkpoints" / "last.ckpt";
  const Outcome resumed = digits("fit", folder / "parts", with({"--trainer.max_epochs=4", "--ckpt_path=" + last.string()}));
  INFO(resumed.text());
  REQUIRE(resumed.ok());

  const CsvTable whole = CsvTable::read(version_folder(folder / "whole") / "metrics.csv");
  const CsvTable parts = CsvTable::read(version_folder(folder / "parts", 1) / "metrics.csv");
  CHECK(parts.values("val_loss") == whole.values("val_loss"));
  CHECK(parts.values("train_loss") == whole.values("train_loss"));
  CHECK(parts.values("step") == whole.values("step"));
}

TEST_CASE("validate and predict run from a checkpoint") {
  const TemporaryFolder folder;
  REQUIRE(digits("fit", folder.path(), {"--trainer.max_epochs=2"}).ok());
  const std::string checkpoint = "--ckpt_path=" + best_checkpoint(folder.path()).string();
  const Outcome validate = digits("validate", folder / "validate", {checkpoint});
  INFO(validate.text());
  REQUIRE(validate.ok());
  const auto trained = CsvTable::read(version_folder(folder.path()) / "metrics.csv").values("val_loss");
  const auto validated = CsvTable::read(version_folder(folder / "validate") / "metrics.csv").values("val_loss");
  REQUIRE(validated.size() == 1);
  CHECK(validated[0] == *std::min_element(trained.begin(), trained.end()));
  const Outcome predict = digits("predict", folder / "predict", {checkpoint});
  INFO(predict.text());
  CHECK(predict.ok());
}

TEST_CASE("output to a pipe is plain lines") {
  const TemporaryFolder folder;
  const Outcome fit = digits("fit", folder.path(), {"--trainer.max_epochs=2"});
  REQUIRE(fit.ok());
  CHECK((fit.out + fit.err).find('\r') == std::string::npos);
  CHECK((fit.out + fit.err).find('\x1b') == std::string::npos);
  CHECK((fit.out + fit.err).find("Epoch 1") != std::string::npos);
}

TEST_CASE("fast_dev_run leaves nothing behind") {
  const TemporaryFolder folder;
  const Outcome fit = digits("fit", folder.path(), {"--trainer.fast_dev_run=true"});
  INFO(fit.text());
  REQUIRE(fit.ok());
  CHECK(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace levin::test
