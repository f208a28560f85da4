#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>

#include "data/fixtures.h"
#include "data/tables.h"
#include "levin/core/base/error.h"
#include "levin/core/config/registry.h"
#include "levin/data/dataset.h"
#include "support/standardized_rows.h"
#include "support/temporary_folder.h"

using Catch::Matchers::Contains;
using levin::Batch;
using levin::Registry;
using levin::Stage;
using levin::TableDataModule;
using levin::TableDataOptions;
using levin::Value;
using levin::test::all;
using levin::test::error_of;
using levin::test::options_for;
using levin::test::predicted;
using levin::test::Ready;
using levin::test::write;

namespace {

/// A CSV file of 20 rows: x, 10 * x, class x % 3.
struct TableFile {
  TableFile() {
    std::ofstream file(path());
    file << "x,y,kind\n";
    for (int x = 0; x < 20; ++x) file << x << "," << 10 * x << "," << x % 3 << "\n";
  }
  std::filesystem::path path() const { return folder / "table.csv"; }
  levin::test::TemporaryFolder folder;
};

}  // namespace

TEST_CASE("a table is divided into training, validation and test data, each row once") {
  const TableFile file;
  TableDataOptions options = options_for(file.path());
  options.val_fraction = 0.2;
  options.test_fraction = 0.1;
  Ready data(options);
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
      // Nobody else knows which rows were drawn: samples are called by their lines. Training rows come shuffled.
      if (part > 0) REQUIRE(loaders[part]->sample_name(row) == file.path().string() + ":" + std::to_string(x + 2));
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
  Ready data(options);
  const Batch batch = all(data.train_dataloader());
  REQUIRE(batch["features"].sizes() == at::IntArrayRef{20, 2, 1});
  REQUIRE(batch["label"].equal(batch["features"].select(1, 0).squeeze(1) * 20));
  REQUIRE(data.val_dataloaders().empty());
  REQUIRE(data.test_dataloaders().empty());

  options.standardize = true;
  Ready standardized(options);
  const at::Tensor features = all(standardized.train_dataloader())["features"];
  REQUIRE(features.mean(0).abs().max().item<float>() < 1e-6f);
  REQUIRE((features.std(0, false) - 1).abs().max().item<float>() < 1e-6f);
  // Ranks compare what the file holds: means may differ in their last bit between processors.
  const auto fingerprint = standardized.train_dataloader()->data_fingerprint();
  CHECK(fingerprint.has_value());
  CHECK(fingerprint == data.train_dataloader()->data_fingerprint());
  options.scale = 0.25;
  Ready other(options);
  CHECK(other.train_dataloader()->data_fingerprint() != fingerprint);
}

TEST_CASE("features and labels may lie in two files, and the test data in two more") {
  TableDataOptions options = options_for(kFixtures / "images-idx3-ubyte");
  options.label_path = kFixtures / "labels-idx1-ubyte.gz";
  options.test_path = options.path;
  options.test_label_path = *options.label_path;
  options.val_fraction = 0;
  options.shape = {1, 2, 2};
  Ready data(options, Stage::kTest);
  const Batch test = all(data.test_dataloaders().at(0));
  REQUIRE(test["features"].equal(torch::arange(12, torch::kFloat).view({3, 1, 2, 2})));
  REQUIRE(test["label"].equal(torch::tensor({2, 0, 1}, torch::kLong)));
  REQUIRE(data.train_dataloader()->size() == 1);
}

