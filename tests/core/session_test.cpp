#include <levin/levin.h>

#include <catch2/catch.hpp>
#include <thread>

#include "levin/core/base/text.h"
#include "support/copied_weights.h"
#include "support/file_text.h"
#include "support/fixed_loader.h"
#include "support/scripted_line.h"
#include "support/shown_messages.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

/// Draws random numbers in each step, has an average, a schedule and a logged loss.
class Net : public Module {
 public:
  Net() {
    torch::manual_seed(1);
    layers_ = register_module("layers",
                              torch::nn::Sequential(torch::nn::Linear(2, 8), torch::nn::Dropout(0.5), torch::nn::Linear(8, 1)));
    torch::manual_seed(7);
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor loss = layers_->forward(batch["rows"]).square().mean();
    log("loss", loss, {.on_step = true, .on_epoch = true});
    return loss;
  }
  void validation_step(const Batch& batch, std::int64_t) override {
    log("val_loss", layers_->forward(batch["rows"]).square().mean());
  }
  Batch predict_step(const Batch& batch, std::int64_t) override { return {{"value", layers_->forward(batch["rows"])}}; }
  void test_step(const Batch& batch, std::int64_t) override {
    log("test_loss", layers_->forward(batch["rows"]).square().mean());
  }
  LoaderList val_dataloaders() override { return validation; }
  at::Tensor value_of(const Batch& batch) { return layers_->forward(batch["rows"]); }
  LoaderList validation;
  OptimizerSetups configure_optimizers() override {
    return {AdamW(parameters(), 0.05), StepLr::Options{.step_size = 1, .gamma = 0.5}};
  }
  std::vector<at::Tensor> weights() const { return copied_weights(*this); }

 private:
  torch::nn::Sequential layers_ = nullptr;
};

Batch rows(std::int64_t index) {
  return {{"rows", torch::arange(index * 4, index * 4 + 4, torch::kFloat).reshape({2, 2}) / 10}};
}

std::shared_ptr<FixedLoader> loader_of(std::int64_t batches) {
  std::vector<Batch> made;
  for (std::int64_t index = 0; index < batches; ++index) made.push_back(rows(index));
  return std::make_shared<FixedLoader>(std::move(made));
}

TrainerOptions quiet(const std::filesystem::path& folder) {
  return {.logger = CsvLogger(),
          .log_every_n_steps = 1,
          .enable_checkpointing = false,
          .enable_progress_bar = false,
          .enable_model_summary = false,
          .accumulate_grad_batches = 2,
          .default_root_dir = folder,
          .log_level = LogLevel::kError};
}

bool same(const std::vector<at::Tensor>& one, const std::vector<at::Tensor>& other) {
  return std::ranges::equal(one, other, [](const at::Tensor& a, const at::Tensor& b) { return a.equal(b); });
}

TEST_CASE(
    "a session's steps are those of fit(): weights to the bit, rows, and the steps of a window that an epoch's end closes") {
  const TemporaryFolder fitted, stepped;
  Net one, other;
  const auto interval = GENERATE(std::optional<std::int64_t>(), 2, 5);
  TrainerOptions options = quiet(fitted.path());
  if (interval) {
    one.validation = other.validation = {loader_of(2)};
    options.val_check_interval = CheckInterval(*interval);
  }
  options.max_epochs = 2;
  Trainer trainer(options);
  torch::manual_seed(7);
  trainer.fit(one, loader_of(5));

  torch::manual_seed(7);
  options.max_epochs.reset();
  options.default_root_dir = stepped.path();
  Session session(options, other);
  session.begin();
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (std::int64_t index = 0; index < 5; ++index) CHECK_FALSE(session.step(rows(index)).stops);
    session.end_epoch();
  }
  CHECK(session.global_step() == trainer.global_step());
  session.end();
  CHECK(same(one.weights(), other.weights()));
  CHECK(read_text(session.trainer().log_dir() / "metrics.csv") == read_text(trainer.log_dir() / "metrics.csv"));
}

