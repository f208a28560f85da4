#include "levin/core/formats/tensor_file.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "core/formats/lightning_regression.h"
#include "levin/callbacks/lambda_callback.h"
#include "levin/core/base/error.h"
#include "support/error_of.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

using Catch::Matchers::Contains;

void change_last_byte(const std::filesystem::path& file) {
  std::string bytes = read_text(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(file, std::ios::binary) << bytes;
}

TEST_CASE("a file has a kind, a manifest, tensors and checksums") {
  const TemporaryFolder folder;
  Checkpoint checkpoint;
  checkpoint.manifest["epoch"] = 3;
  checkpoint.tensors = {{"state_dict.a", torch::zeros({2, 3})}, {"state_dict.b", torch::zeros({}, at::kLong)}};
  checkpoint.save(folder / "own.ckpt");
  const TensorFile own = TensorFile::open(folder / "own.ckpt");
  CHECK(std::string(kind_name(own.kind)) == "levin checkpoint");
  CHECK(own.content.manifest.at("epoch").as_int() == 3);
  CHECK(own.names == std::vector<std::string>{"state_dict.b", "state_dict.a"});  // larger elements come first in the file
  for (const bool damaged : {false, true}) {
    if (damaged) change_last_byte(folder / "own.ckpt");
    const auto checks = TensorFile::checks(folder / "own.ckpt");
    REQUIRE(checks.size() == 2);
    CHECK(checks[0].holds);
    CHECK(checks[1].what == "tensor data");
    CHECK(checks[1].holds == !damaged);
  }
  CHECK_THROWS_WITH(TensorFile::checks(kTorchFiles / "legacy.pt"), Contains("before version 1.6"));
  CHECK_THROWS_WITH(TensorFile::checks(kTorchFiles / "README.md"), Contains("README.md"));
}

TEST_CASE("an error about a file says nothing of others in its folder") {
  const TemporaryFolder folder;
  Checkpoint().save(folder / "whole.ckpt");
  std::ofstream(folder / "broken.ckpt", std::ios::binary) << std::string("\x10\0\0\0\0\0\0\0{\"a\": 1", 14);
  CHECK_THAT(error_of<IoError>([&] { TensorFile::checks(folder / "broken.ckpt"); }),
             Contains("broken.ckpt") && Contains("ends within its header") && !Contains("whole.ckpt"));
  // An error of a checkpoint to resume from names another checkpoint, but no other kinds of files.
  CHECK_THROWS_WITH(TensorFile::open(folder / "broken.ckpt"),
                    Contains("newest whole checkpoint in its folder") && Contains("whole.ckpt"));
  std::filesystem::rename(folder / "broken.ckpt", folder / "broken.safetensors");
  CHECK_THROWS_WITH(TensorFile::open(folder / "broken.safetensors"), !Contains("whole.ckpt"));
}

TEST_CASE("LibTorch's pickle_load() reads an exported state_dict as a dict of tensors") {
  const TemporaryFolder folder;
  export_file(kTorchFiles / "lightning_SGD.ckpt", folder / "weights.pt", {.format = ExportFormat::kStateDict});
  const std::string bytes = read_text(folder / "weights.pt");
  const auto read = torch::pickle_load({bytes.begin(), bytes.end()}).toGenericDict();
  const TensorFile original = TensorFile::open(kTorchFiles / "lightning_SGD.ckpt");
  const auto weights = original.weights();
  REQUIRE(read.size() == weights.size());
  for (const auto& [name, tensor] : weights) CHECK(at::equal(read.at(name).toTensor(), tensor));
}

TEST_CASE("what is exported reads back the same, in each format") {
  const TemporaryFolder folder;
  const TensorFile original = TensorFile::open(kTorchFiles / "state_dict.pt");
  export_file(kTorchFiles / "state_dict.pt", folder / "again.pt", {.format = ExportFormat::kStateDict});
  const TensorFile again = TensorFile::open(folder / "again.pt");
  CHECK(again.names == original.names);
  for (const auto& [name, tensor] : original.content.tensors) {
    CAPTURE(name);
    const at::Tensor& there = again.content.tensors.at(name);
    CHECK(there.scalar_type() == tensor.scalar_type());
    CHECK(there.strides() == tensor.strides());
    CHECK(at::equal(there.to(at::kComplexDouble), tensor.to(at::kComplexDouble)));
  }
  CHECK(again.content.tensors.at("row").is_alias_of(again.content.tensors.at("transposed")));
  CHECK_THROWS_WITH(export_file(kTorchFiles / "state_dict.pt", folder / "c.safetensors", {}), Contains("ComplexDouble"));

  export_file(kTorchFiles / "lightning_SGD.ckpt", folder / "part.safetensors", {.prefix = "first.", .add_prefix = "net."});
  const TensorFile part = TensorFile::open(folder / "part.safetensors");
  CHECK(part.kind == TensorFileKind::kSafetensors);
  CHECK(part.names == std::vector<std::string>{"net.bias", "net.weight"});
  CHECK_THROWS_WITH(export_file(kTorchFiles / "lightning_SGD.ckpt", folder / "none.pt", {.prefix = "third."}),
                    Contains("No weight") && Contains("'third.'"));
  CHECK_THROWS_WITH(export_file(folder / "part.safetensors", folder / "part.safetensors", {}), Contains("overwrite itself"));
}

TEST_CASE("a checkpoint that is exported for Lightning says what Lightning's own does") {
  for (const std::string optimizer : {"SGD", "Adam", "AdamW", "RMSprop", "Adagrad"}) {
    CAPTURE(optimizer);
    const TemporaryFolder folder;
    LightningRegression module(optimizer);
    module.begin_alike();
    Trainer trainer(quiet_options(2));
    trainer.fit(module, lightning_batches());
    trainer.save_checkpoint(folder / "own.ckpt");
    Checkpoint own = Checkpoint::load(folder / "own.ckpt");
    own.manifest["datamodule_hyper_parameters"] = Value(Value::Map{{"batch_size", Value(32)}});
    own.save(folder / "own.ckpt");
    export_file(folder / "own.ckpt", folder / "lightning.ckpt", {.format = ExportFormat::kLightning});
    const TensorFile made = TensorFile::open(folder / "lightning.ckpt");
    const TensorFile real = TensorFile::open(kTorchFiles / ("lightning_" + optimizer + ".ckpt"));
    CHECK(made.kind == TensorFileKind::kLightning);
    for (const auto& [name, tensor] : real.content.tensors) {
      CAPTURE(name);
      CHECK(at::allclose(made.content.tensors.at(name), tensor, 1e-5, 1e-6));
    }
    for (const char* key : {"epoch", "global_step", "loops"})
      CHECK(made.content.manifest.at(key) == real.content.manifest.at(key));
    const auto last_lr = [](const TensorFile& file) {
      return file.content.manifest.at("lr_schedulers").as_list()[0].at("_last_lr");
    };
    CHECK(last_lr(made) == last_lr(real));
    CHECK(made.content.manifest.at("datamodule_hyper_parameters") == Value(Value::Map{{"batch_size", Value(32)}}));
    // And levin resumes from a file that it has exported, as from its own.
    LightningRegression resumed(optimizer);
    Trainer(quiet_options(4)).fit(resumed, lightning_batches(), {}, {.ckpt_path = (folder / "lightning.ckpt").string()});
    CHECK(distance(resumed, kTorchFiles / ("lightning_" + optimizer + "_later.pt")) < 1e-6);
  }
}

TEST_CASE("averaged weights are exported for Lightning with those that are trained") {
  const TemporaryFolder folder;
  const std::filesystem::path file = kTorchFiles / "lightning_averaged.ckpt";
  export_file(file, folder / "made.ckpt", {.format = ExportFormat::kLightning, .add_prefix = "net."});
  const auto real = TensorFile::open(file).content.tensors;
  const auto made = TensorFile::open(folder / "made.ckpt").content.tensors;
  for (const auto& [name, tensor] : real) {
    const auto weights = name.starts_with("state_dict.") || name.starts_with("current_model_state.");
    CHECK(made.at(weights ? std::string(name).insert(name.find('.') + 1, "net.") : name).equal(tensor));
  }
  CHECK(made.contains("averaging_state.n_averaged"));
}

TEST_CASE("a checkpoint of within an epoch is so for Lightning, too") {
  const TemporaryFolder folder;
  LightningRegression module("SGD");
  TrainerOptions options = quiet_options(2);
  const auto save = [&](Trainer& trainer, Module&, const StepOutput&, const Batch&, std::int64_t) {
    if (trainer.global_step() == 6) trainer.save_checkpoint(folder / "own.ckpt");
  };
  options.callbacks = {LambdaCallback({.on_train_batch_end = save})};
  Trainer(options).fit(module, lightning_batches());
  export_file(folder / "own.ckpt", folder / "lightning.ckpt", {.format = ExportFormat::kLightning});
  const Value loops = TensorFile::open(folder / "lightning.ckpt").content.manifest.at("loops");
  CHECK(loops.at("epochs_done").as_int() == 1);
  CHECK(loops.at("begins_epoch_again").as_bool());
  CHECK(loops == TensorFile::open(kTorchFiles / "lightning_within_epoch.ckpt").content.manifest.at("loops"));
}

}  // namespace
}  // namespace levin::test
