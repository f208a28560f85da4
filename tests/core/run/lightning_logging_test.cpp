// Results of log(), in cases of Lightning's own tests.
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

TEST_CASE("what training logs is where its options say, under one name or under three") {
  ScriptedLine module;
  module.on["training_step"] = [](auto& self, auto) {
    self.log("default", 1.0);
    for (const bool prog_bar : {false, true}) {
      const std::string kind = prog_bar ? "p" : "l";
      self.log(kind + "_s", 1.0, {.on_step = true, .on_epoch = false, .prog_bar = prog_bar, .logger = !prog_bar});
      self.log(kind + "_e", 1.0, {.on_step = false, .on_epoch = true, .prog_bar = prog_bar, .logger = !prog_bar});
      self.log(kind + "_se", 1.0, {.on_step = true, .on_epoch = true, .prog_bar = prog_bar, .logger = !prog_bar});
    }
  };
  module.on["on_train_epoch_end"] = [](auto& self, auto) { self.log("end", 2.0, {.prog_bar = true}); };
  Trainer trainer(quiet({.max_epochs = 2, .log_every_n_steps = 1}));
  trainer.fit(module, counted(2));
  CHECK(trainer.logged_metrics().names() == Names{"default", "end", "l_e", "l_s", "l_se_epoch", "l_se_step"});
  CHECK(trainer.progress_bar_metrics().names() == Names{"end", "p_e", "p_s", "p_se_epoch", "p_se_step"});
  CHECK(trainer.callback_metrics().names() == Names{"default", "end", "l_e", "l_s", "l_se", "l_se_epoch", "l_se_step", "p_e",
                                                    "p_s", "p_se", "p_se_epoch", "p_se_step"});
}

TEST_CASE("an epoch value is the least, greatest, mean or sum of its steps, of training and of validation") {
  const auto [batches, reduce, expected] = GENERATE(table<int, Reduce, double>(
      {{3, Reduce::kMin, 0}, {3, Reduce::kMax, 2}, {11, Reduce::kMax, 10}, {5, Reduce::kMean, 2}, {5, Reduce::kSum, 10}}));
  ScriptedLine module;
  const auto logs = [reduce = reduce](auto& self, std::int64_t index) {
    const std::string stage = self.trainer().stage() == Stage::kTrain ? "foo" : "bar";
    const at::Tensor value = stage == "foo" ? torch::tensor(index, torch::kLong) : torch::tensor(index, torch::kFloat);
    self.log(stage, value, {.on_step = false, .on_epoch = true, .reduce = reduce});
  };
  module.on["training_step"] = module.on["validation_step"] = logs;
  Trainer trainer(quiet_options(2));
  trainer.fit(module, counted(batches), {counted(batches)});
  CHECK(trainer.logged_metrics().at("foo") == expected);
  CHECK(trainer.logged_metrics().at("bar") == expected);
}

TEST_CASE("16-bit and whole numbers are summed and averaged as doubles") {
  ScriptedLine module;
  module.on["training_step"] = [](auto& self, std::int64_t index) {
    self.log("sum", torch::tensor(1.0, torch::kBFloat16), {.on_step = false, .on_epoch = true, .reduce = Reduce::kSum});
    self.log("bytes", torch::tensor(100, torch::kChar), {.on_step = false, .on_epoch = true, .reduce = Reduce::kSum});
    self.log("mean", torch::tensor(index % 2 == 0 ? 2 : 4), {.on_epoch = true, .batch_size = index % 2 == 0 ? 3 : 5});
  };
  Trainer trainer(quiet_options(1));
  trainer.fit(module, counted(300));
  CHECK(trainer.callback_metrics().at("sum") == 300.0);  // in 16 bits 256 + 1 is 256
  CHECK(trainer.callback_metrics().at("bytes") == 30000.0);
  CHECK(trainer.callback_metrics().at("mean") == Approx((2.0 * 3 + 4.0 * 5) / 8).epsilon(1e-15));
}

