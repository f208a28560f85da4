#include "levin/data/data_loader.h"

#include <rapidcheck.h>
#include <torch/torch.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <future>
#include <iterator>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

#include "levin/core/base/error.h"
#include "levin/core/random/seed.h"
#include "levin/data/dataset.h"

using Catch::Matchers::Contains;
using Indices = std::vector<std::int64_t>;
using levin::Batch;
using levin::DataLoader;
using levin::DataLoaderOptions;
using levin::Uneven;

namespace {

std::shared_ptr<levin::TensorDataset> numbers(std::int64_t size) {
  return std::make_shared<levin::TensorDataset>(Batch{{"index", torch::arange(size)}});
}

/// The same, of which reading is work.
std::shared_ptr<levin::Dataset> worked_on(const std::shared_ptr<levin::Dataset>& dataset) {
  return std::make_shared<levin::TransformDataset>(dataset, [](Batch batch) { return batch; });
}

/// Throws at one sample.
class Faulty : public levin::SampleDataset {
 public:
  explicit Faulty(std::int64_t fault) : fault_(fault) {}
  std::int64_t size() const override { return 20; }

 protected:
  Batch get_sample(std::int64_t index) const override {
    if (index == fault_) throw std::out_of_range("picture 7.png is cut off");
    return Batch::of({torch::tensor(index)});
  }

 private:
  std::int64_t fault_;
};

class Backwards : public levin::Sampler {
 public:
  Indices order(const levin::EpochKey& key) const override {
    Indices indices;
    for (std::int64_t i = key.dataset_size; i > 0; --i) indices.push_back(i - 1);
    return indices;
  }
  bool shuffles() const override { return false; }
};

class Wrong : public Backwards {
 public:
  std::int64_t size(std::int64_t) const override { return 3; }
};

class OutOfRange : public Backwards {
 public:
  Indices order(const levin::EpochKey& key) const override { return Indices(static_cast<std::size_t>(key.dataset_size), 99); }
};

std::vector<Indices> read_epoch(DataLoader& loader, std::int64_t epoch) {
  loader.start_epoch(epoch);
  std::vector<Indices> batches;
  while (auto batch = loader.next()) {
    const at::Tensor indices = (*batch)[0];
    const auto* data = indices.const_data_ptr<std::int64_t>();
    batches.emplace_back(data, data + indices.numel());
  }
  return batches;
}

}  // namespace

TEST_CASE("batches follow one another in order, and the last may be short") {
  DataLoader loader(numbers(7), {.batch_size = 3});
  REQUIRE(loader.size() == 3);
  REQUIRE_FALSE(loader.shuffles());
  REQUIRE(read_epoch(loader, 0) == std::vector<Indices>{{0, 1, 2}, {3, 4, 5}, {6}});
  REQUIRE_FALSE(loader.next());
  DataLoader dropping(numbers(7), {.batch_size = 3, .drop_last = true});
  REQUIRE(dropping.size() == 2);
  REQUIRE(read_epoch(dropping, 0) == std::vector<Indices>{{0, 1, 2}, {3, 4, 5}});
}

// torch.randperm(10, generator=torch.Generator().manual_seed(seed + epoch)) of seeds 0 and 3
TEST_CASE("shuffling follows the seed and the epoch") {
  DataLoader loader(numbers(10), {.batch_size = 4, .shuffle = true, .seed = 0});
  REQUIRE(loader.shuffles());
  REQUIRE(read_epoch(loader, 0) == std::vector<Indices>{{4, 1, 7, 5}, {3, 9, 0, 8}, {6, 2}});
  REQUIRE(read_epoch(loader, 3) == std::vector<Indices>{{6, 0, 3, 7}, {8, 5, 1, 9}, {2, 4}});
  // Without a seed of its own, a loader takes the run's.
  DataLoader by_default(numbers(10), {.batch_size = 4, .shuffle = true});
  by_default.set_shard({.default_seed = 3});
  REQUIRE(read_epoch(by_default, 0) == read_epoch(loader, 3));
  loader.set_shard({.default_seed = 77});
  REQUIRE(read_epoch(loader, 3) == read_epoch(by_default, 0));
  // Outside of a Trainer that is seed_everything's.
  for (const std::uint64_t seed : {3, 0}) {
    levin::seed_everything(seed);
    DataLoader outside(numbers(10), {.batch_size = 4, .shuffle = true});
    REQUIRE((read_epoch(outside, 0) == read_epoch(loader, 3)) == (seed == 3));
  }
}

