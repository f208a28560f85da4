#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "levin/core/config/registry.h"
#include "levin/core/random/seed.h"
#include "levin/core/trainer.h"
#include "levin/data/data_loader.h"
#include "levin/data/dataset.h"
#include "levin/models/autoencoder.h"
#include "levin/models/classifiers.h"
#include "levin/models/mlp_regressor.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

/// The same samples for training and evaluation, with the facts that it is given.
struct Samples final : DataModule {
  explicit Samples(Batch batch, DataFacts told = {}) : samples(std::move(batch)), known(std::move(told)) {}
  LoaderPtr train_dataloader() override { return DataLoader(TensorDataset(samples), {.batch_size = 32, .shuffle = true}); }
  LoaderList val_dataloaders() override { return DataLoader(TensorDataset(samples), {.batch_size = 50}); }
  LoaderList test_dataloaders() override { return val_dataloaders(); }
  DataFacts facts() const override { return known; }

  Batch samples;
  DataFacts known;
};

TrainerOptions quiet_run(std::int64_t epochs) { return {.max_epochs = epochs, .threads = 1, .quiet = true}; }

/// Fits a module, and gives a metric of a test on the same data.
double fitted(Module& module, Samples& data, std::int64_t epochs, const std::string& metric) {
  Trainer trainer(quiet_run(epochs));
  trainer.fit(module, data);
  return trainer.test(module, data).at(0).at(metric);
}

/// Points inside a circle, and those around it.
Samples circle() {
  const at::Tensor points = torch::rand({200, 2}) * 2 - 1;
  return Samples({{"features", points}, {"label", points.square().sum(1).gt(0.6).to(torch::kLong)}},
                 {.features = {2}, .classes = 2});
}

/// Images of a bright row or of a bright column, in noise.
Samples stripes() {
  at::Tensor images = 0.5 * torch::randn({120, 1, 6, 6});
  const at::Tensor label = torch::arange(120) % 2;
  for (std::int64_t i = 0; i < 120; ++i) images[i][0].select(i % 2, i / 2 % 6) += 1.5;
  return Samples({{"features", images}, {"label", label}}, {.features = {1, 6, 6}, .classes = 2});
}

/// A measure around 100,000 of four columns, with the facts that TableDataModule has of it.
Samples prices() {
  const at::Tensor columns = torch::randn({200, 4});
  const at::Tensor price = 1e5 + 2e4 * columns.select(1, 0) - 1e4 * columns.select(1, 1).abs();
  return Samples(
      {{"features", columns}, {"label", price}},
      {.features = {4}, .label_mean = price.mean().item<double>(), .label_deviation = price.std(false).item<double>()});
}

struct OpenClassifier : MLPClassifier {
  using MLPClassifier::loss, MLPClassifier::MLPClassifier;
};
struct OpenRegressor : MLPRegressor {
  using MLPRegressor::loss, MLPRegressor::MLPRegressor;
};

TEST_CASE("the loss of a classifier and its gradients are those of the network written by hand") {
  seed_everything(1);
  OpenClassifier module({.inputs = 6, .classes = 3, .hidden = {5}});
  const at::Tensor features = torch::randn({4, 2, 3});
  const at::Tensor label = torch::tensor({2, 0, 1, 2});
  module.loss(module.forward(features), {{"features", features}, {"label", label}}).backward();

  const auto parameters = module.parameters();
  REQUIRE(parameters.size() == 4);
  const at::Tensor flat = features.reshape({4, 6});
  const at::Tensor before = flat.mm(parameters[0].detach().t()) + parameters[1].detach();
  const at::Tensor hidden = before * before.gt(0);
  const at::Tensor scores = (hidden.mm(parameters[2].detach().t()) + parameters[3].detach()).exp();
  const at::Tensor share = scores / scores.sum(1, true);
  const at::Tensor expected = -share.gather(1, label.unsqueeze(1)).log().mean();
  CHECK(module.loss(module.forward(features), {{"label", label}}).item<double>() == Approx(expected.item<double>()));
  // The derivative of the loss by the scores is share - label, of 4 samples.
  const at::Tensor by_scores = (share - torch::one_hot(label, 3)) / 4;
  const at::Tensor by_hidden = by_scores.mm(parameters[2].detach()) * before.gt(0);
  CHECK(torch::allclose(parameters[2].grad(), by_scores.t().mm(hidden), 1e-5, 1e-6));
  CHECK(torch::allclose(parameters[3].grad(), by_scores.sum(0), 1e-5, 1e-6));
  CHECK(torch::allclose(parameters[0].grad(), by_hidden.t().mm(flat), 1e-5, 1e-6));
  CHECK(torch::allclose(parameters[1].grad(), by_hidden.sum(0), 1e-5, 1e-6));
}

TEST_CASE("a regressor's error is in deviations of the labels, and a linear one is a line") {
  OpenRegressor module({.inputs = 1, .hidden = {}});
  Samples data({{"features", torch::tensor({{0.0F}, {1.0F}})}, {"label", torch::tensor({10.0F, 30.0F})}},
               {.features = {1}, .label_mean = 20, .label_deviation = 10});
  Trainer(TrainerOptions{.max_epochs = 0, .quiet = true}).fit(module, data);
  const torch::NoGradGuard no_gradients;
  module.parameters()[0].fill_(0.5);
  module.parameters()[1].fill_(-1);
  const at::Tensor given = module.forward(data.samples["features"]);
  CHECK(torch::allclose(given, torch::tensor({10.0, 15.0}, torch::kDouble)));  // (0.5 x - 1) * 10 + 20
  CHECK(module.loss(given, data.samples).item<double>() == Approx((0 + 1.5 * 1.5) / 2));
}