TEST_CASE("validation and test data may have separate files, each with a loader") {
  const levin::test::TemporaryFolder folder;
  TableDataOptions options = options_for(write(folder, "train.csv", "1,0\n2,1\n3,0\n"));
  options.val_path = {write(folder, "a.csv", "4,1\n5,0\n"), write(folder, "b.csv", "6,1\n")};
  options.test_path = write(folder, "c.csv", "7,1\n");
  options.standardize = true;
  Ready data(options);
  CHECK(all(data.train_dataloader())["features"].size(0) == 3);
  const auto loaders = data.val_dataloaders();
  REQUIRE(loaders.size() == 2);
  const double deviation = std::sqrt(2.0 / 3);
  CHECK(torch::allclose(all(loaders[0])["features"].flatten(), torch::tensor({2.0f, 3.0f}) / deviation));
  CHECK(all(loaders[1])["label"].equal(torch::tensor({1}, torch::kLong)));
  CHECK(data.test_dataloaders().size() == 1);
  CHECK(data.predict_dataloaders().size() == 1);

  // As YAML has it.
  const levin::Value written = levin::write_options(options);
  CHECK(written.at("val_path").is_list());
  CHECK(written.at("test_path").is_string());
  CHECK(levin::read_options<TableDataOptions>(written).val_path == options.val_path);
  CHECK(levin::read_options<TableDataOptions>(levin::Value::Map{{"path", options.path.front().string()}}).val_path.empty());

  options.val_path = {write(folder, "a.csv", "4,1\n"), write(folder, "wide.csv", "6,6,1\n")};
  CHECK_THAT(error_of(options), Contains("val_path: a row of") && Contains("has 2 features"));
  options.val_path = {"missing.csv"};
  levin::Value missing = levin::write_options(options);
  CHECK_THROWS_WITH(levin::read_options<TableDataOptions>(missing), Contains("val_path") && Contains("missing.csv"));
}

TEST_CASE("what is learnt from the training data goes with the checkpoint, to whatever is tested or predicted then") {
  const levin::test::TemporaryFolder folder;
  TableDataOptions options = options_for(write(folder, "train.csv", "x,kind\n1,0\n3,1\n"));
  options.standardize = true;
  options.val_fraction = options.test_fraction = 0;
  TableDataModule trained(options);
  CHECK(trained.state_dict().is_null());
  trained.setup(Stage::kTrain);
  const levin::Value state = trained.state_dict();

  options.path = write(folder, "other.csv", "x,kind\n10,0\n30,1\n");
  options.predict_path = write(folder, "predict.csv", "x\n1\n2\n5\n");
  Ready data(options, Stage::kPredict);
  data.load_state_dict(state);
  const Batch batch = predicted(data);
  CHECK_FALSE(batch.contains("label"));
  CHECK(batch["features"].equal(torch::tensor({{-1.0f}, {0.0f}, {3.0f}})));
}

TEST_CASE("files to predict and to test have the features of the training data, the first with or without labels") {
  const levin::test::TemporaryFolder folder;
  const auto features = [&](bool predicts, const std::string& training, const std::string& text) {
    TableDataOptions options = options_for(write(folder, "train.csv", training));
    options.label_column = training.find("kind") == std::string::npos ? "1" : "kind";
    const std::filesystem::path file = write(folder, "other.csv", text);
    if (predicts) options.predict_path = file;
    if (!predicts) options.test_path = file;
    Ready data(options, predicts ? Stage::kPredict : Stage::kTest);
    return predicts ? predicted(data)["features"] : all(data.test_dataloaders().at(0))["features"];
  };
  const std::string named = "x,kind,y\n1,0,2\n3,1,4\n5,0,6\n7,1,8\n", plain = "1,0,2\n3,1,4\n";
  const std::vector<std::tuple<bool, std::string, std::string>> rows = {{true, named, "x,y\n5,6\n7,8\n"},
                                                                        {true, named, "x,kind,y\n5,0,6\n7,0,8\n"},
                                                                        {true, named, "5,6\n7,8\n"},
                                                                        {true, plain, "5,6\n7,8\n"},
                                                                        {true, plain, "5,0,6\n7,0,8\n"},
                                                                        {false, named, "x,kind,y\n5,0,6\n7,0,8\n"},
                                                                        {false, named, "y,kind,x\n6,0,5\n8,0,7\n"},
                                                                        {false, named, "5,0,6\n7,0,8\n"}};
  for (const auto& [predicts, training, text] : rows) {
    CAPTURE(predicts, training, text);
    CHECK(features(predicts, training, text).equal(torch::tensor({{5.0f, 6.0f}, {7.0f, 8.0f}})));
  }
  CHECK_THROWS_WITH(features(true, named, "x,z\n5,6\n"),
                    Contains("other.csv lacks 1 column of the training data") && Contains(": 'y'; it has") && Contains("'z'"));
  CHECK_THROWS_WITH(features(true, plain, "5\n"), Contains("has 1 features") && Contains("has 2"));
  CHECK_THROWS_WITH(features(false, named, "x,kind\n5,0\n"),
                    Contains("test_path: ") && Contains("other.csv lacks 1 column") && Contains("'y'"));
  CHECK_THROWS_WITH(features(false, "x,y,kind\n1,2,0\n3,4,1\n5,6,0\n7,8,1\n", "5,0\n"),
                    Contains("other.csv has no column '2'"));
}