namespace {

/// Logs a count in each of these hooks under each combination of options that the hook permits, and knows the results.
class LogsEverywhere final : public Callback {
 public:
  void on_train_start(Trainer&, Module& module) override { logs(module, "on_train_start"); }
  void on_train_epoch_start(Trainer&, Module& module) override { logs(module, "on_train_epoch_start"); }
  void on_train_batch_start(Trainer&, Module& module, const Batch&, std::int64_t) override {
    logs(module, "on_train_batch_start", true);
  }
  void on_before_backward(Trainer&, Module& module, const at::Tensor&) override { logs(module, "on_before_backward", true); }
  void on_after_backward(Trainer&, Module& module) override { logs(module, "on_after_backward", true); }
  void on_train_batch_end(Trainer&, Module& module, const StepOutput&, const Batch&, std::int64_t) override {
    logs(module, "on_train_batch_end", true);
  }
  void on_train_epoch_end(Trainer&, Module& module) override { logs(module, "on_train_epoch_end"); }
  void on_validation_start(Trainer&, Module& module) override { logs(module, "on_validation_start"); }
  void on_validation_epoch_start(Trainer&, Module& module) override { logs(module, "on_validation_epoch_start"); }
  void on_validation_batch_end(Trainer&, Module& module, const StepOutput&, const Batch&, std::int64_t, std::int64_t) override {
    logs(module, "on_validation_batch_end", true);
  }
  void on_validation_epoch_end(Trainer&, Module& module) override { logs(module, "on_validation_epoch_end"); }

  struct Logged {
    bool on_step, on_epoch, prog_bar;
    std::vector<double> values = {};
  };
  std::map<std::string, Logged> logged;

