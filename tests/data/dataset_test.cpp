#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/batch.h"
#include "levin/core/random/seed.h"
#include "levin/data/data_loader.h"
#include "levin/data/dataset.h"

using Catch::Matchers::Contains;
using namespace levin;

using Indices = std::vector<std::int64_t>;

namespace {

std::shared_ptr<TensorDataset> numbered_rows(std::int64_t size) {
  return std::make_shared<TensorDataset>(
      Batch{{"x", torch::arange(2 * size, torch::kFloat).view({size, 2})}, {"label", torch::arange(size)}});
}

class Squares : public SampleDataset {
 public:
  std::int64_t size() const override { return 100; }

 protected:
  Batch get_sample(std::int64_t index) const override {
    return {{"root", torch::tensor(index)}, {"square", torch::full({2}, static_cast<double>(index * index))}};
  }
};

class Ragged : public SampleDataset {
 public:
  std::int64_t size() const override { return 10; }

 protected:
  Batch get_sample(std::int64_t index) const override { return {{"text", torch::zeros({index})}}; }
};

}  // namespace

TEST_CASE("TensorDataset gives the rows of an index list, in its order, with repeats") {
  const Indices indices{3, 0, 3};
  const Batch batch = numbered_rows(5)->get_batch(indices);
  REQUIRE(batch["x"].equal(torch::tensor({{6.0f, 7.0f}, {0.0f, 1.0f}, {6.0f, 7.0f}})));
  REQUIRE(batch["label"].equal(torch::tensor({3, 0, 3}, torch::kLong)));
}

TEST_CASE("TensorDataset refuses what is no dataset") {
  REQUIRE_THROWS_WITH(TensorDataset(Batch{}), Contains("at least one tensor"));
  REQUIRE_THROWS_WITH(TensorDataset(Batch{{"x", torch::zeros({3})}, {"label", torch::zeros({4})}}),
                      Contains("tensor 1 (\"label\") has 4 samples, the first tensor has 3"));
  REQUIRE_THROWS_WITH(TensorDataset(Batch{{"x", torch::tensor(1)}}), Contains("no first dimension"));
  REQUIRE_THROWS_WITH(numbered_rows(5)->get_batch(Indices{1, 5}), Contains("index 5") && Contains("5 samples"));
  REQUIRE_THROWS_WITH(numbered_rows(5)->get_batch(Indices{-1}), Contains("index -1"));
}

TEST_CASE("SampleDataset stacks its samples") {
  const Batch batch = Squares().get_batch(Indices{4, 7});
  REQUIRE(batch["root"].equal(torch::tensor({4, 7}, torch::kLong)));
  REQUIRE(batch["square"].equal(torch::tensor({{16.0f, 16.0f}, {49.0f, 49.0f}})));
}

TEST_CASE("samples that do not stack are an error that names them") {
  REQUIRE_THROWS_AS(Ragged().get_batch(Indices{2, 2, 3}), MisuseError);
  REQUIRE_THROWS_WITH(Ragged().get_batch(Indices{2, 2, 3}),
                      Contains("sample 2 of the batch") && Contains("\"text\" of shape [3]") && Contains("[2]"));
  const std::vector<Batch> samples{{{"a", torch::zeros({1})}}, {}};
  REQUIRE_THROWS_WITH(stack_samples(samples), Contains("has 0 tensors, sample 0 has 1"));
}

TEST_CASE("TransformDataset changes whole batches") {
  const TransformDataset doubled(numbered_rows(4), [](Batch batch) {
    batch.set("x", batch["x"] * 2);
    return batch;
  });
  REQUIRE(doubled.size() == 4);
  REQUIRE(doubled.get_batch(Indices{1})["x"].equal(torch::tensor({{4.0f, 6.0f}})));
  REQUIRE_THROWS_AS(TransformDataset(nullptr, [](Batch batch) { return batch; }), MisuseError);
  REQUIRE_THROWS_AS(TransformDataset(numbered_rows(4), nullptr), MisuseError);
}

TEST_CASE("Subset maps indices") {
  const Subset subset(numbered_rows(10), {7, 2, 5});
  REQUIRE(subset.size() == 3);
  REQUIRE(subset.get_batch(Indices{2, 0})["label"].equal(torch::tensor({5, 7}, torch::kLong)));
  REQUIRE_THROWS_WITH(subset.get_batch(Indices{3}), Contains("index 3"));
  REQUIRE_THROWS_WITH(Subset(numbered_rows(3), {0, 3}), Contains("index 3"));
}

