#include "levin/callbacks/prediction_writer.h"

#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>
#include <fstream>

#include "callbacks/scripted_run.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/data/array_files.h"
#include "levin/data/data_loader.h"
#include "levin/data/dataset.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

/// Predicts what a function makes of a batch.
struct Predicts : Module {
  explicit Predicts(std::function<Batch(const Batch&)> function) : function(std::move(function)) {}
  Batch predict_step(const Batch& batch, std::int64_t) override { return function(batch); }
  std::function<Batch(const Batch&)> function;
};

/// So many samples: their number, in batches of two.
LoaderPtr samples(std::int64_t count) {
  const at::Tensor numbers = torch::arange(count, torch::kFloat).reshape({-1, 1});
  return std::make_shared<DataLoader>(std::make_shared<TensorDataset>(Batch{{"x", numbers}}),
                                      DataLoaderOptions{.batch_size = 2});
}

// Where files go is in acceptance/cases/callbacks.txt.

/// Predicts with a writer, into FOLDER.
void predict(const TemporaryFolder& folder, PredictionWriterOptions options, std::function<Batch(const Batch&)> function,
             LoaderList loaders = {samples(3)}) {
  TrainerOptions trainer_options = quiet_options(1);
  trainer_options.default_root_dir = folder.path();
  trainer_options.callbacks = {std::make_shared<PredictionWriter>(std::move(options))};
  Predicts module(std::move(function));
  Trainer(trainer_options).predict(module, std::move(loaders));
}

}  // namespace

TEST_CASE("a prediction without a name is the column prediction, or one column for each number of a row") {
  const TemporaryFolder folder;
  predict(folder, {}, [](const Batch& batch) { return batch["x"] * 0.1; });
  CHECK(read_text(folder / "predictions.csv") == "prediction\n0\n0.1\n0.2\n");
  predict(folder, {.filename = "pairs"}, [](const Batch& batch) { return torch::cat({batch["x"], -batch["x"]}, 1); });
  CHECK(read_text(folder / "pairs.csv") == "prediction_0,prediction_1\n0,-0\n1,-1\n2,-2\n");
}

TEST_CASE("named predictions are columns of their names, whole numbers stay whole, and names are quoted where CSV needs it") {
  const TemporaryFolder folder;
  predict(folder, {}, [](const Batch& batch) {
    const at::Tensor x = batch["x"].squeeze(1);
    return Batch{{"class", x.to(torch::kLong) + (std::int64_t{1} << 60)},
                 {"is, \"odd\"", x.remainder(2).eq(1)},
                 {"score", torch::stack({x / 0, x.to(torch::kDouble) / 3}, 1)}};
  });
  CHECK(read_text(folder / "predictions.csv") ==
        "class,\"is, \"\"odd\"\"\",score_0,score_1\n"
        "1152921504606846976,0,NaN,0\n1152921504606846977,1,inf,0.3333333333333333\n"
        "1152921504606846978,0,inf,0.6666666666666666\n");
}

TEST_CASE("a class number has the name of the class beside it, where the data names classes") {
  const TemporaryFolder folder;
  struct Named final : DataModule {
    LoaderList predict_dataloaders() override { return {samples(3)}; }
    DataFacts facts() const override { return {.classes = 2, .class_names = {"cat", "dog, large"}}; }
  } data;
  TrainerOptions options = quiet_options(1);
  options.default_root_dir = folder.path();
  options.callbacks = {PredictionWriter()};
  const auto written = [&](const std::function<Batch(const Batch&)>& function) {
    Predicts module(function);
    Trainer(options).predict(module, data);
    return read_text(folder / "predictions.csv");
  };
  const auto number = [](const Batch& batch) { return batch["x"].squeeze(1).to(torch::kLong); };
  CHECK(written([&](const Batch& batch) {
          return Batch{{"label", number(batch)}, {"score", batch["x"]}};
        }) == "label,class,score\n0,cat,0\n1,\"dog, large\",1\n2,,2\n");
  CHECK(written([&](const Batch& batch) {
          return Batch{{"label", number(batch)}, {"class", number(batch)}};
        }) == "label,class\n0,0\n1,1\n2,2\n");
  CHECK(written([&](const Batch& batch) { return Batch{{"label", batch["x"]}}; }) == "label\n0\n1\n2\n");
}

