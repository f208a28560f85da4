#include "levin/core/engine/loops/data_source.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

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

class WithOwnLoader final : public Module {
 public:
  LoaderPtr train_dataloader() override { return train; }
  LoaderPtr train = std::make_shared<ShardedLoader>();
};

}  // namespace

TEST_CASE("a data module's loaders come before all others") {
  RunBench bench;
  TwoShardedSets data;
  WithOwnLoader module;
  DataSource source(data);
  CHECK(source.data_module() == &data);
  CHECK(source.train(module, bench.setup, bench.hooks) == data.train);
  CHECK(source.evaluation(Stage::kValidate, module, bench.setup, bench.hooks) == LoaderList{data.validation});
  CHECK(source.evaluation(Stage::kTest, module, bench.setup, bench.hooks).empty());
}

TEST_CASE("loaders that were passed come before the module's own") {
  RunBench bench;
  WithOwnLoader module;
  const auto passed = std::make_shared<ShardedLoader>();
  CHECK(DataSource(passed, {}).train(module, bench.setup, bench.hooks) == passed);
  CHECK(DataSource(nullptr, {}).train(module, bench.setup, bench.hooks) == module.train);
}

TEST_CASE("training data is evened out as the options say, evaluation data never") {
  TrainerOptions options = quiet_options();
  options.uneven = Uneven::kDrop;
  RunBench bench(options);
  TwoShardedSets data;
  DataSource source(data);
  source.train(bench.module, bench.setup, bench.hooks);
  source.evaluation(Stage::kValidate, bench.module, bench.setup, bench.hooks);
  CHECK(data.train->shard.uneven == Uneven::kDrop);
  CHECK(data.validation->shard.uneven == Uneven::kKeep);
  CHECK_FALSE(data.train->shard.force_sequential);
}

TEST_CASE("overfit_batches keeps the training data in its order") {
  TrainerOptions options = quiet_options();
  options.overfit_batches = Limit(2);
  RunBench bench(options);
  TwoShardedSets data;
  DataSource(data).train(bench.module, bench.setup, bench.hooks);
  CHECK(data.train->shard.force_sequential);
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
  TrainerOptions options = quiet_options();
  options.log_file = folder / "log.txt";
  RunBench bench(options);
  Module module;
  DataSource(nullptr, {std::make_shared<Empty>()}).evaluation(Stage::kValidate, module, bench.setup, bench.hooks);
  std::ostringstream log;
  log << std::ifstream(folder / "log.txt").rdbuf();
  CHECK_THAT(log.str(), Catch::Contains("The validate loader is empty"));
}