TEST_CASE("labels may be texts, in the order of their alphabet, which a checkpoint stores") {
  const levin::test::TemporaryFolder folder;
  TableDataOptions options = options_for(write(folder, "train.csv", "1,cat\n2,ant\n3,\"bee, big\"\n4,ant\n"));
  options.val_fraction = options.test_fraction = 0;
  options.shuffle = false;
  Ready data(options);
  const Batch batch = all(data.train_dataloader());
  const at::Tensor order = batch["features"].squeeze(1).argsort();
  CHECK(batch["label"].index_select(0, order).equal(torch::tensor({2, 0, 1, 0}, torch::kLong)));
  CHECK(data.state_dict().at("classes") == levin::Value(levin::Value::List{"ant", "bee, big", "cat"}));

  // Fewer classes, other numbers: those of the checkpoint count.
  options.path = write(folder, "fewer.csv", "1,cat\n2,cat\n");
  Ready fewer(options, Stage::kTest);
  fewer.load_state_dict(data.state_dict());
  CHECK(all(fewer.train_dataloader())["label"].equal(torch::tensor({2, 2}, torch::kLong)));

  options.test_path = write(folder, "test.csv", "1,cow\n");
  CHECK_THAT(error_of(options), Contains("test.csv: the label 'cow' is not among the classes of the training data: 'cat'"));
  options.path = write(folder, "numbers.csv", "1,0\n2,1\n");
  CHECK_THAT(error_of(options), Contains("test.csv: its labels are texts, those of the training data are not"));
}

TEST_CASE("the data module that the documentation shows takes its statistics from a checkpoint") {
  const levin::test::TemporaryFolder folder;
  StandardizedRowsOptions options{.path = kFixtures / "big_endian.npy"};
  StandardizedRows trained(options);
  trained.setup(Stage::kTrain);
  levin::Value state = trained.state_dict();
  const at::Tensor before = predicted(trained)[0];
  CHECK(before.mean(0).abs().max().item<float>() < 1e-6f);
  state["mean"].as_list()[0] = state["mean"].as_list()[0].as_double() + state["deviation"].as_list()[0].as_double();
  StandardizedRows resumed(options);
  resumed.setup(Stage::kPredict);
  resumed.load_state_dict(state);
  CHECK(torch::allclose(predicted(resumed)[0].select(1, 0), before.select(1, 0) - 1));
}

TEST_CASE("the registry makes it by name from its options, with a sampler instead of shuffle, too") {
  const TableFile file;
  levin::Value args(levin::Value::Map{});
  args["path"] = file.path().string();
  args["label_column"] = -1;
  args["test_path"] = nullptr;
  args["sampler"] = "SequentialSampler";
  const auto& registry = levin::Registry<levin::DataModule>::instance();
  const auto data = registry.make("TableDataModule", args);
  data->setup(Stage::kTrain);
  CHECK(data->train_dataloader()->size() == 1);
  CHECK(data->hparams().at("batch_size").as_int() == 32);
  CHECK(data->hparams().at("sampler") == levin::Value("SequentialSampler"));
  TableDataOptions in_order = options_for(file.path());
  in_order.shuffle = false;
  CHECK(all(data->train_dataloader())["features"].equal(all(Ready(in_order).train_dataloader())["features"]));
  args["bach_size"] = 3;
  CHECK_THROWS_WITH(registry.make("TableDataModule", args), Contains("batch_size"));
}

