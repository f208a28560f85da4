#include "levin/data/dataset_data_module.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "levin/core/base/error.h"
#include "levin/core/options/registry.h"
#include "levin/data/data_loader.h"
#include "levin/data/dataset.h"

using levin::Batch;
using levin::DatasetDataModule;
using levin::DatasetDataOptions;
using levin::Registry;
using levin::Value;

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

TEST_CASE("datasets and a sampler by name give loaders") {
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
}

TEST_CASE("datasets as objects, in a new order or as they are") {
  const auto dataset = std::make_shared<levin::TensorDataset>(Batch(torch::arange(100)));
  DatasetDataOptions options{.train_dataset = std::shared_ptr<levin::Dataset>(dataset), .batch_size = 7};
  CHECK(numbers_of(DatasetDataModule(options).train_dataloader()) != numbers_of(std::make_shared<levin::DataLoader>(dataset)));
  options.shuffle = false;
  CHECK(numbers_of(DatasetDataModule(options).train_dataloader()) == numbers_of(std::make_shared<levin::DataLoader>(dataset)));
  options.drop_last = true;
  CHECK(numbers_of(DatasetDataModule(options).train_dataloader()).size() == 98);
  CHECK(DatasetDataModule(DatasetDataOptions{}).train_dataloader() == nullptr);
}

TEST_CASE("a dataset that is not registered is an error") {
  Value args(Value::Map{});
  args["train_dataset"] = "OddNumbers";
  CHECK_THROWS_WITH(Registry<levin::DataModule>::instance().make("DatasetDataModule", args),
                    Catch::Contains("unknown dataset class 'OddNumbers'"));
}
