#include "levin/exported/exported_module.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "exported/packages.h"
#include "levin/callbacks/lambda_callback.h"
#include "levin/callbacks/weight_averaging.h"
#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/core/predictor.h"
#include "levin/core/trainer.h"
#include "levin/optim/fused_optimizers.h"
#include "levin/optim/lr_schedulers.h"
#include "support/error_of.h"
#include "support/recording.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

/// With the optimizer of make_packages.py.
class Trained : public ExportedModule {
 public:
  explicit Trained(const std::string& package) : ExportedModule({.package = package_file(package)}) {}
  OptimizerSetups configure_optimizers() override {
    std::vector<at::Tensor> trained = parameters();
    std::erase_if(trained, [](const at::Tensor& parameter) { return !parameter.requires_grad(); });
    return {levin::SGD(trained, levin::SGDOptions(0.1).momentum(0.9)), StepLr::Options{.step_size = 1, .gamma = 0.5}};
  }
  void configure_gradient_clipping(torch::optim::Optimizer& optimizer) override {
    ExportedModule::configure_gradient_clipping(optimizer);
    if (at_step) at_step();
  }
  at::Tensor gradient(const std::string& name) { return named_parameters()[name].grad().clone(); }

  std::function<void()> at_step;  ///< called when gradients are complete
};

bool is_close(const at::Tensor& one, const at::Tensor& other) {
  return one.sizes() == other.sizes() && at::allclose(one.to(torch::kDouble), other.to(torch::kDouble), 1e-5, 1e-6);
}

/// Trains for one step of these batches.
void one_step(Trained& module, const std::vector<Batch>& batches, const std::function<void()>& at_step,
              std::optional<double> clip = std::nullopt) {
  module.at_step = at_step;
  Trainer trainer(
      quiet({.max_steps = 1, .accumulate_grad_batches = static_cast<std::int64_t>(batches.size()), .gradient_clip_val = clip}));
  trainer.fit(module, std::make_shared<FixedLoader>(batches));
}

at::Tensor gradient_of(const std::vector<Batch>& batches, std::optional<double> clip = std::nullopt) {
  Trained module("plain.pt2");
  at::Tensor gradient;
  one_step(
      module, batches, [&] { gradient = module.gradient("first.weight"); }, clip);
  return gradient;
}

std::map<std::string, at::Tensor> state_of(torch::nn::Module& module) {
  std::map<std::string, at::Tensor> state;
  for (const auto& parameter : module.named_parameters()) state[parameter.key()] = parameter.value().detach().clone();
  for (const auto& buffer : module.named_buffers()) state[buffer.key()] = buffer.value().clone();
  return state;
}

void check_same(const std::map<std::string, at::Tensor>& one, const std::map<std::string, at::Tensor>& other) {
  REQUIRE(one.size() == other.size());
  for (const auto& [name, tensor] : one) {
    INFO(name);
    CHECK(at::equal(tensor, other.at(name)));
  }
}

std::map<std::string, at::Tensor> trained_state(const TrainerOptions& options, const RunOptions& how = {}) {
  torch::manual_seed(how.ckpt_path ? 99 : 7);  // where a run goes on, the checkpoint has the random numbers
  Trained module("steps.pt2");
  Trainer(quiet(options)).fit(module, recorded_loader("train"), recorded_loader("val"), how);
  return state_of(module);
}

}  // namespace

TEST_CASE("a compiled step gives the loss, the gradients and the buffers of the module that Python defines") {
  const auto& references = package_references();
  for (const int step : {0, 1, 2}) {  // batches of 13, 5 and 2
    INFO("batch " << step);
    const std::string name = "step." + std::to_string(step);
    Trained module("steps.pt2");
    torch::manual_seed(step);
    bool has_looked = false;
    one_step(module, {recorded_batch(name)}, [&] {
      has_looked = true;
      for (const auto& parameter : module.named_parameters()) {
        INFO(parameter.key());
        const auto gradient = references.find(name + ".gradient." + parameter.key());
        const bool is_alias = parameter.key() == "third.weight";
        if (is_alias) continue;
        REQUIRE(parameter.value().grad().defined() == (gradient != references.end()));
        if (gradient != references.end()) CHECK(is_close(parameter.value().grad(), gradient->second));
      }
      for (const auto& buffer : module.named_buffers()) {
        INFO(buffer.key());
        CHECK(is_close(buffer.value(), references.at(name + ".buffer." + buffer.key())));
      }
    });
    CHECK(has_looked);
  }
}

TEST_CASE("a run of a package ends with Lightning's weights and metrics") {
  Trained module("plain.pt2");
  Trainer trainer(quiet({.max_epochs = 3, .num_sanity_val_steps = 0}));
  trainer.fit(module, recorded_loader("train"), recorded_loader("val"));
  for (const auto& [name, tensor] : state_of(module)) {
    INFO(name);
    CHECK(is_close(tensor, package_references().at("trained." + name)));
  }
  const MetricMap& metrics = trainer.callback_metrics();
  for (const char* name : {"train_loss", "train_loss_step", "train_loss_epoch", "seen", "val_loss", "val_accuracy"}) {
    INFO(name);
    CHECK(metrics.at(name) == Approx(package_references().at(std::string("metric.") + name).item<double>()).epsilon(1e-5));
  }
}