TEST_CASE("a session that is saved between two calls resumes there in another, to the bit, with what its caller keeps") {
  // The caller draws random numbers between steps, and remembers what it has seen.
  struct World {
    std::int64_t seen = 0;
    double score = 0;
    at::Tensor replay = torch::zeros({2});
    Value notes = Value::Map{};
    std::vector<std::string> journal;

    void keep_in(Session& session) {
      session.keep("seen", seen);
      session.keep("score", score);
      session.keep("replay", replay);
      session.keep("notes", notes);
      session.keep("journal", {[this] {
                                 return KeptState{.values = Value(join(journal, " ")), .tensors = {{"seen", replay}}};
                               },
                               [this](const KeptState& kept) { journal = {kept.values.as_string()}; }});
    }
    void step(Session& session, bool ends_epoch) {
      const at::Tensor noise = torch::rand({2});
      replay = replay + noise;
      score += noise[0].item<double>();
      notes["last"] = ++seen;
      journal.push_back(std::to_string(seen));
      session.step({{"rows", replay.reshape({1, 2}).repeat({1 + seen % 3, 1})}});
      if (ends_epoch) session.end_epoch();
    }
  };
  const int saved_after = GENERATE(0, 1, 2, 3, 4, 6);
  CAPTURE(saved_after);
  const TemporaryFolder whole_folder, folder;
  Net whole, first, second;
  World of_whole, of_first, of_second;
  const auto run = [&](Session& session, World& world, int begin, int end) {
    for (int index = begin; index < end; ++index) world.step(session, index % 4 == 2);
  };
  torch::manual_seed(7);
  {
    Session session(quiet(whole_folder.path()), whole);
    session.begin();
    run(session, of_whole, 0, 7);
    session.end();
  }
  torch::manual_seed(7);
  {
    Session session(quiet(folder.path()), first);
    of_first.keep_in(session);
    session.begin();
    run(session, of_first, 0, saved_after);
    session.save(folder / "here.ckpt");
    run(session, of_first, 5, 6);
  }
  torch::manual_seed(99);
  Session session(quiet(folder.path()), second);
  of_second.keep_in(session);
  session.begin((folder / "here.ckpt").string());
  CHECK(of_second.seen == saved_after);
  run(session, of_second, saved_after, 7);
  session.end();
  CHECK(same(whole.weights(), second.weights()));
  CHECK(of_second.replay.equal(of_whole.replay));
  CHECK(of_second.score == of_whole.score);
  CHECK(of_second.notes.at("last").as_int() == 7);
  CHECK_THAT(join(of_second.journal, " "), Catch::EndsWith(join(of_whole.journal, " ")));
}

TEST_CASE("what a session keeps has a name of its own, before begin(), and may be missing from a checkpoint") {
  const TemporaryFolder folder;
  Net module;
  double score = 3;
  Session session(quiet(folder.path()), module);
  session.keep("score", score);
  CHECK_THROWS_WITH(session.keep("score", score), Catch::Contains("'score' is kept already"));
  CHECK_THROWS_WITH(session.keep("a.b", score), Catch::Contains("without a dot"));
  session.begin();
  CHECK_THROWS_WITH(session.keep("more", score), Catch::Contains("before begin()"));
  session.step(rows(0));
  session.save(folder / "here.ckpt");
  session.end();

  Session other(quiet(folder.path()), module);
  double unknown = 5;
  score = 0;
  other.keep("unknown", unknown);
  other.keep("score", score);
  ShownMessages shown;
  other.begin((folder / "here.ckpt").string());
  CHECK(score == 3);
  CHECK(unknown == 5);
  other.end();
}

