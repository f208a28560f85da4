// Loaders whose size() is another number than that of their batches.
#include <levin/levin.h>

#include <catch2/catch.hpp>

#include "levin/core/base/format.h"
#include "support/file_text.h"
#include "support/recording.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

/// Says that it has so many batches, and has others; in `empty_epoch` none.
class Liar : public BatchLoader {
 public:
  Liar(std::optional<std::int64_t> claim, std::int64_t real, std::int64_t empty_epoch = -1)
      : claim_(claim), real_(real), empty_epoch_(empty_epoch) {}
  std::optional<std::int64_t> size() const override { return claim_; }
  void start_epoch(std::int64_t epoch) override { left_ = epoch == empty_epoch_ ? 0 : real_; }
  std::optional<Batch> next() override {
    ++asked;
    if (left_ == 0 && throws) throw std::out_of_range("behind the last one");
    return left_-- > 0 ? std::optional(Batch{{"x", torch::ones({2, 2})}}) : std::nullopt;
  }
  int asked = 0;
  bool throws = false;  ///< when it is asked for more

 private:
  std::optional<std::int64_t> claim_;
  std::int64_t real_, empty_epoch_, left_ = 0;
};

/// "T" a training step, "V" a validation of so many batches, "E" an epoch's end.
class TracedEpochs : public Module {
 public:
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    trace += "T";
    last += trainer().is_last_batch() ? "L" : ".";
    return layer_->forward(batch[0]).mean();
  }
  void validation_step(const Batch&, std::int64_t) override { ++validated_; }
  void on_validation_epoch_end() override { trace += format("V{}", std::exchange(validated_, 0)); }
  void on_train_epoch_end() override { trace += "E"; }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }
  std::string trace, last;

 private:
  int validated_ = 0;
  torch::nn::Linear layer_ = register_module("layer", torch::nn::Linear(2, 1));
};

struct Fitted {
  std::string trace;
  std::string last;
  std::int64_t steps = 0;
  std::string console;
};

Fitted fit(TrainerOptions options, const LoaderPtr& train, const LoaderList& validation = {FixedLoader::of_rows(2, 2)}) {
  const TemporaryFolder folder;
  options.log_file = folder / "console.txt";
  if (!options.max_epochs) options.max_epochs = 2;
  TracedEpochs module;
  Trainer trainer(quiet(options));
  trainer.fit(module, train, validation);
  return {module.trace, module.last, trainer.global_step(), read_text(folder / "console.txt")};
}

}  // namespace

TEST_CASE("an epoch that ends before its loader's size() is validated there, and one warning has both numbers") {
  const Fitted fitted = fit({}, std::make_shared<Liar>(6, 4));
  CHECK(fitted.trace == "TTTTV2ETTTTV2E");
  CHECK(fitted.last == "...L...L");
  CHECK(count(fitted.console, "The training loader gave 4 batches and then no more, but its size() says 6") == 1);
  // Work planned in the missing part is done once, and nothing is repeated.
  const auto trace = [](std::optional<CheckInterval> interval, std::optional<std::int64_t> every = 1) {
    return fit({.val_check_interval = interval, .check_val_every_n_epoch = every}, std::make_shared<Liar>(6, 4)).trace;
  };
  CHECK(trace(Limit(0.5)) == "TTTV2TV2ETTTV2TV2E");
  CHECK(trace(Limit(2)) == "TTV2TTV2ETTV2TTV2E");
  CHECK(trace(Limit(4)) == "TTTTV2ETTTTV2E");
  CHECK(trace(Limit(6)) == "TTTTV2ETTTTV2E");
  CHECK(trace(std::nullopt, 2) == "TTTTETTTTV2E");
  CHECK(trace(Limit(6), std::nullopt) == "TTTTETTV2TTE");
  const Fitted accumulated = fit({.accumulate_grad_batches = 3}, std::make_shared<Liar>(6, 4));
  CHECK(accumulated.trace == "TTTTV2ETTTTV2E");
  CHECK(accumulated.steps == 4);
}

TEST_CASE("what a loader has beyond its size() is left out, with one warning") {
  const auto loader = std::make_shared<Liar>(3, 5);
  const Fitted fitted = fit({}, loader);
  CHECK(fitted.trace == "TTTV2ETTTV2E");
  CHECK(count(fitted.console, "The training loader has more than the 3 batches that its size() says") == 1);
  CHECK(loader->asked == 7);  // once for one more
  // A limit that the user sets is intended.
  const auto limited = std::make_shared<Liar>(3, 5);
  CHECK(fit({.limit_train_batches = 2}, limited).trace == "TTV2ETTV2E");
  CHECK(limited->asked == 4);
}

TEST_CASE("a loader that gives nothing, whatever its size(), is an error, and an empty epoch a warning") {
  CHECK_THROWS_WITH(fit({}, std::make_shared<Liar>(4, 0)),
                    Catch::Contains("nothing to train on") && Catch::Contains("though its size() says 4"));
  const Fitted fitted = fit({.max_epochs = 3}, std::make_shared<Liar>(2, 2, /*empty_epoch=*/1));
  CHECK(fitted.trace == "TTV2EETTV2E");
  CHECK(fitted.steps == 4);
  CHECK(fit({.max_epochs = 3}, std::make_shared<Liar>(std::nullopt, 2, /*empty_epoch=*/1)).steps == 4);
  CHECK(count(fitted.console, "Epoch 1 had no training batch: the training loader gave none, though its size() says 2.") == 1);
}

TEST_CASE("loaders of an evaluation that give other numbers than their size() have a warning each") {
  const auto shorter = std::make_shared<Liar>(3, 2);
  const auto longer = std::make_shared<Liar>(1, 3);
  const Fitted fitted = fit({}, FixedLoader::of_rows(1, 2), {shorter, longer});
  CHECK(fitted.trace == "TV3ETV3E");
  CHECK(count(fitted.console, "The validate 0 loader gave 2 batches and then no more, but its size() says 3") == 1);
  CHECK(count(fitted.console, "The validate 1 loader has more than the 1 batch that its size() says") == 1);
  CHECK(longer->asked == 3);
}

TEST_CASE("a loader may throw when it is asked for more than it has") {
  const auto loader = std::make_shared<Liar>(2, 2);
  loader->throws = true;
  CHECK(fit({}, loader).trace == "TTV2ETTV2E");
}

TEST_CASE("levin's own loaders give as many batches as they say") {
  const auto data = [](std::int64_t samples, DataLoaderOptions options) {
    return std::make_shared<DataLoader>(std::make_shared<TensorDataset>(Batch{{"x", torch::ones({samples, 2})}}), options);
  };
  const auto small = [&] { return data(3, {.batch_size = 2}); };
  const auto large = [&] { return data(9, {.batch_size = 2, .shuffle = true, .num_workers = 2}); };
  LoaderList loaders = {large(), data(9, {.batch_size = 2, .drop_last = true}),
                        stream([](auto&) { return std::optional<Batch>(); })};
  for (const CombineMode mode :
       {CombineMode::kMinSize, CombineMode::kMaxSize, CombineMode::kMaxSizeCycle, CombineMode::kSequential}) {
    loaders.push_back(std::make_shared<CombinedLoader>(CombinedLoader({{"few", small()}, {"many", large()}}, mode)));
  }
  const Fitted fitted = fit({.max_epochs = 1}, data(5, {.batch_size = 2}), loaders);
  CHECK(count(fitted.console, "size() says") == 0);
}
