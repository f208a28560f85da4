// Cases of Lightning's own tests about messages, loaders and output that no other test here covers.
#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>

#include "levin/optim/lr_schedulers.h"
#include "support/file_text.h"
#include "support/recording.h"
#include "support/scripted_line.h"
#include "support/shown_messages.h"

using namespace levin;
using namespace levin::test;

namespace {

using Integers = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("each Trainer warns again of what a run says once, and one within a hook of another does not let that one") {
  ScriptedLine module;
  bool nests = false;
  module.on["on_train_epoch_start"] = [&](auto&, auto) {
    rank_warn_once("said in each epoch");
    if (nests) const Trainer inner(quiet_options(1));
  };
  for (int number = 0; number < 3; ++number) {
    nests = number == 2;
    CHECK(count(warned_by([&] { Trainer(quiet_options(3)).fit(module, counted(2)); }), "said in each epoch") == 1);
  }
}

TEST_CASE("the result of one test loader has what was logged for it, and for all") {
  ScriptedLine module;
  module.on["test_step"] = [](auto& self, auto) {
    const std::int64_t index = self.dataloader_idx();
    self.log("with_suffix", static_cast<double>(index));
    if (index == 0) self.log("of_first", 1.0, {.add_dataloader_idx = false});
    if (index == 1) self.log("of_second", 2.0, {.on_step = true, .on_epoch = true, .add_dataloader_idx = false});
    self.log("of_both", 3.0 + static_cast<double>(index), {.add_dataloader_idx = false});
  };
  module.on["on_test_epoch_end"] = [](auto& self, auto) { self.log("of_epoch", 5.0); };
  const auto results = Trainer(quiet_options(1)).test(module, {counted(1), counted(1)}, {.verbose = false});
  REQUIRE(results.size() == 2);
  CHECK(results[0].names() == std::vector<std::string>{"of_both", "of_epoch", "of_first", "with_suffix/dataloader_idx_0"});
  CHECK(results[1].names() ==
        std::vector<std::string>{"of_both", "of_epoch", "of_second_epoch", "with_suffix/dataloader_idx_1"});
  CHECK(results[0].at("of_both") == 3.5);
}

TEST_CASE("batch_idx() and is_last_batch() are those of the last batch, to the end of fit, also where the rest is skipped") {
  // Skipped in this hook of this batch.
  const auto [hook, batch, last] =
      GENERATE(table<const char*, std::int64_t, std::int64_t>({{"", 0, 2}, {"on_train_batch_start", 1, 1}}));
  ScriptedLine module;
  Integers seen;
  for (const char* end : {"on_train_epoch_end", "on_train_end", "on_fit_end"}) {
    module.on[end] = [&](auto& self, auto) {
      seen.insert(seen.end(), {self.trainer().batch_idx(), self.trainer().is_last_batch() ? 1 : 0});
    };
  }
  module.on[hook] = [batch = batch](auto& self, std::int64_t index) {
    if (index == batch) self.trainer().skip_epoch();
  };
  Trainer trainer(quiet_options(2));
  trainer.fit(module, counted(3));
  CHECK(seen == Integers{last, 1, last, 1, last, 1, last, 1});
  CHECK(trainer.batch_idx() == last);
}

TEST_CASE("a batch after which an epoch was skipped is its last one") {
  ScriptedLine module;
  Integers is_last;
  module.on["on_train_batch_end"] = [](auto& self, auto) { self.trainer().skip_epoch(); };
  module.on["on_train_epoch_end"] = [&](auto& self, auto) { is_last.push_back(self.trainer().is_last_batch() ? 1 : 0); };
  Trainer trainer(quiet_options(2));
  trainer.fit(module, counted(3));
  CHECK(is_last == Integers{1, 1});
  CHECK(trainer.batch_idx() == 0);
}

TEST_CASE("under manual optimization a scheduler needs no monitor") {
  const std::string monitor = GENERATE("", "val_loss");
  ScriptedLine module;
  module.set_automatic_optimization(false);
  module.step = [](auto& self, const Batch& batch, std::int64_t index) -> StepOutput {
    self.optimizer().zero_grad();
    self.manual_backward(self.loss_of(batch));
    self.step_optimizer();
    if (index == 2) self.lr_scheduler().step(std::optional<double>(1.0));
    return {};
  };
  module.optimizers = [&](auto& self) -> OptimizerSetups {
    const SchedulerConfig config{.interval = Interval::kEpoch, .monitor = monitor};
    return {std::make_shared<torch::optim::SGD>(self.parameters(), 0.01), ReduceLrOnPlateau::Options{}, config};
  };
  const std::string warnings = warned_by([&] { Trainer(quiet_options(1)).fit(module, counted(3)); });
  CHECK(count(warnings, "manual optimization") == (monitor.empty() ? 0 : 1));
}

TEST_CASE("a warning names layers that are in evaluation mode when training begins, unless they are frozen") {
  struct TwoLayers final : ScriptedLine {
    torch::nn::BatchNorm1d norm_ = register_module("norm", torch::nn::BatchNorm1d(2));
    torch::nn::Dropout dropout_ = register_module("dropout", torch::nn::Dropout(0.5));
  } module;
  const auto warnings = [&] { return warned_by([&] { Trainer(quiet_options(1)).fit(module, counted(1)); }); };
  CHECK_THAT(warnings(), !Catch::Contains("evaluation mode"));
  freeze(*module.norm_);
  CHECK_THAT(warnings(), !Catch::Contains("evaluation mode"));
  module.dropout_->eval();
  CHECK_THAT(warnings(), Catch::Contains("evaluation mode") && Catch::Contains("dropout") && !Catch::Contains("norm"));
  unfreeze(*module.norm_);
  module.norm_->eval();
  CHECK_THAT(warnings(), Catch::Contains("norm, dropout"));
}

TEST_CASE("loaders are not asked for where a limit is 0") {
  AskedData data;
  ScriptedLine module;
  TrainerOptions options = quiet_options(1);
  options.limit_train_batches = options.limit_val_batches = options.limit_test_batches = options.limit_predict_batches = 0;
  Trainer trainer(options);
  trainer.fit(module, data);
  CHECK(trainer.global_step() == 0);
  CHECK(trainer.validate(module, data, {.verbose = false}).empty());
  CHECK(trainer.test(module, data, {.verbose = false}).empty());
  CHECK(trainer.predict(module, data).empty());
  CHECK(data.asked.empty());
}

TEST_CASE("validation loaders are reloaded only for epochs that validate") {
  const auto [reload, check, expected] = GENERATE(table<std::int64_t, std::int64_t, Integers>(
      {{1, 3, {0, 2, 5}}, {1, 1, {0, 1, 2, 3, 4, 5}}, {2, 3, {0, 2, 4}}, {0, 3, {0}}, {1, 7, {0}}}));
  CAPTURE(reload, check);
  AskedData data;
  ScriptedLine module;
  Trainer trainer(quiet({.max_epochs = 6, .check_val_every_n_epoch = check, .reload_dataloaders_every_n_epochs = reload}));
  Integers epochs;
  data.on_ask = [&](const std::string& stage) {
    if (stage == "val") epochs.push_back(trainer.current_epoch());
  };
  trainer.fit(module, data);
  CHECK(epochs == expected);
}

TEST_CASE("val_dataloaders() is called within the sanity check if there is one") {
  const std::int64_t steps = GENERATE(0, 1);
  AskedData data;
  ScriptedLine module;
  Trainer trainer(quiet({.max_epochs = 2, .num_sanity_val_steps = steps, .reload_dataloaders_every_n_epochs = 1}));
  Integers in_check;
  data.on_ask = [&](const std::string& stage) {
    if (stage == "val") in_check.push_back(trainer.sanity_checking() ? 1 : 0);
  };
  trainer.fit(module, data);
  CHECK(in_check == Integers{steps, 0});
}

TEST_CASE("num_training_batches() of a stream is its limit") {
  const auto [limit, expected] = GENERATE(table<std::int64_t, std::int64_t>({{3, 3}, {50, 50}, {-1, -1}}));
  ScriptedLine module;
  std::int64_t batches = 0;
  module.on["on_train_start"] = [&](auto& self, auto) { batches = self.trainer().num_training_batches(); };
  TrainerOptions options = quiet_options(2);
  if (limit >= 0) options.limit_train_batches = limit;
  Trainer trainer(options);
  trainer.fit(module, counted(4, 1, /*knows_size=*/false));
  CHECK(batches == expected);
  CHECK(trainer.global_step() == (limit == 3 ? 6 : 8));
}

TEST_CASE("the sanity check has its batches, also of a stream, and before a fit that trains none") {
  // Lightning's test_tqdm_progress_bar_totals and test_num_sanity_val_steps_progress_bar.
  const auto [limit, knows_size, seen] = GENERATE(
      table<std::int64_t, bool, std::int64_t>({{64, true, 4}, {3, true, 3}, {64, false, 4}, {3, false, 3}, {0, true, 0}}));
  CAPTURE(limit, knows_size);
  ScriptedLine module;
  Integers numbers;
  module.on["on_validation_epoch_start"] = [&](auto& self, auto) {
    numbers.push_back(self.trainer().num_evaluation_batches().at(0));
  };
  Trainer(quiet({.max_epochs = 1, .limit_train_batches = 0, .limit_val_batches = limit, .num_sanity_val_steps = 4}))
      .fit(module, counted(2), {counted(64, 1, knows_size)});
  CHECK(module.validated.size() == static_cast<std::size_t>(seen));
  CHECK(numbers == (limit == 0 ? Integers{} : Integers{seen}));
}
