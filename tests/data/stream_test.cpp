#include "levin/data/stream.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <random>

#include "levin/data/data_loader.h"
#include "levin/optim/optimizers.h"
#include "support/recording.h"
#include "support/sums.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

/// Three batches of a random number and the number of the batch.
Stream three(const StreamOptions& options = {}) {
  return stream(
      [made = 0](Random& rng) mutable -> std::optional<Batch> {
        if (made == 3) made = 0;
        ++made;
        const auto noise = torch::rand({1}, rng);
        const auto number = static_cast<double>(std::uniform_int_distribution<int>(1, 1'000'000)(rng));
        return Batch{{"noise", noise}, {"number", torch::full({1}, number)}};
      },
      options);
}

std::vector<double> numbers(Stream& loader, std::int64_t epoch, int rank = 0, int batches = 4) {
  loader.set_shard({.rank = rank, .world_size = 2, .default_seed = 7});
  loader.start_epoch(epoch);
  std::vector<double> all;
  for (int batch = 0; batch < batches; ++batch) {
    const auto next = loader.next();
    if (!next) break;
    all.push_back((*next)["noise"].item<double>());
    all.push_back((*next)["number"].item<double>());
  }
  return all;
}

struct Follows : Module {
  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
    seen.push_back(batch[0].item<double>());
    if (save_at == batch_idx && !file.empty()) trainer().save_checkpoint(file);
    return (weight * batch[0]).sum();
  }
  OptimizerSetups configure_optimizers() override { return levin::SGD(parameters(), 0.5); }

  at::Tensor weight = register_parameter("weight", torch::zeros({1}));
  std::vector<double> seen;
  std::int64_t save_at = 2;
  std::filesystem::path file;
};

}  // namespace

TEST_CASE("a stream draws other numbers in each epoch and on each rank, and the same ones again") {
  Stream loader = three();
  CHECK_FALSE(loader.size());
  const auto first = numbers(loader, 0);
  CHECK(first.size() == 8);
  CHECK(numbers(loader, 0) == first);
  Stream again = three();
  CHECK(numbers(again, 0) == first);
  CHECK(numbers(loader, 1) != first);
  CHECK(numbers(loader, 0, /*rank=*/1) != first);
  Stream seeded = three({.seed = 8});
  CHECK(numbers(seeded, 0) != first);
  CHECK_THROWS_AS(stream(nullptr), MisuseError);
  loader.set_shard({.world_size = 2, .force_sequential = true, .default_seed = 7});
  loader.start_epoch(5);
  CHECK((*loader.next())["noise"].item<double>() == first[0]);
}

TEST_CASE("an epoch ends where the function gives no batch, and the next one begins anew") {
  int made = 0;
  Stream loader = stream([&](auto& rng) -> std::optional<Batch> {
    if (++made % 3 == 0) return std::nullopt;
    return Batch(torch::rand({2}, rng));
  });
  for (int epoch = 0; epoch < 2; ++epoch) {
    loader.start_epoch(epoch);
    CHECK(loader.next());
    CHECK(loader.next());
    CHECK_FALSE(loader.next());
    CHECK_FALSE(loader.next());
  }
  CHECK(made == 6);
}

TEST_CASE("a run on a stream resumes within an epoch exactly; one that acts is not asked for what is done") {
  const bool acts = GENERATE(false, true);
  const TemporaryFolder folder;
  int calls = 0;
  const auto source = [&]() -> LoaderPtr {
    calls = 0;
    return stream(
        [&](auto& rng) -> std::optional<Batch> {
          ++calls;
          return Batch(torch::rand({1}, rng) + 1);
        },
        {.acts = acts, .seed = 3});
  };
  const TrainerOptions options{.max_epochs = 2, .limit_train_batches = 5, .quiet = true};
  Follows whole;
  whole.file = folder / "middle.ckpt";
  Trainer(options).fit(whole, source());
  REQUIRE(whole.seen.size() == 10);
  CHECK(calls == 10);

  // Saved in the third batch of the second epoch: four are done of seven.
  Follows resumed;
  Trainer(options).fit(resumed, source(), {}, {.ckpt_path = (folder / "middle.ckpt").string()});
  REQUIRE(resumed.seen.size() == 3);
  CHECK(calls == (acts ? 3 : 5));
  if (acts) return;
  CHECK(resumed.seen == std::vector<double>(whole.seen.end() - 3, whole.seen.end()));
  CHECK(resumed.weight.item<double>() == whole.weight.item<double>());
}

TEST_CASE("the module that the documentation shows learns from a stream, and validates on ragged samples of two loaders") {
  seed_everything(1);
  Sums module;
  Trainer trainer({.max_epochs = 1, .limit_train_batches = 60, .quiet = true});
  trainer.fit(module);
  const MetricMap& metrics = trainer.callback_metrics();
  CHECK(metrics.contains("val_loss/dataloader_idx_0"));
  CHECK(metrics.at("val_loss/dataloader_idx_1") == Approx(metrics.at("long_loss")));
  CHECK(metrics.at("val_loss_of_both") < 0.05);
}

TEST_CASE("collate makes batches of samples of different lengths, whatever the dataset is") {
  struct Words : SampleDataset {
    std::int64_t size() const override { return 5; }
    Batch get_sample(std::int64_t index) const override {
      return {{"word", torch::full({index + 1}, static_cast<double>(index))}, {"length", torch::tensor(index + 1)}};
    }
  };
  const auto pad = [](std::span<const Batch> samples) {
    std::vector<at::Tensor> words, lengths;
    for (const Batch& sample : samples) {
      words.push_back(sample["word"]);
      lengths.push_back(sample["length"]);
    }
    return Batch{{"word", torch::pad_sequence(words, /*batch_first=*/true, -1)}, {"length", torch::stack(lengths)}};
  };
  DataLoader loader(Subset(Words(), {0, 2, 4}), {.batch_size = 2, .num_workers = GENERATE(0, 2), .collate = pad});
  loader.start_epoch(0);
  const auto first = loader.next();
  REQUIRE(first);
  CHECK(torch::equal((*first)["word"], torch::tensor({{0., -1., -1.}, {2., 2., 2.}}, torch::kFloat)));
  CHECK(torch::equal((*first)["length"], torch::tensor({1, 3})));
  CHECK(loader.next()->batch_size() == 1);
  CHECK_FALSE(loader.next());
}