TEST_CASE("npy files hold one array each, and safetensors all under their names") {
  const TemporaryFolder folder;
  const auto both = [](const Batch& batch) {
    return Batch{{"x", batch["x"]}, {"image", batch["x"].reshape({-1, 1, 1}).expand({-1, 2, 3}).to(torch::kDouble)}};
  };
  predict(folder, {.format = PredictionFormat::kNpy}, both);
  CHECK(torch::equal(read_npy(folder / "predictions-x.npy"), torch::tensor({{0.0}, {1.0}, {2.0}}, torch::kDouble)));
  CHECK(read_npy(folder / "predictions-image.npy").sizes() == at::IntArrayRef{3, 2, 3});
  CHECK_THAT(read_text(folder / "predictions-x.npy"), Contains("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 1), }"));
  predict(folder, {.filename = "flat", .format = PredictionFormat::kNpy},
          [](const Batch& batch) { return batch["x"].squeeze(1); });
  CHECK_THAT(read_text(folder / "flat.npy"), Contains("'shape': (3, ), }"));
  CHECK(torch::equal(read_npy(folder / "flat.npy"), torch::arange(3, torch::kDouble)));
  predict(folder, {.filename = "negated", .format = PredictionFormat::kNpy},
          [](const Batch& batch) { return at::_neg_view(batch["x"].squeeze(1)); });
  CHECK(torch::equal(read_npy(folder / "negated.npy"), -torch::arange(3, torch::kDouble)));
  predict(folder, {.format = PredictionFormat::kSafetensors}, both);
  const Checkpoint read = Checkpoint::load(folder / "predictions.safetensors");
  CHECK(torch::equal(read.tensors.at("x"), torch::arange(3, torch::kFloat).reshape({-1, 1})));
  CHECK(read.tensors.at("image").scalar_type() == torch::kDouble);
}

TEST_CASE("with the interval batch each batch has a file, which names its samples") {
  const TemporaryFolder folder;
  predict(folder, {.write_interval = WriteInterval::kBatch}, [](const Batch& batch) { return batch["x"] * 2; },
          {samples(2), samples(3)});
  const fs::path parts = folder / "predictions";
  CHECK(file_names(parts) ==
        std::set<std::string>{"loader_0-rank_0-batch_0.csv", "loader_1-rank_0-batch_0.csv", "loader_1-rank_0-batch_1.csv"});
  CHECK(read_text(parts / "loader_1-rank_0-batch_1.csv") == "sample,prediction\n2,4\n");
  CHECK_FALSE(fs::exists(folder / "predictions.csv"));
}

TEST_CASE("samples that have names are named, also within a Subset, and by the batch") {
  const TemporaryFolder folder;
  struct Files final : Dataset {
    std::int64_t size() const override { return 4; }
    Batch get_batch(std::span<const std::int64_t> indices) const override {
      return {{"x", torch::tensor(std::vector<std::int64_t>(indices.begin(), indices.end())).to(torch::kFloat)}};
    }
    std::string sample_name(std::int64_t index) const override { return "folder, " + std::to_string(index) + ".png"; }
  };
  const auto files = std::make_shared<Files>();
  const auto x = [](const Batch& batch) { return batch["x"]; };
  const LoaderPtr loader = DataLoader(Subset(files, {3, 1, 0}), {.batch_size = 2});
  predict(folder, {.write_interval = WriteInterval::kBatchAndEpoch}, x, {loader});
  CHECK(read_text(folder / "predictions.csv") ==
        "name,prediction\n\"folder, 3.png\",3\n\"folder, 1.png\",1\n\"folder, 0.png\",0\n");
  CHECK(read_text(folder / "predictions/loader_0-rank_0-batch_1.csv") == "name,sample,prediction\n\"folder, 0.png\",2,0\n");
  const auto own = [](const Batch& batch) { return Batch{{"name", batch["x"]}}; };
  predict(folder, {.filename = "own"}, own, {DataLoader(files, {.batch_size = 3})});
  CHECK(read_text(folder / "own.csv") == "name\n0\n1\n2\n3\n");
}

TEST_CASE("several loaders have a file each") {
  const TemporaryFolder folder;
  predict(folder, {}, [](const Batch& batch) { return batch["x"]; }, {samples(1), samples(3)});
  CHECK(read_text(folder / "predictions-0.csv") == "prediction\n0\n");
  CHECK(read_text(folder / "predictions-1.csv") == "prediction\n0\n1\n2\n");
}

TEST_CASE("what is not one row for each sample, or differs from batch to batch, is an error that says what to do") {
  const TemporaryFolder folder;
  const auto check = [&](const std::function<Batch(const Batch&)>& function, const std::string& problem) {
    CHECK_THROWS_WITH(predict(folder, {}, function), Contains(problem));
  };
  const auto mean = [](const Batch& batch) { return Batch{{"mean", batch["x"].mean()}}; };
  check(mean, "predict_step gave 'mean' of shape [] for a batch of 2 samples");
  check(mean, "enable_prediction_writer");
  check([](const Batch& batch) { return torch::cat({batch["x"], batch["x"]}); }, "of shape [4, 1] for a batch of 2 samples");
  check(
      [](const Batch& batch) {
        return Batch{{batch.batch_size() == 2 ? "a" : "b", batch["x"]}};
      },
      "gave b for batch 1, and a for the first");
  CHECK_FALSE(fs::exists(folder / "predictions.csv"));
}

TEST_CASE("predictions are returned unless an option says otherwise, and a C++ program has no writer by itself") {
  const TemporaryFolder folder;
  TrainerOptions options = quiet_options(1);
  options.default_root_dir = folder.path();
  options.enable_checkpointing = false;
  Predicts module([](const Batch& batch) { return batch["x"]; });
  Trainer trainer(options);
  CHECK(trainer.predict(module, {samples(3)}).front().size() == 2);
  CHECK(trainer.predict(module, {samples(3)}, {.return_predictions = false}).empty());
  CHECK(file_names(folder.path()).empty());
}