 private:
  void logs(Module& module, const std::string& hook, bool steps = false) {
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

TEST_CASE("a progress bar sees values of an epoch when it has ended, and keeps them through the next") {
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

TEST_CASE("rows of steps are those that log_every_n_steps says, through epochs of any length") {
  const auto [batches, interval] = GENERATE(table<int, std::int64_t>({{10, 1}, {3, 1}, {3, 5}, {4, 3}}));
  ScriptedLine module;
  module.on["training_step"] = [](auto& self, auto) { self.log("foo", -1.0); };
  const auto logger = std::make_shared<RowsOf>();
  Trainer(quiet({.max_steps = 10, .logger = logger, .log_every_n_steps = interval})).fit(module, counted(batches));
  std::vector<double> steps, expected;
  for (const auto& row : logger->of("foo")) steps.push_back(row[1]);
  for (std::int64_t step = interval - 1; step < 10; step += interval) expected.push_back(static_cast<double>(step));
  CHECK(steps == expected);
}

TEST_CASE("values of validation steps are rows of their own, and no callback's") {
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
  trainer.fit(module, counted(1), {counted(2)});
  CHECK(trainer.callback_metrics().names() == Names{"both", "both_epoch", "train", "whole"});
  Names rows;
  for (const MetricRow& row : logger->rows) rows.push_back(to_json(row.values));
  CHECK(rows == Names{R"({"train":7.0})", R"({"both_step":0.0,"single":0.0})", R"({"both_step":1.0,"single":1.0})",
                      R"({"both_epoch":0.5,"whole":0.5})", R"({"train":7.0})", R"({"both_step":10.0,"single":10.0})",
                      R"({"both_step":11.0,"single":11.0})", R"({"both_epoch":10.5,"whole":10.5})"});
  const auto results = trainer.test(module, {counted(2)}, {.verbose = false});
  CHECK(trainer.callback_metrics().names() == Names{"test"});
  CHECK(results.at(0) == MetricMap{{"test", 3}});
}

TEST_CASE("the sanity check leaves nothing for the first batch to see") {
  ScriptedLine module;
  module.on["validation_step"] = [](auto& self, auto) {
    if (self.trainer().sanity_checking()) self.log("val", 1.0, {.prog_bar = true});
  };
  std::string seen;
  module.on["training_step"] = [&](auto& self, std::int64_t index) {
    const Trainer& trainer = self.trainer();
    if (index > 0) return;
    for (const MetricMap* map : {&trainer.callback_metrics(), &trainer.logged_metrics(), &trainer.progress_bar_metrics()}) {
      seen += to_json(*map);
    }
  };
  Trainer trainer(quiet({.max_epochs = 1, .num_sanity_val_steps = 2}));
  trainer.fit(module, counted(1), {counted(2)});
  CHECK(seen == "{}{}{}");
  CHECK(!trainer.progress_bar_metrics().contains("val"));
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

TEST_CASE("values of two validation loaders begin anew with each validation, also of several an epoch") {
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

TEST_CASE("a metric named epoch or step is an error, since rows have them already") {
  const std::string name = GENERATE("epoch", "step");
  ScriptedLine module;
  module.on["training_step"] = [&](auto& self, auto) { self.log(name, 1.0); };
  CHECK_THROWS_WITH(Trainer(quiet_options(1)).fit(module, counted(1)),
                    Catch::Contains("log(\"" + name + "\")") && Catch::Contains("reserved"));
}

TEST_CASE("a logger gets what hooks at the end of an entry point hand over, and is told the end of each") {
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

TEST_CASE("a metric object that is logged for step and epoch is monitored under its plain name, in each stage") {
  struct Classifies final : ScriptedLine {
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      take(training, "acc", batch_idx < 3);
      return loss_of(batch);
    }
    void validation_step(const Batch&, std::int64_t batch_idx) override { take(validation, "val_acc", batch_idx < 8); }
    void take(Accuracy& accuracy, const char* name, bool hits) {
      accuracy.update(hits ? torch::tensor({{0.1, 0.9}}) : torch::tensor({{0.9, 0.1}}), torch::tensor({1}));
      log(name, accuracy, {.on_step = true, .on_epoch = true});
    }
    Accuracy& training = add_metric<Accuracy>("training", {.num_classes = 2});
    Accuracy& validation = add_metric<Accuracy>("validation", {.num_classes = 2});
  } module;
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

TEST_CASE("values of several loaders have their number behind the suffix of step and epoch") {
  ScriptedLine module;
  module.on["validation_step"] = [](auto& self, std::int64_t index) {
    self.log("v", 10.0 * static_cast<double>(self.dataloader_idx()) + static_cast<double>(index),
             {.on_step = true, .on_epoch = true});
  };
  Trainer trainer(quiet_options(1));
  const auto results = trainer.validate(module, {counted(2), counted(4)}, {.verbose = false});
  CHECK(trainer.callback_metrics() == MetricMap{{"v/dataloader_idx_0", 0.5},
                                                {"v/dataloader_idx_1", 11.5},
                                                {"v_epoch/dataloader_idx_0", 0.5},
                                                {"v_epoch/dataloader_idx_1", 11.5}});
  CHECK(trainer.logged_metrics() == MetricMap{{"v_epoch/dataloader_idx_0", 0.5},
                                              {"v_epoch/dataloader_idx_1", 11.5},
                                              {"v_step/dataloader_idx_0", 1},
                                              {"v_step/dataloader_idx_1", 13}});
  CHECK(results.at(1) == MetricMap{{"v_epoch/dataloader_idx_1", 11.5}});
}

TEST_CASE("a metric object that is logged when the epoch has ended has the epoch's value, and begins anew") {
  struct Classifies final : ScriptedLine {
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      training.update(torch::tensor({{0.1, 0.9}}), torch::tensor({batch_idx == 0 ? 1 : 0}));
      return loss_of(batch);
    }
    void validation_step(const Batch&, std::int64_t batch_idx) override {
      validation.update(torch::tensor({{0.1, 0.9}}), torch::tensor({batch_idx == current_epoch() ? 0 : 1}));
    }
    void on_train_epoch_end() override { log("acc", training); }
    void on_validation_epoch_end() override { log("val_acc", validation); }
    Accuracy& training = add_metric<Accuracy>("training", {.num_classes = 2});
    Accuracy& validation = add_metric<Accuracy>("validation", {.num_classes = 2});
  } module;
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

TEST_CASE("a mean is weighted by its batches, whoever gives their size") {
  ScriptedLine module;
  module.on["training_step"] = [](auto& self, std::int64_t index) {
    const double value = static_cast<double>(index + 1);
    self.log("own", value, {.on_epoch = true, .batch_size = (index + 1) * (index + 1)});
    self.log("batch", value, {.on_step = false, .on_epoch = true});
  };
  std::vector<Batch> batches;
  for (int size = 1; size <= 9; ++size) batches.push_back(Batch{{"x", torch::ones({size}, torch::kDouble)}});
  Trainer trainer(quiet_options(1));
  trainer.fit(module, std::make_shared<FixedLoader>(std::move(batches)));
  CHECK(trainer.callback_metrics().at("own") == Approx(2025.0 / 285));  // cubes over squares
  CHECK(trainer.callback_metrics().at("batch") == Approx(285.0 / 45));  // squares over numbers
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
