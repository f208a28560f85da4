#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/data/combined_loader.h"
#include "levin/data/data_loader.h"
#include "levin/data/dataset.h"
#include "levin/data/stream.h"
#include "support/fixed_loader.h"
#include "support/scripted_line.h"
#include "support/sums.h"
#include "support/temporary_folder.h"

using namespace levin;
using Catch::Matchers::Contains;
using namespace levin::test;

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

TEST_CASE("a loader that starts again within an epoch has another order") {
  CombinedLoader loader({{"few", numbers(8, 8, true)}, {"many", numbers(3, 1)}}, CombineMode::kMaxSizeCycle);
  const Texts batches = read_epoch(loader);
  REQUIRE(batches.size() == 3);
  const auto few = [](const std::string& batch) { return batch.substr(0, batch.find(" many")); };
  CHECK(few(batches[0]) != few(batches[1]));
  CHECK(few(batches[1]) != few(batches[2]));
  CHECK(read_epoch(loader) == batches);
  CHECK(read_epoch(loader, 1) != batches);
}

TEST_CASE("an epoch of several loaders resumes where it was, on as many ranks, without reading what is done") {
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

TEST_CASE("where batches have no one size, several loaders do not know their position") {
  CHECK_FALSE(combined(CombineMode::kMaxSize).samples_before(1));
  CHECK_FALSE(combined(CombineMode::kSequential).batch_size());
}

TEST_CASE("ranks share an epoch of several loaders, and resume it in other numbers") {
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
  CHECK(share->evened_out == 0);  // the second rank reads those that are repeated
  CHECK(share->ranks == 2);
  loader.set_shard({.rank = 1, .world_size = 2, .uneven = Uneven::kPad});
  CHECK(loader.sample_share()->evened_out == 2);
  loader.set_shard({.rank = 0, .world_size = 2, .uneven = Uneven::kDrop});
  CHECK(loader.sample_share()->evened_out == -2);
  Batch unnamed = Batch::of({torch::ones({1}, torch::kLong)});
  CombinedLoader positions({{"a", std::make_shared<test::FixedLoader>(std::vector<Batch>{unnamed})}});
  positions.start_epoch(0);
  CHECK(positions.next()->contains("a.0"));
}

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

/// Saves in the step of this batch, in each epoch.
void save_at(ScriptedLine& module, std::int64_t batch, std::filesystem::path file) {
  module.on["training_step"] = [batch, file = std::move(file)](ScriptedLine& self, std::int64_t batch_idx) {
    if (batch_idx == batch) self.trainer().save_checkpoint(file);
  };
}

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

TEST_CASE("an epoch ends where the function gives no batch, and the next one starts again") {
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

namespace {

/// A file of 120 rows, one a batch, from its first row in each epoch.
struct Rows {
  std::vector<StreamEpoch> begun;
  int open = 0;
  int most_open = 0;

  Stream loader(const StreamOptions& options = {}) {
    return stream(
        [this](const StreamEpoch& epoch) -> Stream::Function {
          begun.push_back(epoch);
          most_open = std::max(most_open, ++open);
          const std::shared_ptr<int> file(new int(0), [this](const int* row) {
            --open;
            delete row;
          });
          return [file](auto& rng) -> std::optional<Batch> {
            if (*file == 120) return std::nullopt;
            return Batch(torch::rand({1}, rng) + ++*file);
          };
        },
        options);
  }
};

}  // namespace

TEST_CASE("a stream whose source is made for each epoch begins each with its first batch") {
  Rows rows;
  Stream loader = rows.loader();
  loader.set_shard({.rank = 1, .world_size = 4});
  for (int epoch = 5; epoch < 7; ++epoch) {
    loader.start_epoch(epoch);
    std::vector<double> values;
    while (const auto batch = loader.next()) values.push_back(std::floor((*batch)[0].item<double>()));
    REQUIRE(values.size() == 120);
    CHECK(values.front() == 1);
    CHECK(values.back() == 120);
    CHECK(rows.begun.back().epoch == epoch);
    CHECK(rows.begun.back().rank == 1);
    CHECK(rows.begun.back().world_size == 4);
    // What the function holds goes with the epoch.
    CHECK(rows.open == 0);
    CHECK_FALSE(loader.next());
  }
  loader.start_epoch(7);
  loader.next();
  loader.start_epoch(8);
  CHECK(rows.most_open == 1);
  // Overfitting sees the same epoch again.
  loader.set_shard({.world_size = 4, .force_sequential = true});
  loader.start_epoch(9);
  CHECK(rows.begun.back().epoch == 0);

  CHECK_THROWS_AS(Stream::of_source(nullptr), MisuseError);
  Stream empty = stream([](const StreamEpoch&) { return Stream::Function(); });
  CHECK_THROWS_WITH(empty.start_epoch(3), Catch::Contains("epoch 3 is an empty function"));
}

TEST_CASE("limit_train_batches takes as many of each epoch's source, and a run resumes within one exactly") {
  const TemporaryFolder folder;
  const TrainerOptions options{.max_epochs = 3, .limit_train_batches = 50, .quiet = true};
  Rows rows;
  ScriptedLine whole;
  save_at(whole, 20, folder / "middle.ckpt");
  Trainer(options).fit(whole, rows.loader({.seed = 3}));
  REQUIRE(whole.seen.size() == 150);
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    CHECK(std::floor(whole.seen[50 * epoch]) == 1);
    CHECK(std::floor(whole.seen[50 * epoch + 49]) == 50);
  }
  CHECK(whole.seen[0] != whole.seen[50]);
  REQUIRE(rows.begun.size() == 3);
  CHECK(rows.begun[2].epoch == 2);

  // Saved after the 21st batch of the third epoch.
  Rows again;
  ScriptedLine resumed;
  Trainer(options).fit(resumed, again.loader({.seed = 3}), {}, {.ckpt_path = (folder / "middle.ckpt").string()});
  REQUIRE(resumed.seen.size() == 29);
  CHECK(resumed.seen == std::vector<double>(whole.seen.end() - 29, whole.seen.end()));
  CHECK(resumed.value() == whole.value());
  REQUIRE(again.begun.size() == 1);
  CHECK(again.begun[0].epoch == 2);
}

TEST_CASE("a run on a stream resumes within an epoch exactly; one that acts is not asked for what is done") {
  const bool interactive = GENERATE(false, true);
  const TemporaryFolder folder;
  int calls = 0;
  const auto source = [&]() -> LoaderPtr {
    calls = 0;
    return stream(
        [&](auto& rng) -> std::optional<Batch> {
          ++calls;
          return Batch(torch::rand({1}, rng) + 1);
        },
        {.interactive = interactive, .seed = 3});
  };
  const TrainerOptions options{.max_epochs = 2, .limit_train_batches = 5, .quiet = true};
  ScriptedLine whole;
  save_at(whole, 2, folder / "middle.ckpt");
  Trainer(options).fit(whole, source());
  REQUIRE(whole.seen.size() == 10);
  CHECK(calls == 10);

  // Saved after the third batch of the second epoch.
  ScriptedLine resumed;
  Trainer(options).fit(resumed, source(), {}, {.ckpt_path = (folder / "middle.ckpt").string()});
  REQUIRE(resumed.seen.size() == 2);
  CHECK(calls == (interactive ? 2 : 5));
  if (interactive) return;
  CHECK(resumed.seen == std::vector<double>(whole.seen.end() - 2, whole.seen.end()));
  CHECK(resumed.value() == whole.value());
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
