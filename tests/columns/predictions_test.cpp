#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "callbacks/scripted_run.h"
#include "levin/callbacks/prediction_writer.h"
#include "levin/core/files/column_file.h"
#include "levin/data/data_loader.h"
#include "levin/data/dataset.h"
#include "support/temporary_folder.h"

namespace {

using levin::Batch;

struct PredictsLabels final : levin::Module {
  Batch predict_step(const Batch& batch, std::int64_t) override {
    const at::Tensor x = batch["x"];
    return {{"label", x.to(torch::kLong)}, {"score", torch::stack({x / 3, x * 2}, 1).to(torch::kDouble)}, {"x", x}};
  }
};

struct ClassesByName final : levin::DataModule {
  levin::LoaderList predict_dataloaders() override {
    return {levin::DataLoader(levin::TensorDataset({{"x", torch::arange(3, torch::kFloat)}}), {.batch_size = 2})};
  }
  levin::DataFacts facts() const override { return {.classes = 2, .class_names = {"cat", "dog"}}; }
};

}  // namespace

TEST_CASE("predictions in a Parquet file have their types, and the names of classes") {
  const levin::test::TemporaryFolder folder;
  levin::TrainerOptions options = levin::test::quiet_options(1);
  options.default_root_dir = folder.path();
  options.callbacks = {levin::PredictionWriter({.format = levin::PredictionFormat::kParquet})};
  PredictsLabels module;
  ClassesByName data;
  levin::Trainer(options).predict(module, data);
  const std::filesystem::path path = folder / "predictions.parquet";
  const auto file = levin::column_format_of(path)->open(path);
  std::vector<std::string> columns;
  for (const levin::ColumnInfo& column : file->columns()) columns.push_back(c10::str(column.name, " ", column.type));
  CHECK(columns == std::vector<std::string>{"label int64", "class string", "score_0 double", "score_1 double", "x float"});
  CHECK(file->read(0, 0, {}).numbers == std::vector<double>{0, 1, 2});
  const levin::ColumnData classes = file->read(0, 1, {.as_text = true});
  CHECK(classes.texts == std::vector<std::string>{"cat", "dog"});
  CHECK(classes.missing == std::vector<std::int64_t>{2});
  CHECK(file->read(0, 3, {}).numbers == std::vector<double>{0, 2, 4});
}
