// Results of log(), in cases of Lightning's own tests. Names and values in each view:
// tests/distributed/numbers_reference_test.cpp.
#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>

#include "levin/callbacks/lambda_callback.h"
#include "levin/core/metric_collection.h"
#include "levin/metrics/classification.h"
#include "support/error_of.h"
#include "support/recording.h"
#include "support/scripted_line.h"

using namespace levin;
using namespace levin::test;

using Names = std::vector<std::string>;

namespace {

/// Logs a count in each of these hooks under each combination of options that the hook permits, and knows the results.
class LogsEverywhere final : public Callback {
 public:
#define LEVIN_LOGS(hook, steps, ...) \
  void hook(Trainer&, Module& module __VA_OPT__(, ) __VA_ARGS__) override { logs(module, #hook, steps); }
  LEVIN_LOGS(on_train_start, false)
  LEVIN_LOGS(on_train_epoch_start, false)
  LEVIN_LOGS(on_train_batch_start, true, const Batch&, std::int64_t)
  LEVIN_LOGS(on_before_backward, true, const at::Tensor&)
  LEVIN_LOGS(on_after_backward, true)
  LEVIN_LOGS(on_train_batch_end, true, const StepOutput&, const Batch&, std::int64_t)
  LEVIN_LOGS(on_train_epoch_end, false)
  LEVIN_LOGS(on_validation_start, false)
  LEVIN_LOGS(on_validation_epoch_start, false)
  LEVIN_LOGS(on_validation_batch_end, true, const StepOutput&, const Batch&, std::int64_t, std::int64_t)
  LEVIN_LOGS(on_validation_epoch_end, false)
#undef LEVIN_LOGS

  struct Logged {
    bool on_step, on_epoch, prog_bar;
    std::vector<double> values = {};
  };
  std::map<std::string, Logged> logged;

 private:
  void logs(Module& module, const std::string& hook, bool steps) {
    for (int kind = steps ? 0 : 2; kind < (steps ? 8 : 4); ++kind) {
      const Logged options{(kind & 4) != 0, (kind & 2) != 0, (kind & 1) != 0};
      const std::string name = hook + "_" + std::to_string(kind);
      const LogOptions given{.on_step = options.on_step, .on_epoch = options.on_epoch, .prog_bar = options.prog_bar};
      if (!options.on_step && !options.on_epoch) {
        CHECK_THROWS_AS(module.log(name, count_, given), MisuseError);
        continue;
      }
      module.log(name, count_, given);
      logged.emplace(name, options).first->second.values.push_back(count_++);
    }
  }
  double count_ = 0;
};

}  // namespace

TEST_CASE("what callbacks log in any hook is the mean of the epoch, or the newest of a step") {
  ScriptedLine module;
  const auto callback = std::make_shared<LogsEverywhere>();
  Trainer trainer(quiet({.max_epochs = 1, .callbacks = {callback}}));
  trainer.fit(module, counted(2), {counted(4)});
  CHECK(callback->logged.size() == 5 * 6 + 6 * 2);
  for (const auto& [name, logged] : callback->logged) {
    INFO(name);
    double sum = 0;
    for (const double value : logged.values) sum += value;
    const double mean = sum / static_cast<double>(logged.values.size());
    // A step value of an evaluation is for loggers and the progress bar.
    const bool is_step_of_validation = logged.on_step && !logged.on_epoch && name.starts_with("on_validation");
    CHECK(trainer.callback_metrics().contains(name) == !is_step_of_validation);
    if (!is_step_of_validation) CHECK(trainer.callback_metrics().at(name) == (logged.on_epoch ? mean : logged.values.back()));
    CHECK(trainer.progress_bar_metrics().contains(name) == (logged.prog_bar && logged.on_step != logged.on_epoch));
  }
}

TEST_CASE("a progress bar sees values of an epoch when it has ended, and through the next") {
  ScriptedLine module;
  const auto logs = [](const char* name) {
    return [name](auto& self, auto) {
      self.log(name, self.global_step(), {.on_step = false, .on_epoch = true, .prog_bar = true, .reduce = Reduce::kMax});
    };
  };
  module.on["training_step"] = logs("a");
  module.on["validation_step"] = logs("b");
  std::vector<std::string> shown;
  const auto show = [&](Trainer& trainer, Module&) {
    shown.push_back((trainer.sanity_checking() ? "s" : "") + to_json(trainer.progress_bar_metrics()));
  };
  TrainerOptions options = quiet({.max_epochs = 2, .num_sanity_val_steps = 2});
  options.callbacks = {
      LambdaCallback({.on_train_batch_end = [&](auto& trainer, auto& self, auto&, auto&, auto) { show(trainer, self); },
                      .on_train_epoch_end = show,
                      .on_validation_end = show})};
  Trainer trainer(options);
  trainer.fit(module, counted(2), {counted(2)});
  CHECK(shown == Names{R"(s{"b":0.0})", "{}", "{}", R"({"b":2.0})", R"({"a":1.0,"b":2.0})", R"({"a":1.0,"b":2.0})",
                       R"({"a":1.0,"b":2.0})", R"({"a":1.0,"b":4.0})", R"({"a":3.0,"b":4.0})"});
}

TEST_CASE("one name logged in a step and at the epoch's end is the newest of both") {
  ScriptedLine module;
  module.on["training_step"] = [](auto& self, auto) { self.log("shared", 100.0, {.prog_bar = true, .logger = false}); };
  module.on["on_train_epoch_end"] = [](auto& self, auto) {
    self.log("of_epoch_" + std::to_string(self.current_epoch()), self.current_epoch(), {.prog_bar = true, .logger = false});
    self.log("shared", 111.0, {.prog_bar = true, .logger = false});
  };
  Trainer trainer(quiet_options(3));
  trainer.fit(module, counted(2));
  CHECK(trainer.progress_bar_metrics() == MetricMap{{"of_epoch_0", 0}, {"of_epoch_1", 1}, {"of_epoch_2", 2}, {"shared", 111}});
}

TEST_CASE("rows have Lightning's epochs and steps, and what is logged when training starts is in one alone") {
  using Rows = std::vector<std::vector<double>>;
  ScriptedLine module;
  module.on["on_train_start"] = [](auto& self, auto) { self.log("start", 123.0); };
  module.on["training_step"] = [](auto& self, std::int64_t index) {
    self.log("foo", index, {.on_step = true, .on_epoch = true});
  };
  const auto logger = std::make_shared<RowsOf>();
  Trainer(quiet({.max_epochs = 2, .logger = logger, .log_every_n_steps = 1})).fit(module, counted(2));
  CHECK(logger->of("foo_step") == Rows{{0, 0, 0}, {0, 1, 1}, {1, 2, 0}, {1, 3, 1}});
  CHECK(logger->of("foo_epoch") == Rows{{0, 1, 0.5}, {1, 3, 0.5}});
  CHECK(logger->of("start") == Rows{{0, 1, 123}});
}

TEST_CASE(
    "values of validation steps have rows with the training step before them and their batch, and no callback sees them") {
  ScriptedLine module;
  module.on["training_step"] = [](auto& self, auto) { self.log("train", 7.0); };
  module.on["validation_step"] = [](auto& self, std::int64_t index) {
    const double value = 10.0 * static_cast<double>(self.current_epoch()) + static_cast<double>(index);
    self.log("both", value, {.on_step = true, .on_epoch = true});
    self.log("whole", value, {.on_step = false, .on_epoch = true});
    self.log("single", value, {.on_step = true, .on_epoch = false});
  };
  module.on["test_step"] = [](auto& self, auto) { self.log("test", 3.0); };
  const auto logger = std::make_shared<RowsOf>();
  Trainer trainer(quiet({.max_epochs = 2, .logger = logger, .num_sanity_val_steps = 2, .log_every_n_steps = 1}));
  trainer.fit(module, counted(3), {counted(2)});
  CHECK(trainer.callback_metrics().names() == Names{"both", "both_epoch", "train", "whole"});
  Names rows;
  for (const MetricRow& row : logger->rows) {
    if (row.values.contains("train")) continue;
    const std::string batch = row.evaluation_batch ? " batch " + std::to_string(*row.evaluation_batch) + " " : " ";
    rows.push_back(std::to_string(row.step) + batch + to_json(row.values));
  }
  CHECK(rows == Names{R"(2 batch 0 {"both_step":0.0,"single":0.0})", R"(2 batch 1 {"both_step":1.0,"single":1.0})",
                      R"(2 {"both_epoch":0.5,"whole":0.5})", R"(5 batch 2 {"both_step":10.0,"single":10.0})",
                      R"(5 batch 3 {"both_step":11.0,"single":11.0})", R"(5 {"both_epoch":10.5,"whole":10.5})"});
  const auto results = trainer.test(module, {counted(2)}, {.verbose = false});
  CHECK(trainer.callback_metrics().names() == Names{"test"});
  CHECK(results.at(0) == MetricMap{{"test", 3}});
}

TEST_CASE("what cannot be logged is an error that names it") {
  const auto error = [](const ScriptedLine::Script& script) {
    ScriptedLine module;
    module.on["training_step"] = script;
    return error_of<MisuseError>([&] { Trainer(quiet_options(1)).fit(module, counted(1)); });
  };
  CHECK_THAT(error([](auto& self, auto) { self.log("foo/dataloader_idx_0", 1.0); }), Catch::Contains("foo/dataloader_idx_0"));
  CHECK_THAT(error([](auto& self, auto) { self.log("foo", torch::tensor({1.0, 2.0})); }), Catch::Contains("foo"));
  const auto twice = [](auto& self, auto) {
    self.log("foo", -1.0, {.prog_bar = false});
    self.log("foo", -1.0, {.prog_bar = true});
  };
  CHECK_THAT(error(twice), Catch::Contains("foo"));
  for (const std::string name : {"epoch", "step"}) {  // rows have them already
    CHECK_THAT(error([&](auto& self, auto) { self.log(name, 1.0); }),
               Catch::Contains("log(\"" + name + "\")") && Catch::Contains("reserved"));
  }
}

TEST_CASE("sums of batch hooks count each batch, of training and validation, and the sanity check none") {
  ScriptedLine module;
  for (const char* hook :
       {"on_train_batch_start", "on_train_batch_end", "on_validation_batch_start", "on_validation_batch_end"}) {
    module.on[hook] = [hook](auto& self, auto) {
      self.log(hook, 1.0, {.on_step = false, .on_epoch = true, .reduce = Reduce::kSum});
    };
  }
  MetricMap at_end;
  module.on["on_validation_epoch_end"] = [&](auto& self, auto) { at_end = self.trainer().callback_metrics(); };
  Trainer trainer(quiet({.max_epochs = 2, .num_sanity_val_steps = 3}));
  trainer.fit(module, counted(3), {counted(4)});
  CHECK(trainer.callback_metrics().at("on_train_batch_start") == 3);
  CHECK(trainer.callback_metrics().at("on_train_batch_end") == 3);
  CHECK(at_end.at("on_validation_batch_start") == 4);
  CHECK(at_end.at("on_validation_batch_end") == 4);
}

TEST_CASE("values of two validation loaders begin again with each validation, also of several an epoch") {
  ScriptedLine module;
  module.on["training_step"] = [](auto& self, std::int64_t index) {
    self.log("value", (1 + index) * (self.current_epoch() == 0 ? 1 : 10),
             {.on_step = true, .on_epoch = true, .prog_bar = true});
  };
  module.on["validation_step"] = [](auto& self, std::int64_t index) {
    const std::int64_t value = (1 + index) * (1 + self.dataloader_idx()) * (self.current_epoch() == 0 ? 1 : 10);
    self.log("val", value, {.on_step = false, .on_epoch = true, .prog_bar = true});
  };
  std::vector<double> of_train, of_validation;
  module.on["on_train_epoch_end"] = [&](auto& self, auto) {
    of_train.push_back(self.trainer().progress_bar_metrics().at("value_epoch"));
  };
  module.on["on_validation_epoch_end"] = [&](auto& self, auto) {
    for (const char* name : {"val/dataloader_idx_0", "val/dataloader_idx_1"}) {
      of_validation.push_back(self.trainer().callback_metrics().at(name));
    }
  };
  Trainer(quiet({.max_epochs = 2, .val_check_interval = 0.5})).fit(module, counted(5), {counted(5), counted(5)});
  CHECK(of_train == std::vector<double>{3, 30});
  CHECK(of_validation == std::vector<double>{3, 6, 3, 6, 30, 60, 30, 60});
}

TEST_CASE("a logger gets what hooks at the end of an entry point hand over, and finalize() after each") {
  struct Buffer final : Logger {
    void log_metrics(const MetricRow& row) override {
      for (const auto& [name, value] : row.values) open += name + " ";
    }
    void finalize(const std::string& status) override { told += open + status + " | ", open.clear(); }
    std::string open, told;
  };
  const auto logger = std::make_shared<Buffer>();
  const auto hand = [](const char* name) {
    return [name](Trainer& trainer, Module&) { trainer.log_to_loggers({{name, 1.0}}); };
  };
  TrainerOptions options = quiet({.max_epochs = 1, .logger = logger});
  options.callbacks = {LambdaCallback({.on_fit_end = hand("fit"),
                                       .on_validation_end = hand("validate"),
                                       .on_test_end = hand("test"),
                                       .on_predict_end = hand("predict")})};
  Trainer trainer(options);
  ScriptedLine module;
  trainer.fit(module, counted(1), {counted(1)});
  trainer.test(module, {counted(1)}, {.verbose = false});
  trainer.predict(module, {counted(1)});
  CHECK(logger->told == "validate fit success | test success | predict success | ");
}

namespace {

/// Two metric objects of one class.
struct Classifies : ScriptedLine {
  static void update(Accuracy& accuracy, bool hits) {
    accuracy.update(hits ? torch::tensor({{0.1, 0.9}}) : torch::tensor({{0.9, 0.1}}), torch::tensor({1}));
  }
  Accuracy& training = add_metric<Accuracy>("training", {.num_classes = 2});
  Accuracy& validation = add_metric<Accuracy>("validation", {.num_classes = 2});
};

}  // namespace

TEST_CASE("a metric object that is logged for step and epoch is monitored under its plain name, in each stage") {
  Classifies module;
  const auto logs = [&](const char* name, Accuracy& accuracy, std::int64_t hits) {
    return [&accuracy, name, hits](auto& self, std::int64_t index) {
      Classifies::update(accuracy, index < hits);
      self.log(name, accuracy, {.on_step = true, .on_epoch = true});
    };
  };
  module.on["training_step"] = logs("acc", module.training, 3);
  module.on["validation_step"] = logs("val_acc", module.validation, 8);
  std::vector<double> seen;
  TrainerOptions options = quiet({.max_epochs = 2, .num_sanity_val_steps = 3});
  options.callbacks = {LambdaCallback({.on_validation_end = [&](Trainer& trainer, Module&) {
    if (!trainer.sanity_checking()) seen.push_back(trainer.monitored("val_acc").value());
  }})};
  Trainer trainer(options);
  trainer.fit(module, counted(5), {counted(32)});
  CHECK(seen == std::vector<double>{0.25, 0.25});
  CHECK(trainer.callback_metrics().at("acc_epoch") == 0.6);
  CHECK(trainer.callback_metrics().at("acc") == 0.6);
  CHECK(trainer.callback_metrics().at("acc_step") == 0);
}

TEST_CASE("a metric object that is logged when the epoch has ended has the epoch's value, and begins again") {
  Classifies module;
  module.on["training_step"] = [&](auto&, std::int64_t index) { Classifies::update(module.training, index == 0); };
  module.on["validation_step"] = [&](auto& self, std::int64_t index) {
    Classifies::update(module.validation, index != self.current_epoch());
  };
  module.on["on_train_epoch_end"] = [&](auto& self, auto) { self.log("acc", module.training); };
  module.on["on_validation_epoch_end"] = [&](auto& self, auto) { self.log("val_acc", module.validation); };
  const auto logger = std::make_shared<RowsOf>();
  Trainer trainer(quiet({.max_epochs = 2, .logger = logger, .num_sanity_val_steps = 2}));
  trainer.fit(module, counted(4), {counted(4)});
  CHECK(trainer.callback_metrics().at("acc") == 0.25);
  CHECK(trainer.callback_metrics().at("val_acc") == 0.75);
  CHECK(logger->of("val_acc") == std::vector<std::vector<double>>{{0, 3, 0.75}, {1, 7, 0.75}});
}

TEST_CASE("a collection of metrics logged for steps and epochs") {
  struct Collects final : ScriptedLine {
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      scores.update(torch::tensor({{0.1, 0.9}, {0.8, 0.2}}), torch::tensor({batch_idx % 2, std::int64_t{0}}));
      log_dict(scores, {.on_step = true, .on_epoch = true});
      return loss_of(batch);
    }
    MetricCollection scores = add_metrics("scores", MetricCollection("t_")
                                                        .add<Accuracy>("acc", {.num_classes = 2})
                                                        .add<Recall>("rec", {.num_classes = 2, .average = Average::kNone}));
  } module;
  Trainer trainer(quiet_options(2));
  trainer.fit(module, counted(3));
  const MetricMap& metrics = trainer.callback_metrics();
  // Labels 0 0, 1 0, 0 0; predictions 1 0 each.
  CHECK(metrics.at("t_acc_step") == 0.5);
  CHECK(metrics.at("t_acc_epoch") == Approx(4.0 / 6));
  CHECK(metrics.at("t_rec_0_epoch") == Approx(3.0 / 5));
  CHECK(metrics.at("t_rec_1_epoch") == 1.0);
}

TEST_CASE("a value that is logged in some batches is in their rows alone, and their mean is the epoch's") {
  using Rows = std::vector<std::vector<double>>;
  ScriptedLine module;
  module.on["training_step"] = [](auto& self, std::int64_t index) {
    self.log("always", 1.0);
    if (index % 2 == 0) self.log("even", static_cast<double>(index), {.on_step = true, .on_epoch = true});
    if (self.current_epoch() == 0) self.log("first", static_cast<double>(index), {.on_step = false, .on_epoch = true});
  };
  const auto logger = std::make_shared<RowsOf>();
  Trainer trainer(quiet({.max_epochs = 2, .logger = logger, .log_every_n_steps = 1}));
  trainer.fit(module, counted(4));
  CHECK(logger->of("even_step") == Rows{{0, 0, 0}, {0, 2, 2}, {1, 4, 0}, {1, 6, 2}});
  CHECK(logger->of("even_epoch") == Rows{{0, 3, 1}, {1, 7, 1}});
  CHECK(logger->of("first") == Rows{{0, 3, 1.5}});
  CHECK(trainer.callback_metrics().at("first") == 1.5);  // the newest value
}

TEST_CASE("one name in training and validation is what has ended last") {
  ScriptedLine module;
  module.on["training_step"] = [](auto& self, std::int64_t index) {
    self.log("loss", static_cast<double>(index), {.on_step = false, .on_epoch = true});
  };
  module.on["validation_step"] = [](auto& self, auto) { self.log("loss", 7.0); };
  std::vector<double> seen;
  const auto look = [&](Trainer& trainer, Module&) { seen.push_back(trainer.callback_metrics().at("loss")); };
  const auto logger = std::make_shared<RowsOf>();
  TrainerOptions options = quiet({.max_epochs = 2, .logger = logger});
  options.callbacks = {LambdaCallback({.on_train_epoch_end = look, .on_validation_end = look})};
  Trainer(options).fit(module, counted(4), {counted(2)});
  CHECK(seen == std::vector<double>{7, 1.5, 7, 1.5});
  CHECK(logger->of("loss") == std::vector<std::vector<double>>{{0, 3, 7}, {0, 3, 1.5}, {1, 7, 7}, {1, 7, 1.5}});
}

TEST_CASE("what callbacks log in a test has the loader's number in hooks of batches alone") {
  ScriptedLine module;
  double count = 0;
  const auto log = [&](const char* name) { return [&, name](Trainer&, Module& self) { self.log(name, count++); }; };
  const auto sum = [&](Trainer&, Module& self, const StepOutput&, const Batch&, std::int64_t, std::int64_t) {
    self.log("batch", count++, {.reduce = Reduce::kSum});
  };
  TrainerOptions options = quiet_options();
  options.callbacks = {LambdaCallback({.on_test_start = log("start"),
                                       .on_test_epoch_start = log("epoch_start"),
                                       .on_test_batch_end = sum,
                                       .on_test_epoch_end = log("end")})};
  Trainer trainer(options);
  const auto results = trainer.test(module, {counted(2), counted(2)}, {.verbose = false});
  CHECK(
      trainer.callback_metrics() ==
      MetricMap{
          {"batch/dataloader_idx_0", 2 + 3}, {"batch/dataloader_idx_1", 4 + 5}, {"end", 6}, {"epoch_start", 1}, {"start", 0}});
  CHECK(results.at(0).names() == Names{"batch/dataloader_idx_0", "end", "epoch_start", "start"});
}