TEST_CASE("a closure computes the loss in place of training_step, and logs as that does") {
  const TemporaryFolder folder, other_folder;
  Net one, other;
  TrainerOptions options = quiet(folder.path());
  options.max_epochs = 1;
  torch::manual_seed(7);
  Trainer trainer(options);
  trainer.fit(one, loader_of(4));
  torch::manual_seed(7);
  Session session(quiet(other_folder.path()), other);
  session.begin();
  for (std::int64_t index = 0; index < 4; ++index) {
    const StepResult result = session.step(rows(index), [&](const Batch& batch) -> StepOutput {
      const at::Tensor loss = other.value_of(batch).square().mean();
      other.log("loss", loss, {.on_step = true, .on_epoch = true});
      return loss;
    });
    CHECK(result.output.loss.item<double>() > 0);
  }
  session.end();
  CHECK(same(one.weights(), other.weights()));
  CHECK(read_text(session.trainer().log_dir() / "metrics.csv") == read_text(trainer.log_dir() / "metrics.csv"));
}

TEST_CASE("begin_epoch() runs the hooks of an epoch's start before its first step, once") {
  ScriptedLine module;
  std::vector<std::string> hooks;
  module.on["on_train_epoch_start"] = [&](ScriptedLine&, std::int64_t) { hooks.emplace_back("epoch"); };
  module.on["training_step"] = [&](ScriptedLine&, std::int64_t) { hooks.emplace_back("step"); };
  const TemporaryFolder folder;
  TrainerOptions options = quiet(folder.path());
  options.logger = false;
  Session session(options, module);
  session.begin();
  const Batch batch = {{"x", torch::ones({1}, torch::kDouble)}};
  CHECK_FALSE(session.begin_epoch());
  CHECK_FALSE(session.begin_epoch());
  hooks.emplace_back("begun");
  session.step(batch);
  session.end_epoch();
  session.step(batch);
  session.end();
  CHECK(hooks == std::vector<std::string>{"epoch", "begun", "step", "epoch", "step"});
}

TEST_CASE("a session stops by max_steps, stop() and limits of an epoch, and says so") {
  const TemporaryFolder folder;
  Net module;
  TrainerOptions options = quiet(folder.path());
  options.accumulate_grad_batches = 1;
  SECTION("max_steps") {
    options.max_steps = 2;
    Session session(options, module);
    session.begin();
    CHECK_FALSE(session.step(rows(0)).stops);
    CHECK(session.step(rows(1)).stops);
    CHECK_THROWS_WITH(session.step(rows(2)), Catch::Contains("training is over (max_steps=2 reached)"));
  }
  SECTION("stop()") {
    Session session(options, module);
    session.begin();
    session.stop("enough");
    CHECK(session.step(rows(0)).stops);
    session.end();
    CHECK_THAT(session.trainer().stop_reason(), Catch::Contains("enough"));
  }
  SECTION("max_epochs of three steps") {
    options.max_epochs = 2;
    options.limit_train_batches = 3;
    Session session(options, module);
    session.begin();
    int steps = 1;
    while (!session.step(rows(steps)).stops) ++steps;
    CHECK(steps == 6);
    CHECK(session.trainer().current_epoch() == 2);
    session.end();
  }
}

TEST_CASE("validate(), test() and predict() between two steps change nothing of training") {
  const TemporaryFolder folder, other_folder;
  Net module, other;
  const auto train = [&](Net& net, const std::filesystem::path& root, bool evaluates) {
    torch::manual_seed(7);
    Session session(quiet(root), net);
    session.begin();
    for (std::int64_t index = 0; index < 6; ++index) {
      session.step(rows(index));
      if (!evaluates) continue;
      const std::vector<MetricMap> results = session.validate({loader_of(2)});
      REQUIRE(results.size() == 1);
      CHECK(results[0].at("val_loss") == session.callback_metrics().at("val_loss"));
      CHECK(session.test({loader_of(2)}).at(0).at("test_loss") == results[0].at("val_loss"));
      const Batch twice = session.predict(rows(1));
      CHECK(twice["value"].equal(session.predict(rows(1))["value"]));
      CHECK_FALSE(twice["value"].requires_grad());
      CHECK(net.is_training());
    }
    session.end();
  };
  train(module, folder.path(), true);
  train(other, other_folder.path(), false);
  CHECK(same(module.weights(), other.weights()));
}

