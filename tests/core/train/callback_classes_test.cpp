// Callbacks whose classes have the same name, and which errors of them and of profilers a run survives.
#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>

#include "levin/core/base/error.h"
#include "levin/core/diagnostics/torch_messages.h"
#include "support/recording.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

/// Counts training batches, and saves the count on request.
class BatchCounts : public Callback {
 public:
  void on_train_batch_end(Trainer&, Module&, const StepOutput&, const Batch&, std::int64_t) override { ++batches; }
  Value state_dict() const override { return keeps && batches >= keeps_from ? Value(batches) : Value(); }
  std::int64_t batches = 0;
  std::int64_t keeps_from = 0;
  bool keeps = false;
};

namespace a {
struct Recorder final : BatchCounts {};
struct Kind {};
}  // namespace a
namespace b {
struct Recorder final : BatchCounts {};
struct Kind {};
}  // namespace b
template <class Kind>
struct Keeps final : BatchCounts {};
template <class Kind>
struct Others final : BatchCounts {};

struct WithCallbacks final : Module {
  StepOutput training_step(const Batch& batch, std::int64_t) override { return layer->forward(batch[0]).mean(); }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.1); }
  std::vector<std::shared_ptr<Callback>> configure_callbacks() override { return own; }
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(2, 1));
  std::vector<std::shared_ptr<Callback>> own;
};

using CountsList = std::vector<std::shared_ptr<BatchCounts>>;

/// Fits two batches, with callbacks of the Trainer's and of the module's, and saves at the end.
void fit_with_callbacks(const CountsList& of_trainer, const CountsList& of_module) {
  const TemporaryFolder folder;
  TrainerOptions options = quiet_options(1);
  for (const auto& callback : of_trainer) options.callbacks.emplace_back(callback);
  WithCallbacks module;
  module.own.assign(of_module.begin(), of_module.end());
  Trainer trainer(options);
  trainer.fit(module, FixedLoader::of_rows(2, 2));
  trainer.save_checkpoint(folder / "saved.ckpt");
}

}  // namespace

TEST_CASE("a module's callback takes the place of one of its class, and of no other that only has its name") {
  const CountsList of_trainer = {std::make_shared<a::Recorder>(), std::make_shared<Keeps<a::Kind>>(),
                                 std::make_shared<Others<a::Kind>>(), std::make_shared<Keeps<b::Kind>>()};
  const CountsList of_module = {std::make_shared<b::Recorder>(), std::make_shared<Keeps<b::Kind>>()};
  fit_with_callbacks(of_trainer, of_module);
  for (const std::size_t index : {0, 1, 2}) CHECK(of_trainer[index]->batches == 2);
  CHECK(of_trainer[3]->batches == 0);
  for (const auto& callback : of_module) CHECK(callback->batches == 2);
}

TEST_CASE("two callbacks whose states have one name are an error that names both, whenever they come to have states") {
  const auto keeping = [](std::shared_ptr<BatchCounts> counts, std::int64_t from) {
    counts->keeps = true;
    counts->keeps_from = from;
    return counts;
  };
  const std::int64_t from = GENERATE(0, 2);
  CHECK_THROWS_WITH(
      fit_with_callbacks({keeping(std::make_shared<a::Recorder>(), from)}, {keeping(std::make_shared<b::Recorder>(), from)}),
      Catch::Contains("have the same state_key(), Recorder (") && Catch::Contains("a::Recorder and ") &&
          Catch::Contains("b::Recorder)"));
  CHECK_NOTHROW(fit_with_callbacks({keeping(std::make_shared<Keeps<a::Kind>>(), from)},
                                   {keeping(std::make_shared<Keeps<b::Kind>>(), from)}));
}

TEST_CASE("a profiler that throws where it must not leaves the run, and the error that is leaving it, as they are") {
  struct Throwing final : Profiler {
    void start(std::string_view) override {}
    void stop(std::string_view) override {}
    void waited(WaitReason, double, double) override {
      ++times;
      throw std::runtime_error("the disk of the profiler is full");
    }
    int times = 0;
  };
  const auto profiler = std::make_shared<Throwing>();
  TrainerOptions options = quiet({.max_epochs = 1, .profiler = profiler});
  WithCallbacks module;
  Trainer(options).fit(module, FixedLoader::of_rows(2, 2));
  CHECK(profiler->times > 0);
}

TEST_CASE("a batch that cannot be described leaves the error that it was in") {
  std::string failed;
  const std::optional<Batch> batch = Batch{{"x", at::_nested_tensor_from_tensor_list({torch::ones({2}), torch::ones({3})})}};
  const auto fail = [&] {
    const FailedBatchScope scope(failed, batch);
    throw std::runtime_error("the sensor is gone");
  };
  CHECK_THROWS_WITH(fail(), "the sensor is gone");
}
