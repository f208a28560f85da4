#include "levin/data/table_data_module.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>

#include "data/fixtures.h"
#include "levin/core/error.h"
#include "levin/core/options/registry.h"

#include <unistd.h>

using Catch::Matchers::Contains;
using levin::Batch;
using levin::Stage;
using levin::TableDataModule;
using levin::TableDataOptions;

namespace {

/// A CSV file of 20 rows: x, 10 * x, class x % 3; removed in the end.
class TableFile {
 public:
  TableFile() : path_(std::filesystem::temp_directory_path() / ("levin_table_" + std::to_string(::getpid()) + ".csv")) {
    std::ofstream file(path_);
    file << "x,y,kind\n";
    for (int x = 0; x < 20; ++x) file << x << "," << 10 * x << "," << x % 3 << "\n";
  }
  ~TableFile() { std::filesystem::remove(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

Batch all(const levin::LoaderPtr& loader) {
  loader->start_epoch(0);
  std::vector<at::Tensor> features;
  std::vector<at::Tensor> labels;
  while (auto batch = loader->next()) {
    features.push_back((*batch)["features"]);
    labels.push_back((*batch)["label"]);
  }
  return {{"features", torch::cat(features)}, {"label", torch::cat(labels)}};
}

TableDataOptions options_for(const std::filesystem::path& path) {
  TableDataOptions options;
  options.path = path;
  options.batch_size = 4;
  return options;
}

}  // namespace

TEST_CASE("a table is divided into training, validation and test data, each row once") {
  const TableFile file;
  TableDataOptions options = options_for(file.path());
  options.val_fraction = 0.2;
  options.test_fraction = 0.1;
  TableDataModule data(options);
  data.setup(Stage::kTrain);
  std::multiset<std::int64_t> seen;
  const std::vector<levin::LoaderPtr> loaders{data.train_dataloader(), data.val_dataloaders().at(0),
                                              data.test_dataloaders().at(0)};
  const std::vector<std::int64_t> sizes{14, 4, 2};
  for (std::size_t part = 0; part < loaders.size(); ++part) {
    const Batch batch = all(loaders[part]);
    REQUIRE(batch.batch_size() == sizes[part]);
    REQUIRE(batch["features"].scalar_type() == at::kFloat);
    REQUIRE(batch["label"].scalar_type() == at::kLong);
    for (std::int64_t row = 0; row < batch.batch_size(); ++row) {
      const auto x = static_cast<std::int64_t>(batch["features"][row][0].item<float>());
      seen.insert(x);
      REQUIRE(batch["features"][row][1].item<float>() == 10.0f * static_cast<float>(x));
      REQUIRE(batch["label"][row].item<std::int64_t>() == x % 3);
    }
  }
  REQUIRE(seen.size() == 20);
  REQUIRE(std::set<std::int64_t>(seen.begin(), seen.end()).size() == 20);
  REQUIRE(data.train_dataloader()->shuffles());
  REQUIRE_FALSE(data.val_dataloaders()[0]->shuffles());
}

TEST_CASE("label, scale, shape and standardization") {
  const TableFile file;
  TableDataOptions options = options_for(file.path());
  options.val_fraction = 0;
  options.test_fraction = 0;
  options.shuffle = false;
  options.label_column = "y";
  options.task = levin::TableTask::kRegression;
  options.scale = 0.5;
  options.shape = {2, 1};
  TableDataModule data(options);
  data.setup(Stage::kTrain);
  const Batch batch = all(data.train_dataloader());
  REQUIRE(batch["features"].sizes() == at::IntArrayRef{20, 2, 1});
  REQUIRE(batch["label"].equal(batch["features"].select(1, 0).squeeze(1) * 20));
  REQUIRE(data.val_dataloaders().empty());
  REQUIRE(data.test_dataloaders().empty());

  options.standardize = true;
  TableDataModule standardized(options);
  standardized.setup(Stage::kTrain);
  const at::Tensor features = all(standardized.train_dataloader())["features"];
  REQUIRE(features.mean(0).abs().max().item<float>() < 1e-6f);
  REQUIRE((features.std(0, false) - 1).abs().max().item<float>() < 1e-6f);
}

TEST_CASE("features and labels may lie in two files, and the test data in two more") {
  TableDataOptions options = options_for(kFixtures / "images-idx3-ubyte");
  options.label_path = kFixtures / "labels-idx1-ubyte.gz";
  options.test_path = options.path;
  options.test_label_path = options.label_path;
  options.val_fraction = 0;
  options.shape = {1, 2, 2};
  TableDataModule data(options);
  data.setup(Stage::kTest);
  const Batch test = all(data.test_dataloaders().at(0));
  REQUIRE(test["features"].equal(torch::arange(12, torch::kFloat).view({3, 1, 2, 2})));
  REQUIRE(test["label"].equal(torch::tensor({2, 0, 1}, torch::kLong)));
  REQUIRE(data.train_dataloader()->size() == 1);
}

TEST_CASE("options that do not fit the data are errors that say so") {
  const TableFile file;
  const auto setup_error = [&](auto change) {
    TableDataOptions options = options_for(file.path());
    change(options);
    try {
      TableDataModule(options).setup(Stage::kTrain);
    } catch (const levin::ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  REQUIRE_THAT(setup_error([](auto& o) { o.label_column = "kimd"; }), Contains("no column 'kimd'") && Contains("'kind'"));
  REQUIRE_THAT(setup_error([](auto& o) { o.label_column = "3"; }), Contains("no column '3'") && Contains("0 to 2"));
  REQUIRE_THAT(setup_error([](auto& o) { o.shape = {3}; }), Contains("holds 3 features") && Contains("has 2"));
  REQUIRE_THAT(setup_error([](auto& o) { o.val_fraction = 0.9; }), Contains("nothing to train on"));
  REQUIRE_THAT(setup_error([](auto& o) { o.delimiter = "ab"; }), Contains("delimiter"));
  REQUIRE_THAT(setup_error([](auto& o) { o.test_label_path = "x"; }), Contains("needs test_path"));
  REQUIRE_THAT(setup_error([](auto& o) { o.path = kFixtures / "make_fixtures.py"; }),
               Contains("does not say what the file holds"));
  REQUIRE_THAT(setup_error([](auto& o) { o.label_path = kFixtures / "labels-idx1-ubyte.gz"; }),
               Contains("one label for each of the 20 samples"));
  REQUIRE_THAT(setup_error([](auto& o) { o.path = kFixtures / "empty.npy"; }), Contains("no data"));
  REQUIRE_THAT(setup_error([](auto& o) {
                 o.path = kFixtures / "big_endian.npy";
                 o.label_column = "0";
               }),
               Contains("label of row 0") && Contains("no whole number"));
}

TEST_CASE("the registry makes it by name from its options") {
  const TableFile file;
  levin::Value args(levin::Value::Map{});
  args["path"] = file.path().string();
  args["label_column"] = -1;
  args["test_path"] = nullptr;
  const auto data = levin::Registry<levin::DataModule>::instance().make("TableDataModule", args);
  data->setup(Stage::kTrain);
  REQUIRE(data->train_dataloader()->size() == 1);
  REQUIRE(data->hparams().at("batch_size").as_int() == 32);
  args["bach_size"] = 3;
  REQUIRE_THROWS_WITH(levin::Registry<levin::DataModule>::instance().make("TableDataModule", args), Contains("batch_size"));
}

TEST_CASE("a sampler by name orders the training samples, in place of shuffle") {
  const TableFile file;
  levin::Value args(levin::Value::Map{});
  args["path"] = file.path().string();
  args["sampler"] = "SequentialSampler";
  const auto data = levin::Registry<levin::DataModule>::instance().make("TableDataModule", args);
  data->setup(Stage::kTrain);
  TableDataOptions in_order = options_for(file.path());
  in_order.shuffle = false;
  TableDataModule expected(in_order);
  expected.setup(Stage::kTrain);
  CHECK(torch::equal(all(data->train_dataloader())["features"], all(expected.train_dataloader())["features"]));
  CHECK(data->hparams().at("sampler") == levin::Value("SequentialSampler"));
}
