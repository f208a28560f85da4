#include "levin/core/engine/loops/data_source.h"

#include <catch2/catch.hpp>

#include "support/file_text.h"
#include "support/fixed_loader.h"
#include "support/run_bench.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

/// Remembers which part of the data it was told to read.
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

TEST_CASE("training data is evened out and keeps its order as the options say, evaluation data never") {
  for (const bool overfits : {false, true}) {
    RunBench bench(quiet({.overfit_batches = overfits ? Limit(2) : Limit(0.0), .uneven = Uneven::kDrop}));
    TwoShardedSets data;
    DataSource source(data);
    source.train(bench.module, bench.setup, bench.hooks);
    source.evaluation(Stage::kValidate, bench.module, bench.setup, bench.hooks);
    CHECK(data.train->shard.uneven == Uneven::kDrop);
    CHECK(data.validation->shard.uneven == Uneven::kKeep);
    CHECK(data.train->shard.force_sequential == overfits);
  }
}

TEST_CASE("an empty loader among several is an error that names the hook") {
  RunBench bench;
  DataSource source(nullptr, {std::make_shared<ShardedLoader>(), nullptr});
  CHECK_THROWS_WITH(source.evaluation(Stage::kTest, bench.module, bench.setup, bench.hooks),
                    "test_dataloaders gave an empty loader among its loaders.");
}

TEST_CASE("an empty loader of an evaluation is told, with what it is for") {
  struct Empty final : FixedLoader {
    Empty() : FixedLoader({}) {}
    std::optional<SampleShare> sample_share() const override { return SampleShare{}; }
  };
  const TemporaryFolder folder;
  RunBench bench(quiet({.log_file = folder / "log.txt"}));
  Module module;
  DataSource(nullptr, {std::make_shared<Empty>()}).evaluation(Stage::kValidate, module, bench.setup, bench.hooks);
  CHECK_THAT(read_text(folder / "log.txt"), Catch::Contains("The validate loader is empty"));
}