TEST_CASE("force_sequential overrides shuffle and sampler") {
  for (const auto& options : {DataLoaderOptions{.batch_size = 2, .shuffle = true},
                              DataLoaderOptions{.batch_size = 2, .sampler = std::make_shared<Backwards>()}}) {
    DataLoader loader(numbers(4), options);
    REQUIRE(read_epoch(loader, 1) != std::vector<Indices>{{0, 1}, {2, 3}});
    loader.set_shard({.force_sequential = true});
    REQUIRE(read_epoch(loader, 1) == std::vector<Indices>{{0, 1}, {2, 3}});
    REQUIRE_FALSE(loader.shuffles());
  }
}

TEST_CASE("a sampler of the user's own is divided, and not shuffled") {
  DataLoader loader(numbers(5), {.batch_size = 2, .sampler = std::make_shared<Backwards>()});
  REQUIRE(read_epoch(loader, 4) == std::vector<Indices>{{4, 3}, {2, 1}, {0}});
  loader.set_shard({.rank = 1, .world_size = 2, .uneven = Uneven::kPad});
  REQUIRE(read_epoch(loader, 4) == std::vector<Indices>{{3, 1}, {4}});
}

TEST_CASE("a sampler that does not keep its word is an error") {
  DataLoader wrong(numbers(5), {.sampler = std::make_shared<Wrong>()});
  REQUIRE_THROWS_WITH(wrong.start_epoch(2), Contains("gave 5 samples for epoch 2") && Contains("has 3"));
  DataLoader outside(numbers(5), {.sampler = std::make_shared<OutOfRange>()});
  REQUIRE_THROWS_WITH(outside.start_epoch(0), Contains("index 99") && Contains("5 samples"));
}

TEST_CASE("a loader without a dataset, an epoch or a rank of its world is an error") {
  REQUIRE_THROWS_AS(DataLoader(nullptr), levin::MisuseError);
  DataLoader loader(numbers(5));
  REQUIRE_THROWS_WITH(loader.next(), Contains("start_epoch"));
  REQUIRE_THROWS_WITH(loader.set_shard({.rank = 3, .world_size = 2}), Contains("rank 3 of 2"));
}

TEST_CASE("the order does not depend on the number of workers, and an empty dataset has epochs without batches") {
  for (const std::int64_t size : {0, 101}) {
    DataLoader reference(numbers(size), {.batch_size = 4, .shuffle = true, .seed = 5});
    CHECK(reference.size() == (size + 3) / 4);
    for (const int workers : {1, 2, 4}) {
      DataLoader loader(worked_on(numbers(size)), {.batch_size = 4, .shuffle = true, .num_workers = workers, .seed = 5});
      for (const std::int64_t epoch : {0, 1, 2, 0}) REQUIRE(read_epoch(loader, epoch) == read_epoch(reference, epoch));
    }
  }
}