TEST_CASE("a module of a package has the names of the state_dict, and tied weights once") {
  Trained module("steps.pt2");
  CHECK(module.named_parameters().contains("second.weight"));
  CHECK(module.named_parameters()["third.weight"].is_same(module.named_parameters()["second.weight"]));
  CHECK_FALSE(module.named_parameters()["last.bias"].requires_grad());
  CHECK(module.named_buffers()["norm.num_batches_tracked"].scalar_type() == torch::kLong);
  CHECK(module.package().description.at("hyper_parameters").at("width").as_int() == 6);
}

TEST_CASE("a run of a package resumes to the bit") {
  const TemporaryFolder folder;
  const auto whole = trained_state({.max_epochs = 4});
  TrainerOptions half;
  half.max_epochs = 2;
  half.default_root_dir = folder.path();
  {
    torch::manual_seed(7);
    Trained module("steps.pt2");
    Trainer trainer(quiet(half));
    trainer.fit(module, recorded_loader("train"), recorded_loader("val"));
    trainer.save_checkpoint(folder / "half.ckpt");
  }
  check_same(trained_state({.max_epochs = 4}, {.ckpt_path = (folder / "half.ckpt").string()}), whole);
}

TEST_CASE("gradients of a package are accumulated and clipped as those of any module") {
  const std::vector<Batch> batches = {recorded_batch("train.0"), recorded_batch("train.1"), recorded_batch("train.2")};
  const at::Tensor mean = (gradient_of({batches[0]}) + gradient_of({batches[1]}) + gradient_of({batches[2]})) / 3;
  CHECK(is_close(gradient_of(batches), mean));
  const at::Tensor clipped = gradient_of({batches[0]}, 0.01);
  CHECK(clipped.norm().item<double>() < 0.01);
  const at::Tensor whole = gradient_of({batches[0]});
  CHECK(is_close(clipped / clipped.norm(), whole / whole.norm()));
}

TEST_CASE("weights of a package are averaged, validated and handed over as those of any module") {
  const auto trained = [](std::vector<Component<Callback>> callbacks) {
    Trained module("plain.pt2");
    std::vector<at::Tensor> seen;
    callbacks.push_back(std::make_shared<LambdaCallback>(
        LambdaCallbackOptions{.on_train_batch_end = [&](Trainer&, Module& now, const StepOutput&, const Batch&, std::int64_t) {
          seen.push_back(now.named_parameters()["last.weight"].detach().clone());
        }}));
    Trainer(quiet({.max_epochs = 1, .callbacks = callbacks})).fit(module, recorded_loader("train"));
    return std::pair(module.named_parameters()["last.weight"].detach().clone(), at::stack(seen).mean(0));
  };
  CHECK(is_close(trained({std::make_shared<WeightAveraging>()}).first, trained({}).second));
}

TEST_CASE("a class below ExportedModule adds hooks, logs and terms of the loss") {
  class Extended final : public Trained {
   public:
    Extended() : Trained("plain.pt2") {}
    StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
      StepOutput output = ExportedModule::training_step(batch, batch_idx);
      const at::Tensor penalty = named_parameters()["first.weight"].pow(2).sum();
      log("penalty", penalty);
      output.loss = 2 * output.loss + 0.5 * penalty;
      return output;
    }
  };
  Extended extended;
  const at::Tensor weight = extended.named_parameters()["first.weight"].detach().clone();
  at::Tensor gradient;
  one_step(extended, {recorded_batch("train.0")}, [&] { gradient = extended.gradient("first.weight"); });
  CHECK(is_close(gradient, 2 * gradient_of({recorded_batch("train.0")}) + weight));
}

TEST_CASE("a Predictor of a package, and of a checkpoint of its run, gives the predictions of a Trainer") {
  ExportedModule untrained({.package = package_file("steps.pt2")});
  const Batch batch = recorded_batch("val.0");
  const auto check = [&](const Predictor& predictor, const Batch& expected) {
    const Batch found = predictor.predict(batch);
    REQUIRE(found.size() == expected.size());
    for (const auto& [name, tensor] : expected.items()) CHECK(at::equal(found[name], tensor));
  };
  const auto predicted = [&](Module& module, const RunOptions& options = {}) {
    return Trainer(quiet({})).predict(module, recorded_loader("val"), options).at(0).at(0);
  };
  check(Predictor::load(package_file("steps.pt2")), predicted(untrained));

  const TemporaryFolder folder;
  std::filesystem::copy_file(package_file("steps.pt2"), folder / "moved.pt2");
  ExportedModule module({.package = folder / "moved.pt2"});
  module.set_hparams(Value::Map{{"package", (folder / "moved.pt2").string()}});
  Trainer trainer(quiet({.max_epochs = 1, .callbacks = {EMAWeightAveraging({.decay = 0.5})}}));
  trainer.override_optimizers(Registry<OptimizerFactory>::instance().make("SGD", Value::Map{{"lr", 0.1}}), nullptr);
  trainer.fit(module, recorded_loader("train"));
  trainer.save_checkpoint(folder / "a.ckpt");
  const Batch expected = predicted(untrained, {.ckpt_path = (folder / "a.ckpt").string()});
  CHECK_FALSE(at::equal(expected[0], predicted(*std::make_shared<ExportedModule>(
                                         ExportedModuleOptions{.package = package_file("steps.pt2")}))[0]));
  check(Predictor::load(folder / "a.ckpt"), expected);
  std::filesystem::remove(folder / "moved.pt2");
  CHECK_THROWS_WITH(Predictor::load(folder / "a.ckpt"), Catch::Contains("moved.pt2"));
  check(Predictor::load(folder / "a.ckpt", {.hparams = Value::Map{{"package", package_file("steps.pt2").string()}}}), expected);
}

