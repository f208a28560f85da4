// Batches that a BatchSampler makes: on any number of ranks and workers, and from any place within an epoch.
#include <ATen/core/Tensor.h>
#include <torch/types.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <numeric>
#include <set>

#include "levin/core/base/error.h"
#include "levin/data/data_loader.h"
#include "levin/data/dataset.h"

using Catch::Matchers::Contains;
using levin::Batch;
using levin::DataLoader;
using levin::LengthBatchSampler;
using Indices = std::vector<std::int64_t>;

namespace {

/// 40 samples of 1 to 9 tokens.
const Indices& lengths() {
  static const Indices lengths = [] {
    Indices made;
    for (std::int64_t sample = 0; sample < 40; ++sample) made.push_back(1 + sample * sample % 9);
    return made;
  }();
  return lengths;
}

DataLoader loader(bool shuffle, int workers = 0, std::int64_t seed = 5) {
  const auto numbers = std::make_shared<levin::TensorDataset>(Batch{{"index", torch::arange(std::ssize(lengths()))}});
  return DataLoader(numbers,
                    {.num_workers = workers,
                     .seed = seed,
                     .batch_sampler = std::make_shared<LengthBatchSampler>(
                         lengths(), levin::LengthBatchOptions{.max_tokens = 20, .max_samples = 7, .shuffle = shuffle})});
}

std::vector<Indices> rest_of(DataLoader& loader) {
  std::vector<Indices> batches;
  while (const auto batch = loader.next()) {
    const at::Tensor index = (*batch)["index"].contiguous();
    const auto* data = index.const_data_ptr<std::int64_t>();
    batches.emplace_back(data, data + index.numel());
  }
  return batches;
}

std::vector<Indices> epoch_of(DataLoader&& loader, std::int64_t epoch) {
  loader.start_epoch(epoch);
  return rest_of(loader);
}

}  // namespace

TEST_CASE("batches of similar lengths stay within their bounds, and hold each sample once") {
  const bool shuffle = GENERATE(false, true);
  const std::vector<Indices> batches = epoch_of(loader(shuffle), 3);
  Indices all;
  for (const Indices& batch : batches) {
    std::int64_t longest = 0;
    for (const std::int64_t sample : batch) longest = std::max(longest, lengths()[static_cast<std::size_t>(sample)]);
    CHECK(longest * std::ssize(batch) <= 20);
    CHECK(batch.size() <= 7);
    all.insert(all.end(), batch.begin(), batch.end());
  }
  std::ranges::sort(all);
  Indices expected(lengths().size());
  std::iota(expected.begin(), expected.end(), 0);
  CHECK(all == expected);
  CHECK(loader(shuffle).size() == std::ssize(batches));
  CHECK(loader(shuffle).batch_size() == std::nullopt);
}

TEST_CASE("batches depend on seed and epoch, not on workers") {
  const std::vector<Indices> batches = epoch_of(loader(true), 3);
  CHECK(epoch_of(loader(true, 3), 3) == batches);
  CHECK(epoch_of(loader(true), 4) != batches);
  CHECK(epoch_of(loader(true, 0, 6), 3) != batches);
  CHECK(epoch_of(loader(false), 3) == epoch_of(loader(false), 4));
}

TEST_CASE("ranks share the batches of an epoch, and read the rest of it from where any number of ranks had come") {
  const std::vector<Indices> all = epoch_of(loader(true), 2);
  for (const int before : {1, 2, 3}) {
    for (const int ranks : {1, 2, 3}) {
      DataLoader first = loader(true);
      first.set_shard({.rank = 0, .world_size = before, .uneven = levin::Uneven::kKeep});
      first.start_epoch(2);
      const auto position = first.samples_before(2);
      REQUIRE(position == 2 * before);
      std::vector<Indices> left(all.begin() + 2 * before, all.end());
      std::vector<Indices> read;
      for (int rank = 0; rank < ranks; ++rank) {
        DataLoader second = loader(true);
        second.set_shard({.rank = rank, .world_size = ranks, .uneven = levin::Uneven::kKeep});
        second.start_epoch_at(2, *position);
        const std::vector<Indices> own = rest_of(second);
        CHECK(second.batches_from(*position) == std::ssize(own));
        read.insert(read.end(), own.begin(), own.end());
      }
      std::ranges::sort(left);
      std::ranges::sort(read);
      CHECK(read == left);
    }
  }
}

TEST_CASE("batches that only make ranks even are known") {
  const std::vector<Indices> all = epoch_of(loader(false), 0);
  const int ranks = static_cast<int>(all.size()) - 1;  // so that all but one of them repeat a batch
  DataLoader last = loader(false);
  last.set_shard({.rank = ranks - 1, .world_size = ranks, .uneven = levin::Uneven::kPad});
  last.start_epoch(0);
  CHECK(rest_of(last).size() == 2);
  const auto samples = last.epoch_samples(2);
  REQUIRE(samples);
  const auto own = std::ssize(all[static_cast<std::size_t>(ranks - 1)]);
  CHECK(Indices(samples->begin(), samples->begin() + own) == all[static_cast<std::size_t>(ranks - 1)]);
  CHECK(std::all_of(samples->begin() + own, samples->end(), [](std::int64_t sample) { return sample == -1; }));
  CHECK(std::ssize(*samples) > own);
}

TEST_CASE("batch samplers that cannot be followed are refused") {
  using Options = levin::LengthBatchOptions;
  CHECK_THROWS_WITH(LengthBatchSampler({1, 2}, Options{}), Contains("give max_tokens, max_samples, or both"));
  CHECK_THROWS_WITH(LengthBatchSampler({1, 9}, Options{.max_tokens = 8}), Contains("a sample has length 9"));
  const auto numbers = std::make_shared<levin::TensorDataset>(Batch{{"index", torch::arange(3)}});
  const auto sampler = std::make_shared<LengthBatchSampler>(Indices{1, 2}, Options{.max_samples = 2});
  CHECK_THROWS_WITH(epoch_of(DataLoader(numbers, {.batch_sampler = sampler}), 0),
                    Contains("2 lengths for a dataset of 3 samples"));
  CHECK_THROWS_WITH(DataLoader(numbers, {.batch_size = 2, .batch_sampler = sampler}), Contains("leave out batch_size"));
  struct Wrong : levin::BatchSampler {
    std::vector<Indices> batches(const levin::EpochKey&) const override { return {{0, 7}}; }
    std::int64_t size(std::int64_t) const override { return 1; }
    bool shuffles() const override { return false; }
  };
  CHECK_THROWS_WITH(epoch_of(DataLoader(numbers, {.batch_sampler = std::make_shared<Wrong>()}), 0),
                    Contains("index 7 is not in a dataset of 3 samples"));
}