TEST_CASE("1, 2 or 4 ranks with one global batch size see the same global batches, one epoch after another") {
  REQUIRE(rc::check([] {
    const Uneven uneven = *rc::gen::element(Uneven::kKeep, Uneven::kPad, Uneven::kDrop);
    // What pad repeats and drop leaves out depends on the number of ranks, where they do not divide the samples.
    const auto size = *rc::gen::inRange<std::int64_t>(0, 20) * 4 + (uneven == Uneven::kKeep ? *rc::gen::inRange(0, 4) : 0);
    const auto quarter = *rc::gen::inRange<std::int64_t>(1, 5);
    const auto seed = *rc::gen::inRange<std::int64_t>(0, 1000);
    const auto first_epoch = *rc::gen::inRange<std::int64_t>(0, 1000);
    const bool drop_last = size >= 4 * quarter && *rc::gen::arbitrary<bool>();
    const auto options = [&](int world_size, int workers) {
      return DataLoaderOptions{.batch_size = 4 * quarter / world_size,
                               .shuffle = true,
                               .num_workers = workers,
                               .drop_last = drop_last,
                               .seed = seed};
    };
    DataLoader alone(numbers(size), options(1, 0));
    for (const int world_size : {2, 4}) {
      std::vector<std::unique_ptr<DataLoader>> loaders;
      for (int rank = 0; rank < world_size; ++rank) {
        loaders.push_back(std::make_unique<DataLoader>(numbers(size), options(world_size, rank % 2)));
        loaders.back()->set_shard({.rank = rank, .world_size = world_size, .uneven = uneven});
      }
      for (const std::int64_t epoch : {first_epoch, first_epoch + 1}) {
        const std::vector<Indices> expected = read_epoch(alone, epoch);
        std::vector<std::size_t> rows(expected.size());
        for (std::size_t rank = 0; rank < loaders.size(); ++rank) {
          const std::vector<Indices> batches = read_epoch(*loaders[rank], epoch);
          RC_ASSERT(loaders[rank]->size() == static_cast<std::int64_t>(batches.size()));
          RC_ASSERT(batches.size() <= expected.size());
          for (std::size_t step = 0; step < batches.size(); ++step) {
            // Sample i of rank r is sample i * world_size + r of the global batch.
            for (std::size_t i = 0; i < batches[step].size(); ++i) {
              RC_ASSERT(batches[step][i] == expected[step].at(i * loaders.size() + rank));
            }
            rows[step] += batches[step].size();
          }
        }
        for (std::size_t step = 0; step < expected.size(); ++step) RC_ASSERT(rows[step] == expected[step].size());
      }
    }
  }));
}

namespace {

/// Tells who reads.
class Watched final : public levin::Dataset {
 public:
  explicit Watched(std::optional<std::int64_t> bytes) : bytes_(bytes) {}
  std::int64_t size() const override { return 16; }
  Batch get_batch(std::span<const std::int64_t> indices) const override {
    if (std::this_thread::get_id() == caller_) ++own_;
    return {{"index", torch::zeros({static_cast<std::int64_t>(indices.size())})}};
  }
  std::optional<std::int64_t> bytes_to_copy() const override { return bytes_; }
  int own() const { return own_; }

 private:
  std::optional<std::int64_t> bytes_;
  std::thread::id caller_ = std::this_thread::get_id();
  mutable std::atomic<int> own_ = 0;
};

int read_by_caller(const std::shared_ptr<Watched>& dataset, std::int64_t batch_size) {
  DataLoader loader(dataset, {.batch_size = batch_size, .num_workers = 2});
  loader.start_epoch(0);
  while (loader.next()) continue;
  return dataset->own();
}

}  // namespace

TEST_CASE("small batches that are only copied are read without workers, others by them") {
  const auto data = std::make_shared<levin::TensorDataset>(
      Batch{{"image", torch::zeros({10, 3})}, {"label", torch::zeros({10}, torch::kLong)}});
  CHECK(data->bytes_to_copy() == 3 * 4 + 8);
  CHECK(levin::Subset(data, {1, 2}).bytes_to_copy() == 20);
  CHECK(worked_on(data)->bytes_to_copy() == std::nullopt);
  CHECK(read_by_caller(std::make_shared<Watched>(1000), 4) == 4);
  CHECK(read_by_caller(std::make_shared<Watched>(1000000), 4) == 0);
  CHECK(read_by_caller(std::make_shared<Watched>(std::nullopt), 4) == 0);
}

TEST_CASE("workers that do not persist end with the epoch, and come back with the next") {
  // Of this process, by the kernel.
  const auto threads = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}); };
  const auto data = worked_on(numbers(10));
  DataLoader loader(data, {.batch_size = 3, .num_workers = 2, .persistent_workers = false});
  DataLoader lasting(data, {.batch_size = 3, .num_workers = 2});
  const auto before = threads();
  for (const std::int64_t epoch : {0, 1}) {
    loader.start_epoch(epoch);
    CHECK(threads() == before + 2);
    std::size_t batches = 0;
    while (loader.next()) ++batches;
    CHECK(batches == 4);
    CHECK_FALSE(loader.next());
    CHECK(threads() == before);
  }
  CHECK(read_epoch(lasting, 0).size() == 4);
  CHECK(threads() == before + 2);
}

