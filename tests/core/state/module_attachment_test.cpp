#include <catch2/catch.hpp>

#include "levin/core/base/error.h"
#include "levin/metrics/regression.h"
#include "support/error_of.h"
#include "support/recording.h"

using namespace levin;
using namespace levin::test;

namespace {

/// Logs in its forward pass, as a part of a model would.
class Part : public Module {
 public:
  explicit Part(std::string its_name) : name(std::move(its_name)), weight_(register_parameter("weight", torch::ones({1}))) {}

  at::Tensor forward(const at::Tensor& input) {
    log(name, value, {.on_step = false, .on_epoch = true});
    had_trainer = has_trainer();
    return input * weight_;
  }

  std::string name;
  double value = 1;
  bool had_trainer = false;

 private:
  at::Tensor weight_;
};

/// Parts in every place where a module can have one.
class Whole : public Module {
 public:
  Whole() {
    plain->register_module("deep", deep);
    list->push_back(listed);
  }

  void configure_model() override {
    if (!configured) configured = register_module("configured", std::make_shared<Part>("configured"));
  }
  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
    if (batch_idx == 1 && !late) late = register_module("late", std::make_shared<Part>("late"));
    at::Tensor x = batch[0];
    for (const auto& part : {direct, deep, listed, configured, late}) {
      if (part) x = part->forward(x);
    }
    if (use_hidden) hidden->forward(x);
    epoch_in_part = deep->current_epoch();
    step_in_part = deep->global_step();
    if (on_step) on_step();
    return x.mean();
  }
  OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.0); }

  std::shared_ptr<Part> direct = register_module("direct", std::make_shared<Part>("direct"));
  std::shared_ptr<Part> deep = std::make_shared<Part>("deep"), listed = std::make_shared<Part>("listed");
  std::shared_ptr<Part> hidden = std::make_shared<Part>("hidden"), configured, late;
  std::shared_ptr<torch::nn::Module> plain = register_module("plain", std::make_shared<torch::nn::Module>("plain"));
  torch::nn::ModuleList list = register_module("list", torch::nn::ModuleList());
  bool use_hidden = false;
  std::int64_t epoch_in_part = -1, step_in_part = -1;
  std::function<void()> on_step;
};

std::shared_ptr<FixedLoader> batches(int count) {
  return std::make_shared<FixedLoader>(std::vector<Batch>(static_cast<std::size_t>(count), Batch{{"x", torch::ones({2})}}));
}

}  // namespace

TEST_CASE("log() in a module anywhere below the one that runs is a metric under its plain name, of all parts that use it") {
  Whole module;
  Trainer trainer(quiet_options(2));
  module.deep->name = module.direct->name = "same";
  module.deep->value = 3;
  module.use_hidden = true;  // a part that is not registered
  trainer.fit(module, batches(3));
  for (const char* name : {"listed", "configured", "late"}) CHECK(trainer.callback_metrics().at(name) == 1.0);
  CHECK(trainer.callback_metrics().at("same") == 2.0);
  CHECK_FALSE(trainer.callback_metrics().contains("hidden"));
  CHECK_FALSE(module.hidden->had_trainer);
  CHECK(module.epoch_in_part == 1);
  CHECK(module.step_in_part == 5);
  CHECK(&module.deep->trainer() == &trainer);
  CHECK(module.deep->is_global_zero());
}

TEST_CASE("a part is let go with its module, with its Trainer, and when another one takes it") {
  auto part = std::make_shared<Part>("part");
  Trainer again(quiet_options(2)), other(quiet_options(2));  // they outlive their module
  {
    Whole module;
    part = module.direct;
    {
      Trainer trainer(quiet_options(2));
      trainer.fit(module, batches(2));
      CHECK(part->has_trainer());
    }
    CHECK_FALSE(part->has_trainer());
    CHECK_FALSE(module.deep->has_trainer());
    CHECK_THROWS_WITH(part->trainer(), Catch::Contains("not attached to a Trainer"));
    for (Trainer* const next : {&again, &other}) {
      next->fit(module, batches(2));
      CHECK(&part->trainer() == next);
    }
    CHECK_THROWS_AS(again.save_checkpoint("nowhere.ckpt"), MisuseError);
  }
  CHECK_FALSE(part->has_trainer());
  CHECK_THROWS_WITH(part->forward(torch::ones({1})), Catch::Contains("is called outside of a run"));

  Trainer trainer(quiet_options(2));
  Whole module;
  module.on_step = [&] {  // a part that is gone in the middle of the run
    if (module.deep == module.direct) return;
    module.plain->unregister_module("deep");
    module.deep = module.direct;
  };
  trainer.fit(module, batches(3));
}

TEST_CASE("a copy of a module is in no run, and its end ends none") {
  Whole module;
  Trainer trainer(quiet_options(2));
  trainer.fit(module, batches(2));
  {
    const Part copy = *module.direct;
    CHECK_FALSE(copy.has_trainer());
    const Whole whole = module;
    CHECK_FALSE(whole.has_trainer());
  }
  CHECK(&module.trainer() == &trainer);
  CHECK(&module.direct->trainer() == &trainer);
}

TEST_CASE("a part that is registered in two places has its metrics once, under the first name") {
  struct Siamese : Module {
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      const at::Tensor loss = one->forward(batch[0]).mean();
      one->errors.update(loss, torch::zeros({}));
      one->log("error", one->errors, {.on_step = false, .on_epoch = true});
      return loss;
    }
    OptimizerSetups configure_optimizers() override { return std::make_shared<torch::optim::SGD>(parameters(), 0.0); }
    struct Tower : Part {
      Tower() : Part("tower") {}
      MeanSquaredError& errors = add_metric<MeanSquaredError>("errors");
    };
    std::shared_ptr<Tower> one = register_module("one", std::make_shared<Tower>());
    std::shared_ptr<Tower> same = register_module("same", one);
  } module;
  Trainer trainer(quiet_options(2));
  trainer.fit(module, batches(3));
  CHECK(trainer.callback_metrics().at("error") == 1.0);
  CHECK(module.one->errors.name() == "one.errors");
}

TEST_CASE("an entry point that cannot begin leaves no trace") {
  struct Clash : Whole {
    MeanSquaredError& own = add_metric<MeanSquaredError>("direct.errors");
    MeanSquaredError& of_part = direct->add_metric<MeanSquaredError>("errors");
  };
  Trainer trainer(quiet_options(2));
  Whole whole;
  trainer.fit(whole, batches(2));
  {
    Clash clash;
    for (int time = 0; time < 2; ++time) {
      CHECK_THROWS_WITH(trainer.fit(clash, batches(2)),
                        Catch::Contains("two metric objects of a module cannot be distinguished"));
      CHECK_FALSE(clash.has_trainer());
      CHECK_FALSE(clash.direct->has_trainer());
      CHECK(trainer.data_module() == nullptr);
      CHECK_FALSE(trainer.fitting());
    }
  }
  Whole other;
  std::string nested;
  other.on_step = [&] { nested = error_of<MisuseError>([&] { Trainer(quiet_options(2)).fit(other, batches(2)); }); };
  Trainer again(quiet_options(4));
  again.stop("before it begins");
  {
    Clash clash;
    CHECK_THROWS_AS(again.fit(clash, batches(2)), MisuseError);
  }
  again.fit(other, batches(2));
  CHECK(again.global_step() == 0);  // the wish to stop has waited
  CHECK(again.stop_reason() == "before it begins");
  again.fit(other, batches(2));
  CHECK(again.global_step() == 8);
  CHECK_THAT(nested, Catch::Contains("already running in another Trainer"));
}