TEST_CASE("predictions have the names that predict_step gives them") {
  Trained module("steps.pt2");
  const std::vector<Batch> outputs = Trainer(quiet({})).predict(module, recorded_loader("val")).at(0);
  REQUIRE(outputs.size() == 3);
  CHECK(outputs[2]["probabilities"].sizes() == at::IntArrayRef{3, 3});
  CHECK(at::equal(outputs[2]["label"], outputs[2]["probabilities"].argmax(1)));
}

TEST_CASE("what a package does not take is refused, with what it takes") {
  const auto error_with = [](const Batch& batch, TrainerOptions options = {}) {
    Trained module("steps.pt2");
    options.max_steps = 1;
    return error_of<std::exception>(
        [&] { Trainer(quiet(options)).fit(module, std::make_shared<FixedLoader>(std::vector<Batch>{batch})); });
  };
  const auto check_says = [](const std::string& error, const std::string& text) {
    INFO(error);
    CHECK(error.find(text) != std::string::npos);
  };
  const Batch good = recorded_batch("train.0");
  const at::Tensor x = good["x"], label = good["label"];
  const auto with = [](const at::Tensor& its_x, const at::Tensor& its_label) {
    return Batch{{"x", its_x}, {"label", its_label}};
  };
  check_says(error_with(with(x.to(torch::kDouble), label)),
             "takes \"x\" as float32 [batch, 4], and the batch has float64 [8, 4]");
  check_says(error_with(with(x.slice(1, 0, 3), label)), "float32 [8, 3]");
  check_says(error_with(with(x, label.slice(0, 0, 5))), "takes \"label\" as int64 [batch], and the batch has int64 [5]");
  check_says(error_with(Batch{{"x", x}}), "takes label, and the batch has 1 tensor");
  check_says(error_with(with(x.slice(0, 0, 1), label.slice(0, 0, 1))), "takes a batch of 2 or more");
  const std::string negative = error_with(with(x, label - 5));
  check_says(negative, "training_step of 'steps.pt2' failed");
  check_says(negative, "holds where the condition at make_packages.py:");
  check_says(error_with(good, {.precision = PrecisionFormat::kBfloat16Mixed}), "trainer.precision to 32-true");
  CHECK(error_with(Batch::of({x, label})).empty());  // by position
}

TEST_CASE("a run of another precision than the package's is refused before its sanity check") {
  class Validated : public Trained {
   public:
    Validated() : Trained("steps.pt2") {}
    void validation_step(const Batch&, std::int64_t) override { ++batches; }
    int batches = 0;
  };
  Validated module;
  Trainer trainer(quiet({.max_steps = 1, .precision = PrecisionFormat::kBfloat16Mixed, .num_sanity_val_steps = 2}));
  CHECK_THROWS_WITH(trainer.fit(module, recorded_loader("train"), recorded_loader("val")),
                    Catch::Contains("was exported for precision 32-true, and the run has bf16-mixed"));
  CHECK(module.batches == 0);
}

TEST_CASE("a package is refused on another device than it was compiled for") {
  Trained module("plain.pt2");
  Trainer trainer(quiet({.max_steps = 1, .accelerator = "QueuedAccelerator"}));
  CHECK_THROWS_WITH(trainer.fit(module, recorded_loader("train")),
                    Catch::Contains("plain.pt2' was compiled for the CPU, and the run computes on ") &&
                        Catch::Contains("Set trainer.accelerator to cpu."));
}

TEST_CASE("a parameter that was frozen when it was exported is not trained") {
  Trained module("steps.pt2");
  module.named_parameters()["last.bias"].set_requires_grad(true);
  const std::string error =
      error_of<ConfigError>([&] { Trainer(quiet({.max_steps = 1})).fit(module, recorded_loader("train")); });
  CHECK(error.find("last.bias was frozen when") != std::string::npos);
}

TEST_CASE("a parameter that is frozen here gets no gradient, and the others theirs") {
  Trained module("plain.pt2");
  module.named_parameters()["first.weight"].set_requires_grad(false);
  const auto before = state_of(module);
  Trainer(quiet({.max_epochs = 1})).fit(module, recorded_loader("train"));
  CHECK(at::equal(module.named_parameters()["first.weight"], before.at("first.weight")));
  CHECK_FALSE(at::equal(module.named_parameters()["last.weight"], before.at("last.weight")));
}
