// Callbacks whose classes have the same name, and which errors of them and of profilers a run survives.
#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>

#include "levin/core/base/error.h"
#include "levin/core/diagnostics/torch_messages.h"
#include "support/recording.h"
#include "support/scripted_line.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

/// Counts training batches, and saves the count on request, from so many on.
class BatchCounts : public Callback {
 public:
  void on_train_batch_end(Trainer&, Module&, const StepOutput&, const Batch&, std::int64_t) override { ++batches; }
  Value state_dict() const override { return saved_from && batches >= *saved_from ? Value(batches) : Value(); }
  std::int64_t batches = 0;
  std::optional<std::int64_t> saved_from;
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
struct One final : BatchCounts {};
template <class Kind>
struct Other final : BatchCounts {};

using CountsList = std::vector<std::shared_ptr<BatchCounts>>;

/// Fits two batches, with callbacks of the Trainer's and of the module's, and saves at the end.
void fit_with_callbacks(const CountsList& of_trainer, const CountsList& of_module) {
  const TemporaryFolder folder;
  TrainerOptions options = quiet_options(1);
  for (const auto& callback : of_trainer) options.callbacks.emplace_back(callback);
  ScriptedLine module;
  module.callbacks.assign(of_module.begin(), of_module.end());
  Trainer trainer(options);
  trainer.fit(module, counted(2));
  trainer.save_checkpoint(folder / "saved.ckpt");
}

}  // namespace

TEST_CASE("a module's callback replaces one of its class, and no other that only has its name") {
  const CountsList of_trainer = {std::make_shared<a::Recorder>(), std::make_shared<One<a::Kind>>(),
                                 std::make_shared<Other<a::Kind>>(), std::make_shared<One<b::Kind>>()};
  const CountsList of_module = {std::make_shared<b::Recorder>(), std::make_shared<One<b::Kind>>()};
  fit_with_callbacks(of_trainer, of_module);
  for (const std::size_t index : {0, 1, 2}) CHECK(of_trainer[index]->batches == 2);
  CHECK(of_trainer[3]->batches == 0);
  for (const auto& callback : of_module) CHECK(callback->batches == 2);
}

TEST_CASE("two callbacks whose states have one name are an error that names both, whenever they come to have states") {
  const std::int64_t from = GENERATE(0, 2);
  const auto saving = [from](std::shared_ptr<BatchCounts> counts) {
    counts->saved_from = from;
    return counts;
  };
  CHECK_THROWS_WITH(fit_with_callbacks({saving(std::make_shared<a::Recorder>())}, {saving(std::make_shared<b::Recorder>())}),
                    Catch::Contains("have the same state_key(), Recorder (") && Catch::Contains("a::Recorder and ") &&
                        Catch::Contains("b::Recorder)"));
  CHECK_NOTHROW(fit_with_callbacks({saving(std::make_shared<One<a::Kind>>())}, {saving(std::make_shared<One<b::Kind>>())}));
}

TEST_CASE("what a profiler throws where it must not, or a batch that cannot be described, hides neither run nor error") {
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
  ScriptedLine module;
  Trainer(quiet({.max_epochs = 1, .profiler = profiler})).fit(module, counted(2));
  CHECK(profiler->times > 0);

  std::string failed;
  const std::optional<Batch> batch = Batch{{"x", at::_nested_tensor_from_tensor_list({torch::ones({2}), torch::ones({3})})}};
  const auto fail = [&] {
    const FailedBatchScope scope(failed, batch);
    throw std::runtime_error("the sensor is gone");
  };
  CHECK_THROWS_WITH(fail(), "the sensor is gone");
}
