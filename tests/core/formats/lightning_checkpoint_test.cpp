#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "core/formats/lightning_regression.h"
#include "levin/core/base/error.h"
#include "support/error_of.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

using Catch::Matchers::Contains;

constexpr double kOtherLr = 1;  ///< than the checkpoint's

RunOptions from(const std::string& name) { return {.ckpt_path = (kTorchFiles / name).string()}; }

TEST_CASE("fit resumes from a Lightning checkpoint, and comes to the weights that Lightning comes to") {
  for (const std::string& optimizer : kOptimizers) {
    CAPTURE(optimizer);
    LightningRegression module(optimizer, kOtherLr);
    Trainer trainer(quiet_options(4));
    trainer.fit(module, lightning_batches(), {}, from("lightning_" + optimizer + ".ckpt"));
    CHECK(module.batches == 8);
    CHECK(trainer.current_epoch() == 4);
    CHECK(trainer.global_step() == 16);
    CHECK(distance(module, kTorchFiles / ("lightning_" + optimizer + "_later.pt")) < 1e-6);
  }
}

TEST_CASE("fit resumes with the weights that were trained, and test takes their averages") {
  const TemporaryFolder folder;
  TrainerOptions options = quiet_options(4);
  options.log_file = folder / "log";
  LightningRegression module("Adam", kOtherLr);
  Trainer(options).fit(module, lightning_batches(), {}, from("lightning_averaged.ckpt"));
  CHECK(distance(module, kTorchFiles / "lightning_averaged_later.pt") < 1e-6);
  CHECK_THAT(read_text(folder / "log"), Contains("fit resumes from the trained ones"));

  const TensorFile file = TensorFile::open(kTorchFiles / "lightning_averaged.ckpt");
  Trainer(options).test(module, {lightning_batches()}, from("lightning_averaged.ckpt"));
  for (const auto& item : module.named_parameters()) {
    CHECK(at::equal(item.value(), file.content.tensors.at("state_dict." + item.key())));
    CHECK_FALSE(at::equal(item.value(), file.content.tensors.at("current_model_state." + item.key())));
  }
  CHECK_THAT(read_text(folder / "log"), Contains("It has weights to evaluate and trained weights"));
}

TEST_CASE("an epoch that was under way in Lightning begins again, with a warning") {
  LightningRegression module("AdamW", kOtherLr);
  const TemporaryFolder folder;
  TrainerOptions options = quiet_options(2);
  options.log_file = folder / "log";
  Trainer trainer(options);
  trainer.fit(module, lightning_batches(), {}, from("lightning_within_epoch.ckpt"));
  CHECK(module.batches == 4);
  CHECK(trainer.global_step() == 10);
  CHECK_THAT(read_text(folder / "log"), Contains("was saved within epoch 1, which begins again"));
}

TEST_CASE("an optimizer that is not the Lightning checkpoint's is an error") {
  const auto error_of = [](const std::string& optimizer, const std::string& file) {
    LightningRegression module(optimizer, kOtherLr);
    Trainer trainer(quiet_options(4));
    return levin::test::error_of<ConfigError>([&] { trainer.fit(module, lightning_batches(), {}, from(file)); });
  };
  CHECK_THAT(error_of("Adam", "lightning_AdamW.ckpt"),
             Contains("has decoupled_weight_decay: true, but the run uses Adam") && Contains("lightning_AdamW.ckpt"));
  CHECK_THAT(error_of("SGD", "lightning_RMSprop.ckpt"), Contains("has no option 'dampening', but the run uses SGD"));
  CHECK_THAT(error_of("Adam", "lightning_SGD.ckpt"), Contains("has no option 'betas'"));
}

TEST_CASE("test takes weights of any kind of file, and fit says that weights only are for init_from") {
  LightningRegression module("SGD", kOtherLr);
  Trainer trainer(quiet_options(1));
  trainer.test(module, {lightning_batches()}, from("lightning_SGD_later.pt"));
  CHECK(distance(module, kTorchFiles / "lightning_SGD_later.pt") == 0);
  CHECK_THROWS_WITH(trainer.fit(module, lightning_batches(), {}, from("lightning_SGD_later.pt")),
                    Contains("state_dict of torch.save(), holds weights only") && Contains("init_from"));
}

TEST_CASE("map_location that is no device is an error of the run, and of loading weights") {
  LightningRegression module("SGD");
  RunOptions run = from("lightning_SGD.ckpt");
  run.map_location = "abacus";
  const auto refusal = Contains("map_location: 'abacus'");
  CHECK_THROWS_WITH(Trainer(quiet_options(1)).test(module, {lightning_batches()}, run), refusal);
  CHECK_THROWS_WITH(load_weights(module, kTorchFiles / "lightning_SGD.ckpt", {.map_location = "abacus"}), refusal);
}

TEST_CASE(
    "fit begins with weights of a file, and nothing else of it; what does not fit is an error, or without strict a report") {
  const TemporaryFolder folder;
  TrainerOptions options = quiet_options(0);
  options.log_file = folder / "log";
  Trainer trainer(options);
  InitialWeights weights{.path = kTorchFiles / "lightning_SGD.ckpt"};
  LightningRegression module("SGD", kOtherLr);
  trainer.fit(module, lightning_batches(), {}, {.init_from = weights});
  CHECK(trainer.global_step() == 0);
  const auto tensors = TensorFile::open(weights.path).content.tensors;
  for (const auto& item : module.named_parameters()) CHECK(at::equal(item.value(), tensors.at("state_dict." + item.key())));
  CHECK_THROWS_WITH(trainer.fit(module, lightning_batches(), {}, {.ckpt_path = weights.path.string(), .init_from = weights}),
                    Contains("ckpt_path and init_from are both given"));

  LightningRegression wide("SGD", 0.05, 4);
  CHECK_THROWS_WITH(Trainer(options).fit(wide, lightning_batches(), {}, {.init_from = weights}), Contains("of another shape"));
  weights.options.strict = false;
  Trainer(options).fit(wide, lightning_batches(), {}, {.init_from = weights});
  CHECK_THAT(read_text(folder / "log"), Contains("1 loaded; 3 of another shape (first.bias, first.weight, second.weight)"));
}

}  // namespace
}  // namespace levin::test
