#include "levin/data/dataset.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <set>

#include "levin/core/base/error.h"

using Catch::Matchers::Contains;
using Indices = std::vector<std::int64_t>;
using levin::Batch;

namespace {

std::shared_ptr<levin::TensorDataset> numbered_rows(std::int64_t size) {
  return std::make_shared<levin::TensorDataset>(
      Batch{{"x", torch::arange(2 * size, torch::kFloat).view({size, 2})}, {"label", torch::arange(size)}});
}

class Squares : public levin::SampleDataset {
 public:
  std::int64_t size() const override { return 100; }

 protected:
  Batch get_sample(std::int64_t index) const override {
    return {{"root", torch::tensor(index)}, {"square", torch::full({2}, static_cast<double>(index * index))}};
  }
};

class Ragged : public levin::SampleDataset {
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
  REQUIRE_THROWS_WITH(levin::TensorDataset(Batch{}), Contains("at least one tensor"));
  REQUIRE_THROWS_WITH(levin::TensorDataset(Batch{{"x", torch::zeros({3})}, {"label", torch::zeros({4})}}),
                      Contains("tensor 1 (\"label\") has 4 samples, the first tensor has 3"));
  REQUIRE_THROWS_WITH(levin::TensorDataset(Batch{{"x", torch::tensor(1)}}), Contains("no first dimension"));
  REQUIRE_THROWS_WITH(numbered_rows(5)->get_batch(Indices{1, 5}), Contains("index 5") && Contains("5 samples"));
  REQUIRE_THROWS_WITH(numbered_rows(5)->get_batch(Indices{-1}), Contains("index -1"));
}

TEST_CASE("SampleDataset stacks its samples") {
  const Batch batch = Squares().get_batch(Indices{4, 7});
  REQUIRE(batch["root"].equal(torch::tensor({4, 7}, torch::kLong)));
  REQUIRE(batch["square"].equal(torch::tensor({{16.0f, 16.0f}, {49.0f, 49.0f}})));
}

TEST_CASE("samples that do not stack are an error that names them") {
  REQUIRE_THROWS_AS(Ragged().get_batch(Indices{2, 2, 3}), levin::MisuseError);
  REQUIRE_THROWS_WITH(Ragged().get_batch(Indices{2, 2, 3}),
                      Contains("sample 2 of the batch") && Contains("\"text\" of shape [3]") && Contains("[2]"));
  const std::vector<Batch> samples{{{"a", torch::zeros({1})}}, {}};
  REQUIRE_THROWS_WITH(levin::stack_samples(samples), Contains("has 0 tensors, sample 0 has 1"));
}

TEST_CASE("TransformDataset changes whole batches") {
  const levin::TransformDataset doubled(numbered_rows(4), [](Batch batch) {
    batch.set("x", batch["x"] * 2);
    return batch;
  });
  REQUIRE(doubled.size() == 4);
  REQUIRE(doubled.get_batch(Indices{1})["x"].equal(torch::tensor({{4.0f, 6.0f}})));
  REQUIRE_THROWS_AS(levin::TransformDataset(nullptr, [](Batch batch) { return batch; }), levin::MisuseError);
  REQUIRE_THROWS_AS(levin::TransformDataset(numbered_rows(4), nullptr), levin::MisuseError);
}

TEST_CASE("Subset maps indices") {
  const levin::Subset subset(numbered_rows(10), {7, 2, 5});
  REQUIRE(subset.size() == 3);
  REQUIRE(subset.get_batch(Indices{2, 0})["label"].equal(torch::tensor({5, 7}, torch::kLong)));
  REQUIRE_THROWS_WITH(subset.get_batch(Indices{3}), Contains("index 3"));
  REQUIRE_THROWS_WITH(levin::Subset(numbered_rows(3), {0, 3}), Contains("index 3"));
}

// [list(p.indices) for p in torch.utils.data.random_split(range(n), parts, generator=torch.Generator().manual_seed(seed))]
TEST_CASE("random_split gives PyTorch's parts") {
  const auto indices = [](const std::vector<std::shared_ptr<levin::Subset>>& parts) {
    std::vector<Indices> lists;
    for (const auto& part : parts) lists.push_back(part->indices());
    return lists;
  };
  using Fractions = std::vector<double>;
  REQUIRE(indices(levin::random_split(numbered_rows(10), Fractions{0.5, 0.3, 0.2}, 42)) ==
          std::vector<Indices>{{2, 6, 1, 8, 4}, {5, 0, 9}, {3, 7}});
  REQUIRE(indices(levin::random_split(numbered_rows(11), Fractions{1.0 / 3, 1.0 / 3, 1.0 / 3}, 1)) ==
          std::vector<Indices>{{0, 10, 2, 3}, {7, 6, 4, 8}, {1, 9, 5}});
  REQUIRE(indices(levin::random_split(numbered_rows(23), Fractions{0.35, 0.35, 0.3}, 5)) ==
          std::vector<Indices>{{3, 11, 18, 8, 22, 21, 6, 16, 1}, {13, 7, 17, 15, 12, 14, 9, 20}, {0, 10, 2, 19, 4, 5}});
  REQUIRE(indices(levin::random_split(numbered_rows(6), Indices{2, 4}, 5)) == std::vector<Indices>{{5, 0}, {1, 3, 4, 2}});
}

TEST_CASE("random_split refuses parts that do not add up") {
  using Fractions = std::vector<double>;
  REQUIRE_THROWS_WITH(levin::random_split(numbered_rows(6), Indices{2, 3}, 0),
                      Contains("add up to 5") && Contains("6 samples"));
  REQUIRE_THROWS_WITH(levin::random_split(numbered_rows(6), Indices{2, 5}, 0), Contains("does not fit"));
  REQUIRE_THROWS_WITH(levin::random_split(numbered_rows(6), Indices{-1, 7}, 0), Contains("does not fit"));
  REQUIRE_THROWS_WITH(levin::random_split(numbered_rows(6), Fractions{0.5, 0.4}, 0), Contains("not to 1"));
  REQUIRE_THROWS_WITH(levin::random_split(numbered_rows(6), Fractions{1.5, -0.5}, 0), Contains("not between 0 and 1"));
}

TEST_CASE("a fingerprint is the same for the same data, however it lies in memory, and another for data that differs") {
  const auto fingerprint = [](const levin::Dataset& dataset) { return dataset.fingerprint().value(); };
  const torch::Tensor x = torch::arange(12, torch::kFloat).view({4, 3});
  const auto of = [&](const Batch& batch) { return fingerprint(levin::TensorDataset(batch)); };
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
  const std::uint64_t part = fingerprint(levin::Subset(whole, {1, 2, 3}));
  CHECK(fingerprint(levin::Subset(numbered_rows(10), {1, 2, 3})) == part);
  CHECK(fingerprint(levin::Subset(whole, {1, 2, 4})) != part);
  CHECK(fingerprint(levin::Subset(numbered_rows(11), {1, 2, 3})) != part);
  CHECK(fingerprint(levin::TransformDataset(whole, [](Batch batch) { return batch; })) == fingerprint(*whole));
  CHECK_FALSE(Squares().fingerprint());
  CHECK_FALSE(levin::Subset(std::make_shared<Squares>(), {1}).fingerprint());
}

TEST_CASE("a fingerprint reads a bounded number of elements, of every column and every part of the data") {
  // Each byte that is read would bring a page of these 4 GB, of which the machine has not all, into memory.
  const torch::Tensor big = torch::empty({1 << 20, 1024}, torch::kFloat);
  CHECK(levin::TensorDataset(big).fingerprint());

  const torch::Tensor rows = torch::zeros({100'000, 8});
  const std::uint64_t zeros = levin::TensorDataset(rows).fingerprint().value();
  for (int column = 0; column < 8; ++column) {
    torch::Tensor other = rows.clone();
    other.select(1, column).fill_(1);
    CHECK(levin::TensorDataset(other).fingerprint() != zeros);
  }
  torch::Tensor other = rows.clone();
  other.slice(0, 99'000).fill_(1);
  CHECK(levin::TensorDataset(other).fingerprint() != zeros);
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
  const std::uint64_t first = levin::TensorDataset(Batch(items)).fingerprint().value();
  items.back().second = torch::ones({4});
  CHECK(levin::TensorDataset(Batch(items)).fingerprint() != first);
  CHECK(levin::DataFingerprint().add("a").add("b").value() != levin::DataFingerprint().add("ab").value());
}
