#include "levin/data/combined_loader.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/data/data_loader.h"
#include "levin/data/dataset.h"
#include "support/fixed_loader.h"

using namespace levin;
using Catch::Matchers::Contains;
using Texts = std::vector<std::string>;

namespace {

/// Samples are their indices, counted.
class Counted final : public Dataset {
 public:
  explicit Counted(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  Batch get_batch(std::span<const std::int64_t> indices) const override {
    reads += static_cast<std::int64_t>(indices.size());
    return Batch{{"x", torch::tensor(std::vector<std::int64_t>(indices.begin(), indices.end()))}};
  }
  mutable std::int64_t reads = 0;

 private:
  std::int64_t size_;
};

LoaderPtr numbers(std::int64_t size, std::int64_t batch_size, bool shuffle = false) {
  return std::make_shared<DataLoader>(std::make_shared<Counted>(size),
                                      DataLoaderOptions{.batch_size = batch_size, .shuffle = shuffle, .seed = 3});
}

std::string text_of(const Batch& batch) {
  std::string text;
  for (const auto& [name, tensor] : batch.items()) {
    text += (text.empty() ? "" : " ") + name + "=";
    for (std::int64_t row = 0; row < tensor.size(0); ++row)
      text += (row > 0 ? "," : "") + std::to_string(tensor[row].item<std::int64_t>());
  }
  return text;
}

Texts read(BatchLoader& loader) {
  Texts batches;
  while (const auto batch = loader.next()) batches.push_back(text_of(*batch));
  return batches;
}

Texts read_epoch(CombinedLoader& loader, std::int64_t epoch = 0) {
  loader.start_epoch(epoch);
  return read(loader);
}

CombinedLoader combined(CombineMode mode, bool shuffle = false) {
  return CombinedLoader({{"a", numbers(4, 2, shuffle)}, {"b", numbers(5, 1, shuffle)}}, mode);
}

constexpr CombineMode kModes[] = {CombineMode::kMinSize, CombineMode::kMaxSize, CombineMode::kMaxSizeCycle,
                                  CombineMode::kSequential};

}  // namespace

TEST_CASE("each mode ends an epoch of several loaders as Lightning's does") {
  CombinedLoader min_size = combined(CombineMode::kMinSize);
  CHECK(min_size.size() == 2);
  CHECK(read_epoch(min_size) == Texts{"a.x=0,1 b.x=0", "a.x=2,3 b.x=1"});
  CombinedLoader max_size = combined(CombineMode::kMaxSize);
  CHECK(max_size.size() == 5);
  CHECK(read_epoch(max_size) == Texts{"a.x=0,1 b.x=0", "a.x=2,3 b.x=1", "b.x=2", "b.x=3", "b.x=4"});
  CombinedLoader cycle = combined(CombineMode::kMaxSizeCycle);
  CHECK(cycle.size() == 5);
  CHECK(read_epoch(cycle) == Texts{"a.x=0,1 b.x=0", "a.x=2,3 b.x=1", "a.x=0,1 b.x=2", "a.x=2,3 b.x=3", "a.x=0,1 b.x=4"});
  CombinedLoader sequential = combined(CombineMode::kSequential);
  CHECK(sequential.size() == 7);
  CHECK(read_epoch(sequential) == Texts{"a.x=0,1", "a.x=2,3", "b.x=0", "b.x=1", "b.x=2", "b.x=3", "b.x=4"});
  // And another epoch after it.
  CHECK(read_epoch(sequential).size() == 7);
  CHECK(sequential.next() == std::nullopt);
}

TEST_CASE("loaders that do not know their length end an epoch where they end") {
  const auto unknown = [](std::int64_t batches) { return test::FixedLoader::of_rows(batches, 2, /*knows_size=*/false); };
  const auto lengths = [&](CombineMode mode) {
    CombinedLoader loader({{"a", unknown(2)}, {"b", unknown(3)}}, mode);
    CHECK_FALSE(loader.size());
    CHECK_FALSE(loader.samples_before(1));
    CHECK_FALSE(loader.batches_from(0));
    loader.start_epoch(0);
    std::vector<std::size_t> tensors;
    while (const auto batch = loader.next()) tensors.push_back(batch->size());
    return tensors;
  };
  using Counts = std::vector<std::size_t>;
  CHECK(lengths(CombineMode::kMinSize) == Counts{2, 2});
  CHECK(lengths(CombineMode::kMaxSize) == Counts{2, 2, 1});
  CHECK(lengths(CombineMode::kMaxSizeCycle) == Counts{2, 2, 2});
  CHECK(lengths(CombineMode::kSequential) == Counts{1, 1, 1, 1, 1});
}

TEST_CASE("a loader that begins anew within an epoch has another order") {
  CombinedLoader loader({{"few", numbers(8, 8, true)}, {"many", numbers(3, 1)}}, CombineMode::kMaxSizeCycle);
  const Texts batches = read_epoch(loader);
  REQUIRE(batches.size() == 3);
  const auto few = [](const std::string& batch) { return batch.substr(0, batch.find(" many")); };
  CHECK(few(batches[0]) != few(batches[1]));
  CHECK(few(batches[1]) != few(batches[2]));
  CHECK(read_epoch(loader) == batches);
  CHECK(read_epoch(loader, 1) != batches);
}

TEST_CASE("an epoch of several loaders goes on where it was, on as many ranks, without reading what is done") {
  for (const CombineMode mode : kModes) {
    for (const int ranks : {1, 2}) {
      for (int rank = 0; rank < ranks; ++rank) {
        const auto few = std::make_shared<Counted>(9);
        const auto make = [&] {
          std::vector<NamedLoader> loaders = {
              {"a", std::make_shared<DataLoader>(few, DataLoaderOptions{.batch_size = 1, .shuffle = true})},
              {"b", numbers(21, mode == CombineMode::kMinSize || mode == CombineMode::kMaxSizeCycle ? 2 : 1, true)}};
          auto loader = std::make_unique<CombinedLoader>(std::move(loaders), mode);
          loader->set_shard({.rank = rank, .world_size = ranks});
          return loader;
        };
        const auto whole = make();
        const Texts expected = read_epoch(*whole, 4);
        for (std::int64_t done = 0; done < static_cast<std::int64_t>(expected.size()); ++done) {
          CAPTURE(choice_name(mode), ranks, rank, done);
          const auto place = whole->samples_before(done);
          REQUIRE(place);
          const auto resumed = make();
          CHECK(resumed->batches_from(*place) == static_cast<std::int64_t>(expected.size()) - done);
          resumed->start_epoch_at(4, *place);
          few->reads = 0;
          CHECK(read(*resumed) == Texts(expected.begin() + done, expected.end()));
          CHECK(few->reads <= static_cast<std::int64_t>(expected.size()) - done);
          // A second interruption is counted from the epoch's start too.
          CHECK(resumed->samples_before(1) == whole->samples_before(done + 1));
        }
      }
    }
  }
}

TEST_CASE("where batches have no one size, several loaders cannot tell their place") {
  CHECK_FALSE(combined(CombineMode::kMaxSize).samples_before(1));
  CHECK_FALSE(combined(CombineMode::kSequential).batch_size());
}

TEST_CASE("ranks share an epoch of several loaders, and go on with it in other numbers") {
  const auto samples = [](int ranks, std::int64_t place, std::int64_t batches) {
    std::map<char, std::multiset<std::int64_t>> seen;
    for (int rank = 0; rank < ranks; ++rank) {
      CombinedLoader loader({{"a", numbers(16, 4 / ranks, true)}, {"b", numbers(32, 8 / ranks, true)}},
                            CombineMode::kMaxSizeCycle);
      loader.set_shard({.rank = rank, .world_size = ranks});
      loader.start_epoch_at(0, place);
      for (std::int64_t index = 0; index < batches; ++index) {
        const auto batch = loader.next();
        if (!batch) break;
        for (const auto& [name, tensor] : batch->items()) {
          for (std::int64_t row = 0; row < tensor.size(0); ++row) seen[name[0]].insert(tensor[row].item<std::int64_t>());
        }
      }
      if (place == 0) CHECK(loader.samples_before(batches) == batches * 4);
    }
    return seen;
  };
  const auto alone = samples(1, 0, 100);
  CHECK(alone.at('a').size() == 16);
  CHECK(alone.at('b').size() == 32);
  for (const int ranks : {2, 4}) {
    CHECK((samples(ranks, 0, 100) == alone));
    for (const std::int64_t done : {1, 2, 3}) {
      CAPTURE(ranks, done);
      CHECK((samples(ranks, 0, done) == samples(1, 0, done)));
      CHECK((samples(ranks, done * 4, 100) == samples(1, done * 4, 100)));
    }
  }
}

TEST_CASE("loaders that cannot be combined are refused, by name") {
  CHECK_THROWS_WITH(CombinedLoader({}), Contains("at least one loader"));
  CHECK_THROWS_WITH(CombinedLoader({{"a", nullptr}}), Contains("'a' is a null pointer"));
  CHECK_THROWS_WITH(CombinedLoader({{"", numbers(1, 1)}}), Contains("is empty"));
  CHECK_THROWS_WITH(CombinedLoader({{"a", numbers(1, 1)}, {"a", numbers(1, 1)}}), Contains("'a' is given twice"));
  CombinedLoader unstarted({{"a", numbers(1, 1)}});
  CHECK_THROWS_WITH(unstarted.next(), Contains("start_epoch"));
}

TEST_CASE("what a run asks of a loader is that of all of them") {
  CombinedLoader loader({{"a", numbers(5, 2)}, {"b", numbers(7, 3, true)}});
  loader.set_shard({.rank = 0, .world_size = 2, .uneven = Uneven::kPad});
  CHECK(loader.batch_size() == 2);
  CHECK(loader.shuffles());
  CHECK(loader.num_workers() == 0);
  const auto share = loader.sample_share();
  REQUIRE(share);
  CHECK(share->all == 12);
  CHECK(share->mine == 7);
  CHECK(share->evened_out == 2);
  CHECK(share->ranks == 2);
  Batch unnamed = Batch::of({torch::ones({1}, torch::kLong)});
  CombinedLoader positions({{"a", std::make_shared<test::FixedLoader>(std::vector<Batch>{unnamed})}});
  positions.start_epoch(0);
  CHECK(positions.next()->contains("a.0"));
}
