#include <catch2/catch.hpp>

#include "acceptance/digits_run.h"
#include "support/csv_table.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

constexpr int kGlobalBatch = 32;

/// Options of a run on so many ranks that sees the global batches of a run on one.
std::vector<std::string> on_ranks(int ranks) {
  return {"--trainer.devices=" + std::to_string(ranks), "--trainer.accelerator=cpu",
          "--data.init_args.batch_size=" + std::to_string(kGlobalBatch / ranks), "--model.init_args.dropout=0",
          "--model.init_args.channels=8",
          // Full batches only, so that every rank's mean has the same weight.
          "--data.init_args.drop_last=true", "--trainer.max_epochs=3"};
}

TEST_CASE("one, two and four ranks train to the same model") {
  const TemporaryFolder folder;
  for (const int ranks : {1, 2, 4}) {
    const Outcome fit = digits("fit", folder / std::to_string(ranks), on_ranks(ranks));
    INFO(fit.text());
    REQUIRE(fit.ok());
  }
  const CsvTable one = CsvTable::read(version_folder(folder / "1") / "metrics.csv");
  for (const int ranks : {2, 4}) {
    const CsvTable many = CsvTable::read(version_folder(folder / std::to_string(ranks)) / "metrics.csv");
    INFO("ranks: " << ranks);
    CHECK(many.values("step") == one.values("step"));
    const auto expected = one.values("val_loss");
    const auto actual = many.values("val_loss");
    REQUIRE(actual.size() == expected.size());
    for (std::size_t epoch = 0; epoch < expected.size(); ++epoch) {
      CHECK(actual[epoch] == Approx(expected[epoch]).epsilon(1e-3));
    }
  }
}

TEST_CASE("a checkpoint validates to the same metrics on any number of ranks") {
  const TemporaryFolder folder;
  REQUIRE(digits("fit", folder.path(), {"--trainer.max_epochs=1"}).ok());
  const std::string checkpoint = "--ckpt_path=" + best_checkpoint(folder.path()).string();
  std::vector<double> losses, accuracies;
  for (const int ranks : {1, 2, 4}) {
    const fs::path run = folder / ("validate" + std::to_string(ranks));
    const Outcome validate = digits("validate", run, {checkpoint, "--trainer.devices=" + std::to_string(ranks)});
    INFO(validate.text());
    REQUIRE(validate.ok());
    const CsvTable metrics = CsvTable::read(version_folder(run) / "metrics.csv");
    losses.push_back(metrics.values("val_loss").at(0));
    accuracies.push_back(metrics.values("val_acc").at(0));
  }
  for (const std::size_t other : {1, 2}) {
    CHECK(losses[other] == Approx(losses[0]).epsilon(1e-6));
    CHECK(accuracies[other] == Approx(accuracies[0]).epsilon(1e-6));
  }
}

TEST_CASE("two ranks write one metrics.csv, and a file of each rank's own values") {
  const TemporaryFolder folder;
  const Outcome fit = levin({"fit", "--config", LEVIN_SOURCE_DIR "/examples/digits/ddp.yaml",
                             "--trainer.default_root_dir=" + folder.path().string(), "--trainer.max_epochs=3"});
  INFO(fit.text());
  REQUIRE(fit.ok());
  const fs::path run = version_folder(folder.path());
  CHECK_FALSE(fs::exists(version_folder(folder.path(), 1)));
  const CsvTable all = CsvTable::read(run / "metrics.csv");
  const CsvTable first = CsvTable::read(run / "metrics_rank_0.csv");
  const CsvTable second = CsvTable::read(run / "metrics_rank_1.csv");
  CHECK_FALSE(fs::exists(run / "metrics_rank_2.csv"));

  // Each rank has half of the validation samples, give or take one, so that the reduced value is nearly the mean of the two.
  const auto mean = all.values("val_loss");
  const auto of_first = first.values("val_loss");
  const auto of_second = second.values("val_loss");
  REQUIRE(mean.size() == 3);
  REQUIRE(of_first.size() == 3);
  REQUIRE(of_second.size() == 3);
  for (std::size_t epoch = 0; epoch < mean.size(); ++epoch) {
    CHECK(of_first[epoch] != of_second[epoch]);
    CHECK((of_first[epoch] + of_second[epoch]) / 2 == Approx(mean[epoch]).epsilon(1e-2));
  }
  CHECK(first.values("train_loss") != second.values("train_loss"));
  // The banner, the summary and the progress are shown once.
  const std::string shown = fit.out + fit.err;
  const auto epoch_line = shown.find("Epoch 2");
  REQUIRE(epoch_line != std::string::npos);
  CHECK(shown.find("Epoch 2", epoch_line + 1) == std::string::npos);
}

}  // namespace
}  // namespace levin::test
