#include "levin/core/train/run_data.h"

#include <catch2/catch.hpp>
#include <set>

#include "levin/core/base/error.h"
#include "levin/core/run/rank_agreement.h"
#include "support/run_bench.h"
#include "support/shown_messages.h"

using namespace levin;
using namespace levin::test;

namespace {

/// Remembers which part of the data it was assigned.
class ShardedLoader final : public FixedLoader {
 public:
  ShardedLoader() : FixedLoader({Batch{{"x", torch::ones({1})}}}) {}
  void set_shard(const Shard& given) override { shard = given; }
  Shard shard;
};

class TwoShardedSets final : public DataModule {
 public:
  LoaderPtr train_dataloader() override { return train; }
  LoaderList val_dataloaders() override { return {validation}; }
  std::shared_ptr<ShardedLoader> train = std::make_shared<ShardedLoader>();
  std::shared_ptr<ShardedLoader> validation = std::make_shared<ShardedLoader>();
};

}  // namespace

TEST_CASE("a data module's loaders come before all others") {
  RunBench bench;
  TwoShardedSets data;
  Module module;
  DataSource source(data);
  CHECK(source.data_module() == &data);
  CHECK(source.train(module, bench.setup, bench.hooks) == data.train);
  CHECK(source.evaluation(Stage::kValidate, module, bench.setup, bench.hooks) == LoaderList{data.validation});
  CHECK(source.evaluation(Stage::kTest, module, bench.setup, bench.hooks).empty());
}

TEST_CASE("training data is evened out and has its order as the options say, evaluation data never") {
  for (const bool overfits : {false, true}) {
    RunBench bench(quiet({.overfit_batches = overfits ? Limit(2) : Limit(0.0), .uneven = Uneven::kDrop}));
    TwoShardedSets data;
    DataSource source(data);
    source.train(bench.module, bench.setup, bench.hooks);
    source.evaluation(Stage::kValidate, bench.module, bench.setup, bench.hooks);
    CHECK(data.train->shard.uneven == Uneven::kDrop);
    CHECK(data.validation->shard.uneven == Uneven::kKeep);
    CHECK(data.train->shard.force_sequential == overfits);
    CHECK(data.validation->shard.force_sequential == overfits);
  }
}

TEST_CASE("an empty loader among several is an error that names the hook") {
  RunBench bench;
  DataSource source(nullptr, {std::make_shared<ShardedLoader>(), nullptr});
  CHECK_THROWS_WITH(source.evaluation(Stage::kTest, bench.module, bench.setup, bench.hooks),
                    "test_dataloaders gave an empty loader among its loaders.");
}

TEST_CASE("an empty loader of an evaluation gives a warning with its stage") {
  struct Empty final : FixedLoader {
    Empty() : FixedLoader({}) {}
    std::optional<SampleShare> sample_share() const override { return SampleShare{}; }
  };
  RunBench bench;
  const auto evaluation = [&] {
    DataSource(nullptr, {std::make_shared<Empty>()}).evaluation(Stage::kValidate, bench.module, bench.setup, bench.hooks);
  };
  CHECK_THAT(warned_by(evaluation), Catch::Contains("The validate loader is empty"));
}

TEST_CASE("a batch's fingerprint is of its names, shapes, types and values") {
  const at::Tensor rows = torch::arange(6, torch::kFloat).reshape({3, 2});
  const std::int64_t fingerprint = batch_fingerprint(Batch{{"x", rows}});
  CHECK(batch_fingerprint(Batch{{"x", rows.clone()}}) == fingerprint);
  CHECK(batch_fingerprint(Batch{{"x", rows.t().contiguous().t()}}) == fingerprint);
  at::Tensor other = rows.clone();
  other[2][1] = 5.5;
  const std::set<std::int64_t> all = {fingerprint,
                                      batch_fingerprint({}),
                                      batch_fingerprint(Batch{{"y", rows}}),
                                      batch_fingerprint(Batch{{"x", rows.reshape({2, 3})}}),
                                      batch_fingerprint(Batch{{"x", rows.to(torch::kDouble)}}),
                                      batch_fingerprint(Batch{{"x", at::Tensor()}}),
                                      batch_fingerprint(Batch{{"x", rows}, {"y", rows}}),
                                      batch_fingerprint(Batch{{"x", other}})};
  CHECK(all.size() == 8);
  CHECK_FALSE(all.contains(0));
}