// [list(p.indices) for p in torch.utils.data.random_split(range(n), parts, generator=torch.Generator().manual_seed(seed))]
TEST_CASE("random_split gives PyTorch's parts") {
  const auto indices = [](const std::vector<std::shared_ptr<Subset>>& parts) {
    std::vector<Indices> lists;
    for (const auto& part : parts) lists.push_back(part->indices());
    return lists;
  };
  using Fractions = std::vector<double>;
  REQUIRE(indices(random_split(numbered_rows(10), Fractions{0.5, 0.3, 0.2}, 42)) ==
          std::vector<Indices>{{2, 6, 1, 8, 4}, {5, 0, 9}, {3, 7}});
  REQUIRE(indices(random_split(numbered_rows(11), Fractions{1.0 / 3, 1.0 / 3, 1.0 / 3}, 1)) ==
          std::vector<Indices>{{0, 10, 2, 3}, {7, 6, 4, 8}, {1, 9, 5}});
  REQUIRE(indices(random_split(numbered_rows(23), Fractions{0.35, 0.35, 0.3}, 5)) ==
          std::vector<Indices>{{3, 11, 18, 8, 22, 21, 6, 16, 1}, {13, 7, 17, 15, 12, 14, 9, 20}, {0, 10, 2, 19, 4, 5}});
  REQUIRE(indices(random_split(numbered_rows(6), Indices{2, 4}, 5)) == std::vector<Indices>{{5, 0}, {1, 3, 4, 2}});
}

TEST_CASE("random_split refuses parts that do not add up") {
  using Fractions = std::vector<double>;
  REQUIRE_THROWS_WITH(random_split(numbered_rows(6), Indices{2, 3}, 0), Contains("add up to 5") && Contains("6 samples"));
  REQUIRE_THROWS_WITH(random_split(numbered_rows(6), Indices{2, 5}, 0), Contains("does not fit"));
  REQUIRE_THROWS_WITH(random_split(numbered_rows(6), Indices{-1, 7}, 0), Contains("does not fit"));
  REQUIRE_THROWS_WITH(random_split(numbered_rows(6), Fractions{0.5, 0.4}, 0), Contains("not to 1"));
  REQUIRE_THROWS_WITH(random_split(numbered_rows(6), Fractions{1.5, -0.5}, 0), Contains("not between 0 and 1"));
}

TEST_CASE("a fingerprint is the same for the same data, however it lies in memory, and another for data that differs") {
  const auto fingerprint = [](const Dataset& dataset) { return dataset.fingerprint().value(); };
  const torch::Tensor x = torch::arange(12, torch::kFloat).view({4, 3});
  const auto of = [&](const Batch& batch) { return fingerprint(TensorDataset(batch)); };
  const std::uint64_t first = of({{"x", x}});
  CHECK(of({{"x", x.clone()}}) == first);
  CHECK(of({{"x", x.t().contiguous().t()}}) == first);
  torch::Tensor other = x.clone();
  other[3][2] = -1;
  const std::set<std::uint64_t> all = {first,
                                       of({{"y", x}}),
                                       of({{"x", other}}),
                                       of({{"x", x.view({4, 3, 1})}}),
                                       of({{"x", x.to(torch::kInt)}}),
                                       of({{"x", x}, {"y", x}}),
                                       of({{"x", x.slice(0, 0, 3)}})};
  CHECK(all.size() == 7);

  const auto whole = numbered_rows(10);
  const std::uint64_t part = fingerprint(Subset(whole, {1, 2, 3}));
  CHECK(fingerprint(Subset(numbered_rows(10), {1, 2, 3})) == part);
  CHECK(fingerprint(Subset(whole, {1, 2, 4})) != part);
  CHECK(fingerprint(Subset(numbered_rows(11), {1, 2, 3})) != part);
  CHECK(fingerprint(TransformDataset(whole, [](Batch batch) { return batch; })) == fingerprint(*whole));
  CHECK_FALSE(Squares().fingerprint());
  CHECK_FALSE(Subset(std::make_shared<Squares>(), {1}).fingerprint());
}