TEST_CASE("an error of a step keeps its type, and the session may begin again") {
  struct OwnError {
    int number;
  };
  ScriptedLine module;
  bool throws = true;
  module.on["training_step"] = [&](ScriptedLine&, std::int64_t) {
    if (throws) throw OwnError{7};
  };
  const TemporaryFolder folder;
  TrainerOptions options = quiet(folder.path());
  options.logger = false;
  const Batch batch = {{"x", torch::ones({1}, torch::kDouble)}};
  Session session(options, module);
  CHECK_THROWS_WITH(session.step(batch), Catch::Contains("call begin() first"));
  session.begin();
  CHECK_THROWS_WITH(session.begin(), Catch::Contains("has begun"));
  try {
    session.step(batch);
    FAIL("no error");
  } catch (const OwnError& error) {
    CHECK(error.number == 7);
  }
  REQUIRE(session.trainer().failure());
  CHECK_THAT(session.trainer().failure()->place(), Catch::Contains("training_step"));
  throws = false;
  session.begin();
  session.step(batch);
  session.end();
}

TEST_CASE("an epoch without a step is empty, and counts") {
  const TemporaryFolder folder;
  Net module;
  Session session(quiet(folder.path()), module);
  session.begin();
  session.begin_epoch();
  CHECK_FALSE(session.end_epoch());
  CHECK(session.trainer().current_epoch() == 1);
  CHECK_FALSE(session.end_epoch());  // none is under way
  session.step(rows(0));
  session.end();
  CHECK(session.trainer().current_epoch() == 2);
}

TEST_CASE("load() gives the module the weights of a file, and leaves counters") {
  const TemporaryFolder folder;
  Net module;
  Session session(quiet(folder.path()), module);
  session.begin();
  session.step(rows(0));
  session.save(folder / "early.ckpt");
  const auto early = module.weights();
  for (std::int64_t index = 1; index < 4; ++index) session.step(rows(index));
  CHECK_FALSE(same(module.weights(), early));
  CHECK(session.load(folder / "early.ckpt").loaded.size() == early.size());
  CHECK(same(module.weights(), early));
  CHECK(session.global_step() == 2);
  session.end();
}

TEST_CASE("a session is for the thread that has begun it") {
  const TemporaryFolder folder;
  Net module;
  Session session(quiet(folder.path()), module);
  session.begin();
  std::string error;
  std::thread other([&] {
    try {
      session.step(rows(0));
    } catch (const MisuseError& refused) {
      error = refused.what();
    }
  });
  other.join();
  CHECK_THAT(error, Catch::Contains("Session::step() was called by another thread than begin()"));
  session.step(rows(0));
  session.end();
}

TEST_CASE("sessions run at the same time in threads, and one after another") {
  const TemporaryFolder folder;
  const auto train = [&](const std::string& name) {
    Net module;
    TrainerOptions options = quiet(folder / name);
    options.logger = false;
    Session session(options, module);
    session.begin();
    for (std::int64_t index = 0; index < 20; ++index) session.step(rows(index));
    session.end();
    return session.global_step();
  };
  std::int64_t one = 0, other = 0;
  std::thread first([&] { one = train("one"); });
  std::thread second([&] { other = train("other"); });
  first.join();
  second.join();
  CHECK(one == 10);
  CHECK(other == 10);
  CHECK(train("third") == 10);
}

TEST_CASE("between two steps the caller's gradient mode, hook and logging are its own") {
  const TemporaryFolder folder;
  Net module;
  Session session(quiet(folder.path()), module);
  const at::NoGradGuard no_gradients;
  session.begin();
  session.step(rows(0));
  CHECK_FALSE(at::GradMode::is_enabled());
  CHECK_THROWS_WITH(module.log("outside", 1), Catch::Contains("code outside of levin"));
  session.step(rows(1));
  CHECK(session.global_step() == 1);
  session.end();
}

}  // namespace
}  // namespace levin::test