TEST_CASE("an error of the dataset names the batch, the epoch and the samples, and the loader continues") {
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(std::make_shared<Faulty>(13), {.batch_size = 5, .num_workers = workers});
    loader.start_epoch(6);
    REQUIRE(loader.next());
    REQUIRE(loader.next());
    try {
      loader.next();
      FAIL("no exception");
    } catch (const levin::Error& error) {
      REQUIRE_THAT(error.what(), Contains("batch 2 of epoch 6") && Contains("samples 10, 11, 12, 13, … 14") &&
                                     Contains("picture 7.png is cut off"));
      REQUIRE_THROWS_AS(std::rethrow_if_nested(error), std::out_of_range);
    }
    REQUIRE((*loader.next())[0][0].item<std::int64_t>() == 15);
    REQUIRE_FALSE(loader.next());
  }
}

TEST_CASE("an error of torch comes without its stack, and one of levin keeps its exit code") {
  const auto failing = [](auto&& fail) {
    return std::make_shared<levin::TransformDataset>(numbers(4), [fail](Batch batch) {
      fail();
      return batch;
    });
  };
  DataLoader torch_error(failing([] { torch::zeros({2, 3}).view({5}); }));
  torch_error.start_epoch(0);
  REQUIRE_THROWS_WITH(torch_error.next(), Contains("invalid for input of size 6") && !Contains("frame #"));
  DataLoader config_error(failing([] { throw levin::ConfigError("no such column"); }));
  config_error.start_epoch(0);
  try {
    config_error.next();
    FAIL("no exception");
  } catch (const levin::Error& error) {
    REQUIRE(error.exit_code() == 2);
  }
}

TEST_CASE("workers use one thread each, and leave the others' number of threads alone") {
  const int threads = at::get_num_threads();
  std::mutex mutex;
  std::vector<int> seen;
  const auto dataset = std::make_shared<levin::TransformDataset>(numbers(8), [&](Batch batch) {
    const std::lock_guard lock(mutex);
    seen.push_back(at::get_num_threads());
    return batch;
  });
  at::set_num_threads(3);
  DataLoader loader(dataset, {.num_workers = 2});
  read_epoch(loader, 0);
  REQUIRE(seen == std::vector<int>(8, 1));
  REQUIRE(at::get_num_threads() == 3);
  REQUIRE(std::async(std::launch::async, [] { return at::get_num_threads(); }).get() == 3);
  at::set_num_threads(threads);
}

TEST_CASE("pinned memory is asked for only where there is a GPU") {
  DataLoader loader(numbers(4), {.batch_size = 4});
  loader.set_pin_memory(true);
  loader.start_epoch(0);
  const Batch batch = *loader.next();
  REQUIRE(batch[0].is_pinned() == at::hasCUDA());
  // What the user says comes before what the run asks for.
  DataLoader pageable(numbers(4), {.batch_size = 4, .pin_memory = false});
  pageable.set_pin_memory(true);
  pageable.start_epoch(0);
  REQUIRE_FALSE((*pageable.next())[0].is_pinned());
}

TEST_CASE("a dataset of a size below 0, and drop_last that leaves nothing, are errors that say so") {
  struct Wrong final : levin::Dataset {
    std::int64_t size() const override { return -3; }
    Batch get_batch(std::span<const std::int64_t>) const override { return {}; }
  };
  DataLoader wrong(std::make_shared<Wrong>());
  CHECK_THROWS_WITH(wrong.set_shard({}), Contains("its size is -3") && Contains("Dataset::size()"));
  CHECK_THROWS_WITH(wrong.start_epoch(0), Contains("its size is -3"));
  DataLoader dropping(numbers(5), {.batch_size = 4, .drop_last = true});
  CHECK_NOTHROW(dropping.set_shard({}));
  for (const int rank : {0, 1}) {
    CHECK_THROWS_WITH(dropping.set_shard({.rank = rank, .world_size = 2}),
                      Contains("drop_last leaves out all 5 samples, which make no whole batch of 4 on 2 ranks"));
  }
}