TEST_CASE("a fingerprint reads a bounded number of elements, of every column and every part of the data") {
  // Each byte that is read would bring a page of these 4 GB, of which the machine has not all, into memory.
  const torch::Tensor big = torch::empty({1 << 20, 1024}, torch::kFloat);
  CHECK(TensorDataset(big).fingerprint());

  const torch::Tensor rows = torch::zeros({100'000, 8});
  const std::uint64_t zeros = TensorDataset(rows).fingerprint().value();
  for (int column = 0; column < 8; ++column) {
    torch::Tensor other = rows.clone();
    other.select(1, column).fill_(1);
    CHECK(TensorDataset(other).fingerprint() != zeros);
  }
  torch::Tensor other = rows.clone();
  other.slice(0, 99'000).fill_(1);
  CHECK(TensorDataset(other).fingerprint() != zeros);
}

TEST_CASE("a fingerprint takes tensors of any type and layout, and many of them") {
  std::vector<Batch::Item> items;
  for (const auto type : {torch::kBool, torch::kHalf, torch::kBFloat16, torch::kComplexFloat, torch::kUInt16}) {
    items.emplace_back(std::to_string(items.size()), torch::zeros({4, 2}).to(type));
  }
  items.emplace_back("expanded", torch::ones({1, 2}).expand({4, 2}));
  items.emplace_back("sparse", torch::eye(4).to_sparse());
  items.emplace_back("no elements", torch::zeros({4, 0}));
  for (int tensor = 0; tensor < 3000; ++tensor) items.emplace_back("small " + std::to_string(tensor), torch::zeros({4}));
  const std::uint64_t first = TensorDataset(Batch(items)).fingerprint().value();
  items.back().second = torch::ones({4});
  CHECK(TensorDataset(Batch(items)).fingerprint() != first);
  CHECK(DataFingerprint().add("a").add("b").value() != DataFingerprint().add("ab").value());
}

namespace {

/// What LibTorch knows of an accelerator that is no GPU of NVIDIA's: it counts how often page-locked memory is asked for.
struct ToyHooks : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(at::DeviceIndex) const override { return true; }
  at::Allocator* getPinnedMemoryAllocator() const override {
    ++asked;
    return c10::GetCPUAllocator();
  }
  mutable int asked = 0;
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, c10::impl::NoOpDeviceGuardImpl<at::kPrivateUse1>);

}  // namespace

TEST_CASE("a batch holds tensors by position and by name") {
  const at::Tensor image = torch::rand({4, 8, 8});
  const at::Tensor label = torch::arange(4);
  const Batch batch{{"image", image}, {"label", label}};
  REQUIRE(batch.size() == 2);
  REQUIRE(batch[0].is_same(image));
  REQUIRE(batch["label"].is_same(label));
  REQUIRE(batch.contains("image"));
  REQUIRE_FALSE(batch.contains("mask"));
  REQUIRE(batch.batch_size() == 4);
}

TEST_CASE("a tensor that is missing is an error that names the others") {
  const Batch batch{{"image", torch::rand({2})}, {"label", torch::rand({2})}};
  REQUIRE_THROWS_AS(batch["imgae"], MisuseError);
  REQUIRE_THROWS_WITH(batch["imgae"], Contains("\"imgae\"") && Contains("\"image\", \"label\""));
  REQUIRE_THROWS_WITH(batch[2], Contains("batch[2]") && Contains("\"image\", \"label\""));
  REQUIRE_THROWS_WITH(batch[-1], Contains("batch[-1]"));
  REQUIRE_THROWS_WITH(Batch()["image"], Contains("the batch is empty"));
  REQUIRE_THROWS_WITH(Batch::of({torch::rand({1})})["image"], Contains("1 tensors without names"));
}

TEST_CASE("set adds a tensor or replaces the one of the same name") {
  Batch batch;
  batch.set("x", torch::zeros({3}));
  batch.set("y", torch::zeros({3}));
  const at::Tensor ones = torch::ones({3});
  batch.set("x", ones);
  REQUIRE(batch.size() == 2);
  REQUIRE(batch[0].is_same(ones));
  batch.set("", ones);
  batch.set("", ones);
  REQUIRE(batch.size() == 4);
}

TEST_CASE("batch_size is the first dimension of the first tensor that has one") {
  REQUIRE(Batch().batch_size() == 0);
  REQUIRE(Batch::of({torch::tensor(3.0)}).batch_size() == 1);
  REQUIRE(Batch::of({torch::tensor(3.0), torch::zeros({5, 2})}).batch_size() == 5);
  REQUIRE(Batch::of({at::Tensor(), torch::zeros({7})}).batch_size() == 7);
  REQUIRE(Batch::of({torch::zeros({0, 4})}).batch_size() == 0);
}

TEST_CASE("a change of type touches floating-point tensors only") {
  const Batch batch{{"x", torch::ones({2})}, {"label", torch::arange(2)}, {"nothing", at::Tensor()}};
  const Batch half = batch.to(at::kBFloat16);
  REQUIRE(half["x"].scalar_type() == at::kBFloat16);
  REQUIRE(half["label"].is_same(batch["label"]));
  REQUIRE_FALSE(half["nothing"].defined());
}

TEST_CASE("moving to the device where a tensor is shares it, and another device gets a copy") {
  const Batch batch{{"x", torch::ones({2})}};
  REQUIRE(batch.to(at::Device(at::kCPU))["x"].is_same(batch["x"]));
  REQUIRE(batch.to(at::Device(at::kMeta))["x"].is_meta());
}

TEST_CASE("page-locked memory is that of the accelerator that LibTorch knows, whichever it is") {
  if (at::hasCUDA()) return;  // it knows one at a time
  const Batch batch{{"image", torch::arange(4)}};
  CHECK(batch.pin_memory()[0].is_same(batch[0]));
  static ToyHooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
  c10::register_privateuse1_backend("toy");
  const Batch pinned = batch.pin_memory();
  CHECK(hooks.asked > 0);
  CHECK_FALSE(pinned[0].is_same(batch[0]));
  CHECK(pinned["image"].equal(batch["image"]));
}

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

TEST_CASE("each sample, each epoch and each seed has separate random numbers") {
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