TEST_CASE("batches of sparse tensors, which may be of one kind and hold other values, are not compared") {
  const at::Tensor rows = torch::eye(3);
  for (const at::Tensor& sparse : {rows.to_sparse(), rows.to_sparse_csr(), rows.to_sparse_csc()}) {
    const Batch batch{{"x", sparse}, {"y", rows}};
    CHECK(batch_fingerprint(batch) == 0);
    CHECK(first_batch_mark(batch, std::nullopt) == 0);
  }
}

TEST_CASE("the mark of a first batch is of its values and its samples, and says whether they are known") {
  const Batch zeros{{"x", torch::zeros({2, 2})}};
  CHECK(first_batch_mark(zeros, std::nullopt) % 2 != 0);
  using Samples = std::vector<std::int64_t>;
  const std::int64_t mark = first_batch_mark(zeros, Samples{0, 1});
  CHECK(first_batch_mark(zeros, Samples{0, 1}) == mark);
  const std::set<std::int64_t> marks = {mark, first_batch_mark(zeros, Samples{2, 3}),
                                        first_batch_mark(Batch{{"x", torch::ones({2, 2})}}, Samples{0, 1})};
  CHECK(marks.size() == 3);
  for (const std::int64_t known : marks) CHECK((known % 2 == 0 && known != 0));
}

TEST_CASE("ranks that all begin with the same samples are an error; those that do not, or do not say, are none") {
  CHECK_THROWS_WITH(check_different_batches({8, 8}, 3),
                    Catch::Contains("All 2 ranks begin epoch 3 with the same training batch") &&
                        Catch::Contains("2 times as slowly") && Catch::Contains("use_distributed_sampler") &&
                        Catch::Contains("allow_same_batches"));
  CHECK_THROWS_AS(check_different_batches({8, 8, 8}, 0), MisuseError);
  CHECK_NOTHROW(check_different_batches({7, 7}, 0));  // equal, of samples that are not known: a warning
  CHECK_NOTHROW(check_different_batches({8}, 0));
  CHECK_NOTHROW(check_different_batches({8, 8, 10}, 0));
  CHECK_NOTHROW(check_different_batches({0, 0}, 0));
  CHECK_NOTHROW(check_different_batches({8, 0}, 0));
}

TEST_CASE("ranks that make a step of different numbers of batches are an error that names ranks and numbers") {
  const auto votes_of = [](const std::vector<std::int32_t>& numbers) {
    std::vector<Votes> votes;
    for (const std::int32_t number : numbers) votes.push_back(unpack_votes(pack(Votes{.accumulate_grad_batches = number})));
    return votes;
  };
  CHECK_NOTHROW(check_same_accumulation(votes_of({4})));
  CHECK_NOTHROW(check_same_accumulation(votes_of({65535, 65535, 65535})));
  CHECK_THROWS_AS(check_same_accumulation(votes_of({1, 2})), DesyncError);
  CHECK_THROWS_WITH(check_same_accumulation(votes_of({4, 1, 4, 8, 1})),
                    Catch::Contains("1 on ranks 1, 4; 4 on ranks 0, 2; 8 on rank 3."));
}

TEST_CASE("a loader that knows whether it has a batch is not read ahead, and has one when it says so") {
  struct Knowing final : BatchLoader {
    std::optional<std::int64_t> size() const override { return std::nullopt; }
    void start_epoch(std::int64_t) override { read = 0; }
    std::optional<bool> has_next() const override { return read < claimed; }
    std::optional<Batch> next() override {
      return read < 2 ? std::optional(Batch{{"x", torch::full({1}, ++read)}}) : std::nullopt;
    }
    int read = 0, claimed = 2;
  } loader;
  LoaderCursor cursor(loader, std::nullopt);
  cursor.start_epoch(0);
  CHECK(loader.read == 0);
  for (int number = 1; number <= 2; ++number) {
    REQUIRE(cursor.has_next());
    CHECK(cursor.take()["x"].item<int>() == number);
    CHECK(loader.read == number);
    CHECK_FALSE(cursor.before_reading());
  }
  CHECK_FALSE(cursor.has_next());
  loader.claimed = 3;
  REQUIRE(cursor.has_next());
  CHECK_THROWS_WITH(cursor.take(), Catch::Contains("has_next() said that there is a batch"));
}