namespace {

struct EvenNumbersOptions {
  std::int64_t length = 4;
  static void declare(levin::OptionList<EvenNumbersOptions>& options) {
    options.add("length", &EvenNumbersOptions::length, "Samples").min(1);
  }
};

struct EvenNumbers : levin::SampleDataset {
  using Options = EvenNumbersOptions;
  explicit EvenNumbers(Options given) : options(given) {}
  std::int64_t size() const override { return options.length; }
  Batch get_sample(std::int64_t index) const override { return torch::tensor(2 * index); }
  Options options;
};
LEVIN_REGISTER_DATASET(EvenNumbers, "0, 2, 4, …");

struct LastFirst : levin::Sampler {
  std::vector<std::int64_t> order(const levin::EpochKey& key) const override {
    std::vector<std::int64_t> order;
    for (std::int64_t i = key.dataset_size; i > 0; --i) order.push_back(i - 1);
    return order;
  }
  bool shuffles() const override { return false; }
};
LEVIN_REGISTER_SAMPLER(LastFirst, "Backwards");

std::vector<std::int64_t> numbers_of(const levin::LoaderPtr& loader) {
  std::vector<std::int64_t> numbers;
  loader->start_epoch(0);
  while (const auto batch = loader->next()) {
    for (std::int64_t i = 0; i < batch->batch_size(); ++i) numbers.push_back((*batch)[0][i].item<std::int64_t>());
  }
  return numbers;
}

using Numbers = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("datasets and a sampler by name give loaders, and one that is not registered is an error") {
  Value args(Value::Map{});
  args["train_dataset"]["class_path"] = "EvenNumbers";
  args["train_dataset"]["init_args"]["length"] = 3;
  args["test_dataset"] = "EvenNumbers";
  args["sampler"]["class_path"] = "LastFirst";
  args["batch_size"] = 2;
  const auto data = Registry<levin::DataModule>::instance().make("DatasetDataModule", args);
  CHECK(numbers_of(data->train_dataloader()) == Numbers{4, 2, 0});
  CHECK(data->val_dataloaders().empty());
  REQUIRE(data->test_dataloaders().size() == 1);
  CHECK(numbers_of(data->test_dataloaders()[0]) == Numbers{0, 2, 4, 6});
  CHECK(numbers_of(data->predict_dataloaders().at(0)) == Numbers{0, 2, 4, 6});
  CHECK(data->hparams().at("train_dataset").at("init_args").at("length") == Value(3));
  args["train_dataset"] = "OddNumbers";
  CHECK_THROWS_WITH(Registry<levin::DataModule>::instance().make("DatasetDataModule", args),
                    Contains("unknown dataset class 'OddNumbers'"));
}

TEST_CASE("datasets come shuffled or in order, as options say") {
  Value args(Value::Map{});
  args["batch_size"] = 7;
  const auto train_loader = [&args] {
    return Registry<levin::DataModule>::instance().make("DatasetDataModule", args)->train_dataloader();
  };
  CHECK(train_loader() == nullptr);
  args["train_dataset"]["class_path"] = "EvenNumbers";
  args["train_dataset"]["init_args"]["length"] = 100;
  Numbers in_order(100);
  for (std::int64_t index = 0; index < 100; ++index) in_order[static_cast<std::size_t>(index)] = 2 * index;
  CHECK(numbers_of(train_loader()) != in_order);
  args["shuffle"] = false;
  CHECK(numbers_of(train_loader()) == in_order);
  args["drop_last"] = true;
  CHECK(numbers_of(train_loader()).size() == 98);
}

TEST_CASE("a table has the facts that a module may fit itself to") {
  const TableFile file;
  TableDataOptions options = options_for(file.path());
  CHECK(TableDataModule(options).facts().features.empty());
  CHECK(Ready(options).facts().features == std::vector<std::int64_t>{2});
  CHECK(Ready(options).facts().classes == 3);
  options.shape = {1, 1, 2};
  CHECK(Ready(options).facts().features == options.shape);

  options.label_column = "x";  // 20 classes of 20 samples
  CHECK(Ready(options).facts().classes == 20);
  options.label_column = "y";  // up to 190
  CHECK_FALSE(Ready(options).facts().classes);
  options.task = levin::TableTask::kRegression;
  options.val_fraction = options.test_fraction = 0;
  const levin::DataFacts facts = Ready(options).facts();
  CHECK_FALSE(facts.classes);
  CHECK(facts.label_mean == Approx(95));
  CHECK(facts.label_deviation == Approx(std::sqrt(3325)));  // of 0, 10, … 190

  const levin::test::TemporaryFolder folder;
  CHECK(Ready(options_for(write(folder, "texts.csv", "1,cat\n2,dog\n3,cat\n4,eel\n"))).facts().classes == 3);
  CHECK_FALSE(Ready(options_for(write(folder, "signs.csv", "1,-1\n2,1\n3,1\n4,-1\n"))).facts().classes);
}
