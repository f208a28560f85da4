#include "levin/core/diagnostics/work_watch.h"

#include <catch2/catch.hpp>

#include "levin/core/base/process.h"
#include "levin/data/combined_loader.h"
#include "support/file_text.h"
#include "support/recording.h"
#include "support/shown_messages.h"

using namespace levin;
using namespace levin::test;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

/// A watch on a clock that tests move, after an epoch of so many batches.
class Epochs {
 public:
  LoaderWatch& run(int batches, double waits, double works) {
    watch.begin_epoch();
    for (int batch = 0; batch < batches; ++batch) {
      watch.begin_reading();
      now += waits;
      watch.end_reading();
      now += works;
    }
    return watch;
  }

  double now = 100;
  LoaderWatch watch{[this] { return now; }};
};

std::string advice(double waits, double works, std::optional<int> workers, int cores = 8, int ranks = 1) {
  return Epochs().run(101, waits, works).advice(workers, cores, ranks);
}

/// Takes a fixed time for each batch, in which it works.
class SlowLoader final : public FixedLoader {
 public:
  explicit SlowLoader(double seconds, bool is_interactive = false)
      : FixedLoader(rows()), seconds_(seconds), is_interactive_(is_interactive) {}
  bool is_interactive() const override { return is_interactive_; }
  std::optional<int> num_workers() const override { return 0; }
  std::optional<Batch> next() override {
    const double end = steady_seconds() + seconds_;
    while (steady_seconds() < end) continue;
    return FixedLoader::next();
  }

 private:
  static std::vector<Batch> rows() { return std::vector<Batch>(8, Batch{{"rows", torch::ones({2, 2})}}); }
  double seconds_;
  bool is_interactive_;
};

std::string warned_in_fit(const LoaderPtr& loader) {
  HookTrace trace;
  RecordingModule module(trace);
  return warned_by([&] { Trainer(quiet_options(2)).fit(module, loader); });
}

}  // namespace

TEST_CASE("a loader is the bottleneck when waiting for it takes a fifth of the time, and more than a second") {
  CHECK_FALSE(Epochs().run(101, 0.009, 0.001).is_bottleneck());
  CHECK(Epochs().run(102, 0.010, 0.001).is_bottleneck());
  CHECK_FALSE(Epochs().run(1001, 0.010, 0.041).is_bottleneck());
  CHECK(Epochs().run(1001, 0.010, 0.039).is_bottleneck());
  CHECK_FALSE(Epochs().run(3, 10, 0.1).is_bottleneck());
}

TEST_CASE("the first batch of an epoch, and what lies between epochs, does not count") {
  Epochs epochs;
  for (int epoch = 0; epoch < 20; ++epoch) {
    epochs.run(1, 100, 0.1);
    epochs.now += 50;
  }
  CHECK_FALSE(epochs.watch.is_bottleneck());
  CHECK_THAT(epochs.run(101, 0.3, 0.1).advice(0, 8, 1),
             Contains("waited 30.0 of 40.0 s") && Contains("300.0 ms for each") && Contains("step itself takes 100.0 ms"));
}

TEST_CASE("the advice is the number of workers that read as fast as training works") {
  CHECK_THAT(advice(0.3, 0.1, 0), EndsWith("Try num_workers: 3 (now 0)."));
  CHECK_THAT(advice(0.29, 0.1, 0), EndsWith("Try num_workers: 3 (now 0)."));
  CHECK_THAT(advice(0.05, 0.1, 0), EndsWith("Try num_workers: 1 (now 0)."));
  // Two workers give two batches in the time of two steps and two waits.
  CHECK_THAT(advice(0.1, 0.1, 2), EndsWith("Try num_workers: 4 (now 2)."));
  CHECK_THAT(advice(0.3, 0.1, std::nullopt), EndsWith("Let the loader read ahead on its own threads, or make reading cheaper; "
                                                      "if making batches is the work itself, override is_interactive()."));
}

TEST_CASE("the advice says when there are no cores for so many workers") {
  CHECK_THAT(advice(0.9, 0.1, 0),
             EndsWith("It would take num_workers: 9 (now 0), more than the 8 cores: try 8, and make reading cheaper."));
  CHECK_THAT(advice(0.3, 0.1, 0, 8, 4),
             EndsWith("num_workers: 3 (now 0), more than the 8 cores, which 4 ranks share: try 2, and make reading cheaper."));
  CHECK_THAT(advice(0.9, 0.1, 8),
             EndsWith("more than the 8 cores: make reading cheaper, by preparing the data once, before training."));
  CHECK_THAT(advice(1, 0, 1), Contains("No number of workers is enough (num_workers is 1), more than"));
}

TEST_CASE("a fit that waits for its data says so, once") {
  CHECK(count(warned_in_fit(std::make_shared<SlowLoader>(0.1)), "The data loader is the bottleneck") == 1);
  CHECK_THAT(warned_in_fit(std::make_shared<SlowLoader>(0)), !Contains("bottleneck"));
}

TEST_CASE("a loader whose batches are the work itself is no bottleneck, alone and among others") {
  const auto acting = std::make_shared<SlowLoader>(0.1, /*is_interactive=*/true);
  CHECK_THAT(warned_in_fit(acting), !Contains("bottleneck"));
  const auto reading = std::make_shared<SlowLoader>(0);
  CHECK(CombinedLoader({{"game", acting}, {"rows", reading}}, CombineMode::kMinSize).is_interactive());
  CHECK_FALSE(CombinedLoader({{"rows", reading}}, CombineMode::kMinSize).is_interactive());
}
