#include "levin/data/dataset.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <vector>

#include "levin/core/random/seed.h"
#include "levin/data/data_loader.h"

using namespace levin;

namespace {

/// Each sample is its index and two draws.
class Augmented final : public SampleDataset {
 public:
  std::int64_t size() const override { return 24; }

 protected:
  Batch get_sample(std::int64_t index) const override {
    at::Generator random = sample_generator(index);
    return Batch{{"index", torch::tensor(index)}, {"draws", torch::rand({2}, random, torch::kDouble)}};
  }
};

/// The same as a function on batches.
DatasetPtr transformed() {
  const auto indices = std::make_shared<TensorDataset>(Batch{{"index", torch::arange(24)}});
  return std::make_shared<TransformDataset>(indices, [](Batch batch, std::span<const std::int64_t> samples) {
    std::vector<at::Tensor> draws;
    for (const std::int64_t index : samples) draws.push_back(torch::rand({2}, sample_generator(index), torch::kDouble));
    batch.set("draws", torch::stack(draws));
    return batch;
  });
}

using Draws = std::map<std::int64_t, std::pair<double, double>>;

void read(DataLoader& loader, Draws& draws) {
  while (const auto batch = loader.next()) {
    for (std::int64_t row = 0; row < batch->batch_size(); ++row) {
      const at::Tensor of_row = (*batch)["draws"][row];
      draws[(*batch)["index"][row].item<std::int64_t>()] = {of_row[0].item<double>(), of_row[1].item<double>()};
    }
  }
}

Draws read_epoch(const DatasetPtr& dataset, std::int64_t epoch, int ranks, int workers, std::int64_t first = 0) {
  Draws draws;
  for (int rank = 0; rank < ranks; ++rank) {
    DataLoader loader(dataset, {.batch_size = 4 / ranks, .shuffle = true, .num_workers = workers, .seed = 7});
    loader.set_shard({.rank = rank, .world_size = ranks});
    loader.start_epoch_at(epoch, first);
    read(loader, draws);
  }
  return draws;
}

}  // namespace

TEST_CASE("a sample's random numbers depend on seed, epoch and index alone") {
  const auto dataset = std::make_shared<Augmented>();
  const Draws expected = read_epoch(dataset, 3, 1, 0);
  REQUIRE(expected.size() == 24);
  for (const int ranks : {1, 2, 4}) {
    for (const int workers : {0, 1, 3}) {
      CAPTURE(ranks, workers);
      CHECK(read_epoch(dataset, 3, ranks, workers) == expected);
      CHECK(read_epoch(transformed(), 3, ranks, workers) == expected);
    }
  }
  // What is left of an epoch is augmented as in the whole.
  const Draws rest = read_epoch(dataset, 3, 2, 1, 8);
  REQUIRE(rest.size() == 16);
  for (const auto& [index, draws] : rest) CHECK(expected.at(index) == draws);
}

TEST_CASE("each sample, each epoch and each seed has random numbers of its own") {
  std::set<double> seen;
  for (const std::int64_t seed : {0, 1, 2}) {
    for (const std::int64_t epoch : {0, 1, 2}) {
      const SampleSeedScope scope(seed, epoch);
      for (const std::int64_t index : {0, 1, 2, 3})
        seen.insert(torch::rand({}, sample_generator(index), torch::kDouble).item<double>());
    }
  }
  CHECK(seen.size() == 36);
}

TEST_CASE("reading draws nothing from LibTorch's own generator") {
  torch::manual_seed(1);
  const double expected = torch::rand({}).item<double>();
  torch::manual_seed(1);
  read_epoch(std::make_shared<Augmented>(), 0, 1, 0);
  CHECK(torch::rand({}).item<double>() == expected);
}

TEST_CASE("outside of a loader a sample's random numbers are those of epoch 0 and seed_everything") {
  seed_everything(5);
  const auto draw = [] { return torch::rand({}, sample_generator(2), torch::kDouble).item<double>(); };
  const double outside = draw();
  {
    const SampleSeedScope scope(5, 0);
    CHECK(draw() == outside);
    const SampleSeedScope inner(5, 1);
    CHECK(draw() != outside);
  }
  CHECK(draw() == outside);
}