TEST_CASE("each learns what it is for, with sizes that the data has") {
  seed_everything(1);
  SECTION("a class of a table's rows") {
    Samples data = circle();
    MLPClassifier module({.lr = 0.01});
    CHECK(fitted(module, data, 40, "test_acc") > 0.97);
    CHECK(module.hparams().at("inputs") == Value(2));
    CHECK(module.hparams().at("classes") == Value(2));
    const Batch predicted = module.predict_step(data.samples, 0);
    CHECK(predicted["label"].eq(data.samples["label"]).to(torch::kFloat).mean().item<double>() > 0.97);
    CHECK(torch::allclose(predicted["probability"].sum(1), torch::ones({200})));
  }
  SECTION("a class of images, which also stand in a row") {
    Samples data = stripes();
    ConvClassifier module({.widths = {8, 8}, .lr = 0.01});
    CHECK(fitted(module, data, 15, "test_acc") > 0.97);
    CHECK(module.hparams().at("shape") == Value(Value::List{1, 6, 6}));
    const at::Tensor& images = data.samples["features"];
    module.eval();
    CHECK(torch::equal(module.forward(images), module.forward(images.flatten(1))));
  }
  SECTION("a number of any unit") {
    Samples data = prices();
    MLPRegressor module({.lr = 0.01});
    CHECK(fitted(module, data, 60, "test_mae") < 2000);
    CHECK(module.predict_step(data.samples, 0)["value"].mean().item<double>() == Approx(data.known.label_mean).epsilon(0.02));
  }
  SECTION("samples from a code of two numbers, which is all that there is to them") {
    const at::Tensor features = torch::randn({200, 2}).mm(torch::randn({2, 8})).reshape({200, 2, 4});
    Samples data({{"features", features}}, {.features = {2, 4}});
    Autoencoder module({.hidden = {16}, .code = 2, .lr = 0.01});
    CHECK(fitted(module, data, 80, "test_loss") < 0.05 * features.square().mean().item<double>());
    const Batch predicted = module.predict_step(data.samples, 0);
    CHECK(predicted["code"].sizes() == at::IntArrayRef({200, 2}));
    CHECK(torch::equal(predicted["reconstruction"], module.forward(features)));
  }
}

TEST_CASE("what a checkpoint holds makes the same module, whatever other data says") {
  seed_everything(1);
  const TemporaryFolder folder;
  Samples data = prices();
  MLPRegressor module({.hidden = {4}});
  Trainer trainer(quiet_run(1));
  trainer.fit(module, data);
  trainer.save_checkpoint(folder / "a.ckpt");
  const auto loaded = Module::load_from_checkpoint<MLPRegressor>(folder / "a.ckpt");
  CHECK(torch::equal(loaded->forward(data.samples["features"]), module.forward(data.samples["features"])));

  Samples other = prices();
  other.known.label_mean = 0;
  other.known.label_deviation = 3;
  const double error = trainer.test(module, other).at(0).at("test_mae");
  CHECK(trainer.test(*loaded, other).at(0).at("test_mae") == error);
  MLPRegressor unscaled({.hidden = {4}});
  Samples untold({{"features", data.samples["features"]}, {"label", data.samples["label"]}}, {.features = {4}});
  const double told_by_fit = fitted(unscaled, untold, 1, "test_mae");
  CHECK(trainer.test(unscaled, data).at(0).at("test_mae") == told_by_fit);
  MLPRegressor untrained({.hidden = {4}});
  CHECK(trainer.test(untrained, other, {.ckpt_path = (folder / "a.ckpt").string()}).at(0).at("test_mae") == error);
}

// What else does not fit is in acceptance/cases/models.txt.
TEST_CASE("a module whose data knows no sizes says what to set") {
  MLPClassifier module({});
  Samples data({{"features", torch::ones({4, 3})}, {"label", torch::tensor({0, 1, 2, 1})}});
  CHECK_THROWS_WITH(Trainer(quiet_run(1)).fit(module, data), Catch::Contains("model.inputs: it is not given"));
}

TEST_CASE("labels of the wrong kind name what the data modules have") {
  MLPClassifier classifier({.inputs = 3, .classes = 2, .hidden = {}});
  Samples floats({{"features", torch::ones({4, 3})}, {"label", torch::ones({4})}});
  CHECK_THROWS_WITH(Trainer(quiet_run(1)).fit(classifier, floats),
                    Catch::Contains("for a table set data.task to classification, for ArrayDataModule write integers"));
  MLPRegressor regressor({.inputs = 3, .hidden = {}});
  Samples integers({{"features", torch::ones({4, 3})}, {"label", torch::ones({4}, torch::kLong)}});
  CHECK_THROWS_WITH(Trainer(quiet_run(1)).fit(regressor, integers), Catch::Contains("for ArrayDataModule write floats"));
  MLPClassifier unsized({.inputs = 3});
  CHECK_THROWS_WITH(Trainer(quiet_run(1)).fit(unsized, floats),
                    Catch::Contains("ArrayDataModule does where they are integers"));
}

}  // namespace
}  // namespace levin::test
