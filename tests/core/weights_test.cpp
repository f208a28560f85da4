#include "levin/core/weights.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <functional>

#include "levin/core/base/error.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/checkpoint/module_state.h"
#include "levin/core/checkpoint/safetensors_file.h"
#include "levin/core/module.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Names = std::vector<std::string>;

struct Backbone final : torch::nn::Module {
  torch::nn::Linear conv = register_module("conv", torch::nn::Linear(3, 4));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(4));
  at::Tensor scale = register_parameter("scale", torch::tensor(2.0));
  at::Tensor none = register_buffer("none", torch::empty({0, 3}));
};

struct Network : torch::nn::Module {
  explicit Network(int classes = 2) {
    backbone = register_module("backbone", std::make_shared<Backbone>());
    head = register_module("head", torch::nn::Linear(4, classes));
  }
  std::shared_ptr<Backbone> backbone;
  torch::nn::Linear head{nullptr};
};

std::map<std::string, at::Tensor> tensors_of(const torch::nn::Module& module, const std::string& before = "") {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& item : module.named_parameters()) tensors[before + item.key()] = item.value().detach().clone();
  for (const auto& item : module.named_buffers()) tensors[before + item.key()] = item.value().clone();
  return tensors;
}

bool are_equal(const torch::nn::Module& one, const torch::nn::Module& other) {
  const auto left = tensors_of(one);
  const auto right = tensors_of(other);
  return std::all_of(left.begin(), left.end(), [&](const auto& item) { return at::equal(item.second, right.at(item.first)); });
}

std::string error_of(const std::function<void()>& call) { return levin::test::error_of<ConfigError>(call); }

struct WidthOptions {
  std::int64_t width = 3;
  double dropout = 0.5;
  static void declare(OptionList<WidthOptions>& options) {
    options.add("width", &WidthOptions::width, "Width").min(1);
    options.add("dropout", &WidthOptions::dropout, "Dropout").min(0).max(1);
  }
};

struct Wide final : Module {
  using Options = WidthOptions;
  explicit Wide(WidthOptions given = {}) : options(checked("Wide", given)) {
    weight = register_parameter("weight", torch::randn({options.width}));
  }
  StepOutput training_step(const Batch&, std::int64_t) override { return weight.sum(); }
  WidthOptions options;
  at::Tensor weight;
};

struct Plain final : Module {
  StepOutput training_step(const Batch&, std::int64_t) override { return weight.sum(); }
  at::Tensor weight = register_parameter("weight", torch::zeros({4}));
};

}  // namespace

TEST_CASE("a checkpoint has a module's parameters and buffers by name, and comes back in a module that they all fit") {
  struct Saved : Network {
    Saved() {
      register_parameter("tied", head->weight);
      register_parameter("absent", at::Tensor(), /*requires_grad=*/false);
    }
  } net, fresh;
  TemporaryFolder folder;
  net.backbone->norm->forward(torch::randn({5, 4}));
  Checkpoint checkpoint;
  save_module(net, checkpoint);
  Names names;
  for (const auto& [name, tensor] : checkpoint.tensors) names.push_back(name);
  CHECK(names == Names{"state_dict.backbone.conv.bias", "state_dict.backbone.conv.weight", "state_dict.backbone.none",
                       "state_dict.backbone.norm.bias", "state_dict.backbone.norm.num_batches_tracked",
                       "state_dict.backbone.norm.running_mean", "state_dict.backbone.norm.running_var",
                       "state_dict.backbone.norm.weight", "state_dict.backbone.scale", "state_dict.head.bias",
                       "state_dict.head.weight", "state_dict.tied"});
  checkpoint.save(folder / "net.ckpt");
  REQUIRE_FALSE(are_equal(fresh, net));
  load_module(fresh, Checkpoint::load(folder / "net.ckpt"));
  CHECK(are_equal(fresh, net));
  CHECK(fresh.head->weight.requires_grad());
  CHECK(fresh.head->weight.is_leaf());
  CHECK(fresh.named_parameters()["tied"].data_ptr() == fresh.head->weight.data_ptr());

  checkpoint.tensors.erase("state_dict.backbone.scale");
  checkpoint.tensors["state_dict.second.weight"] = torch::ones({1});
  Saved other;
  const at::Tensor before = other.head->weight.detach().clone();
  CHECK_THROWS_WITH(load_module(other, checkpoint),
                    Contains("missing from the file: backbone.scale\n") && Contains("not in the module: second.weight\n"));
  CHECK(at::equal(other.head->weight, before));
}

TEST_CASE("weights come from a checkpoint, and from any safetensors file") {
  TemporaryFolder folder;
  torch::manual_seed(1);
  Network net;
  net.backbone->norm->forward(torch::randn({5, 4}));
  Checkpoint checkpoint;
  checkpoint.manifest["epoch"] = 3;
  checkpoint.tensors = tensors_of(net, "state_dict.");
  checkpoint.tensors["optimizer_states.0.state.0.step"] = torch::ones({1});
  checkpoint.save(folder / "net.ckpt");
  save_safetensors(folder / "net.safetensors", tensors_of(net));
  for (const char* file : {"net.ckpt", "net.safetensors"}) {
    CAPTURE(file);
    Network fresh;
    CHECK(load_weights(fresh, folder / file).loaded.size() == 11);
    CHECK(are_equal(fresh, net));
    CHECK(fresh.head->weight.requires_grad());
    CHECK(fresh.head->weight.is_leaf());
  }
}

TEST_CASE("weights that differ are an error that names file and all names, and changes nothing, unless it is not strict") {
  TemporaryFolder folder;
  Network net;
  auto tensors = tensors_of(net);
  tensors.erase("backbone.conv.bias");
  tensors["backbone.conv.bais"] = torch::zeros({4});
  tensors["head.weight"] = torch::zeros({7, 4});
  tensors["extra"] = torch::zeros({1});
  tensors["backbone.scale"] = torch::tensor(5.0);
  save_safetensors(folder / "w.safetensors", tensors);
  Network fresh;
  const auto before = tensors_of(fresh);
  const std::string error = error_of([&] { load_weights(fresh, folder / "w.safetensors"); });
  CHECK_THAT(error, Contains("The weights in '" + (folder / "w.safetensors").string() + "' do not fit the module:"));
  CHECK_THAT(error, Contains("\n  missing from the file: backbone.conv.bias\n"));
  CHECK_THAT(error, Contains("\n  not in the module: backbone.conv.bais (did you mean 'backbone.conv.bias'?), extra\n"));
  CHECK_THAT(error, Contains("\n  of another shape: head.weight ([7, 4] saved, [2, 4] in the module)\n"));
  CHECK_THAT(error, EndsWith("\nSet strict to false to load what fits."));
  CHECK(fresh.backbone->scale.item<float>() == 2.0F);

  const WeightsReport report = load_weights(fresh, folder / "w.safetensors", {.strict = false});
  CHECK(report.missing == Names{"backbone.conv.bias"});
  CHECK(report.unexpected == Names{"backbone.conv.bais", "extra"});
  CHECK(report.misshaped == Names{"head.weight"});
  CHECK(report.loaded == Names{"backbone.conv.weight", "backbone.none", "backbone.norm.bias",
                               "backbone.norm.num_batches_tracked", "backbone.norm.running_mean", "backbone.norm.running_var",
                               "backbone.norm.weight", "backbone.scale", "head.bias"});
  CHECK(fresh.backbone->scale.item<float>() == 5.0F);
  CHECK(at::equal(fresh.backbone->conv->weight, net.backbone->conv->weight));
  CHECK(at::equal(fresh.head->weight, before.at("head.weight")));
  CHECK(at::equal(fresh.backbone->conv->bias, before.at("backbone.conv.bias")));
}

TEST_CASE("a part of a file goes into a part of a module, by prefix and other names") {
  TemporaryFolder folder;
  Network net;
  save_safetensors(folder / "w.safetensors", tensors_of(net, "model."));
  Network fresh;
  load_weights(*fresh.backbone, folder / "w.safetensors", {.prefix = "model.backbone."});
  CHECK(are_equal(*fresh.backbone, *net.backbone));
  CHECK_FALSE(are_equal(*fresh.head, *net.head));

  auto tensors = tensors_of(*net.backbone);
  std::map<std::string, at::Tensor> others;
  for (const auto& [name, tensor] : tensors) others[name.starts_with("conv.") ? "features.0." + name.substr(5) : name] = tensor;
  others["features.9"] = torch::ones({1});
  save_safetensors(folder / "other.safetensors", others);
  Network renamed;
  const WeightsReport report =
      load_weights(renamed, folder / "other.safetensors",
                   {.strict = false, .rename = {{"features.", "old."}, {"features.0.", "backbone.conv."}, {"", "backbone."}}});
  CHECK(are_equal(*renamed.backbone, *net.backbone));
  CHECK(report.unexpected == Names{"old.9"});
  CHECK(report.missing == Names{"head.bias", "head.weight"});
  CHECK_THAT(error_of([&] {
               load_weights(renamed, folder / "other.safetensors", {.rename = {{"norm.weight", "norm.bias"}}});
             }),
             Contains("'norm.bias' and 'norm.weight' in '") && Contains("would both be renamed to 'norm.bias'"));
}

TEST_CASE("names that differ in their beginning alone are an error that says which") {
  TemporaryFolder folder;
  Network net;
  save_safetensors(folder / "long.safetensors", tensors_of(net, "model.net."));
  CHECK_THAT(error_of([&] { load_weights(net, folder / "long.safetensors"); }),
             EndsWith("\nNames of the file begin with 'model.net.': set prefix to \"model.net.\"."));
  CHECK_THAT(error_of([&] { load_weights(net, folder / "long.safetensors", {.prefix = "model."}); }),
             EndsWith("\nNames of the file begin with 'net.': set prefix to \"model.net.\"."));
  save_safetensors(folder / "short.safetensors", tensors_of(*net.backbone));
  CHECK_THAT(error_of([&] { load_weights(net, folder / "short.safetensors", {.strict = false}); }),
             EndsWith("\nNames of the module begin with 'backbone.': set rename to {\"\": \"backbone.\"}."));
  Checkpoint checkpoint;
  checkpoint.tensors = tensors_of(*net.backbone);
  CHECK_THAT(error_of([&] { load_module(net, checkpoint); }),
             Contains("Names of the module begin with 'backbone.'") && Contains("--add_prefix backbone."));
}

TEST_CASE("names with a part that those of the module lack are an error that says how to rename them") {
  TemporaryFolder folder;
  Network net;
  std::map<std::string, at::Tensor> compiled;
  for (const auto& [name, tensor] : tensors_of(net)) {
    const std::size_t dot = name.find('.');
    compiled[name.substr(0, dot) + "._orig_mod" + name.substr(dot)] = tensor;
  }
  save_safetensors(folder / "compiled.safetensors", compiled);
  const std::string error = error_of([&] { load_weights(net, folder / "compiled.safetensors"); });
  CHECK_THAT(error, EndsWith("\nNames of the file have a part that the module's lack: set rename to "
                             "{\"backbone._orig_mod.\": \"backbone.\", \"head._orig_mod.\": \"head.\"}."));
  Network loaded;
  load_weights(loaded, folder / "compiled.safetensors",
               {.rename = {{"backbone._orig_mod.", "backbone."}, {"head._orig_mod.", "head."}}});
  CHECK(are_equal(*loaded.backbone, *net.backbone));
}

TEST_CASE("a file of which nothing fits is an error, also when it is not strict") {
  TemporaryFolder folder;
  Network net;
  save_safetensors(folder / "other.safetensors", {{"a", torch::ones({1})}});
  save_safetensors(folder / "empty.safetensors", {});
  Checkpoint no_weights;
  no_weights.manifest["epoch"] = 1;
  no_weights.tensors["rng.0.cpu"] = torch::zeros({4}, torch::kByte);
  no_weights.save(folder / "none.ckpt");
  const auto error = [&](const char* file, const std::string& prefix = "") {
    return error_of([&] { load_weights(net, folder / file, {.strict = false, .prefix = prefix}); });
  };
  CHECK_THAT(error("other.safetensors"),
             Contains("No weight in '") && Contains("other.safetensors' fits the module:") && Contains("not in the module: a"));
  CHECK_THAT(error("empty.safetensors"), Contains("There are no weights in '") && Contains("empty.safetensors'."));
  CHECK_THAT(error("none.ckpt"), Contains("There are no weights in '"));
  CHECK_THAT(error("other.safetensors", "encoder."),
             Contains("No weight in '") && Contains("has a name that begins with 'encoder.'."));
}

TEST_CASE("weights are converted to the module's types, also scalars and tensors without elements") {
  TemporaryFolder folder;
  Network net;
  auto tensors = tensors_of(net);
  tensors["backbone.scale"] = torch::tensor(0.5, torch::kBFloat16);
  tensors["head.weight"] = torch::full({2, 4}, 0.25, torch::kDouble);
  tensors["backbone.norm.num_batches_tracked"] = torch::tensor(17, torch::kLong);
  save_safetensors(folder / "w.safetensors", tensors);
  Network fresh;
  fresh.backbone->conv->weight.set_data(fresh.backbone->conv->weight.to(torch::kDouble));
  load_weights(fresh, folder / "w.safetensors");
  CHECK(fresh.backbone->scale.item<float>() == 0.5F);
  CHECK(fresh.backbone->scale.scalar_type() == at::kFloat);
  CHECK(fresh.head->weight.sum().item<float>() == 2.0F);
  CHECK(fresh.backbone->norm->num_batches_tracked.item<std::int64_t>() == 17);
  CHECK(fresh.backbone->conv->weight.scalar_type() == at::kDouble);
  CHECK(at::equal(fresh.backbone->conv->weight, net.backbone->conv->weight.to(torch::kDouble)));
}

TEST_CASE("a tensor with two names in the module may have one in the file, and not two values") {
  struct Tied : torch::nn::Module {
    Tied() {
      first = register_parameter("first", torch::zeros({2}));
      register_parameter("second", first);
    }
    at::Tensor first;
  } tied;
  TemporaryFolder folder;
  const at::Tensor ones = torch::ones({2});
  const double nan = std::nan("");
  save_safetensors(folder / "one.safetensors", {{"second", ones}});
  CHECK(load_weights(tied, folder / "one.safetensors").loaded == Names{"second"});
  CHECK(at::equal(tied.first, ones));
  save_safetensors(folder / "same.safetensors", {{"first", torch::full({2}, nan)}, {"second", torch::full({2}, nan)}});
  CHECK(load_weights(tied, folder / "same.safetensors").loaded == Names{"first", "second"});
  save_safetensors(folder / "two.safetensors", {{"first", ones}, {"second", 2 * ones}});
  CHECK_THAT(error_of([&] { load_weights(tied, folder / "two.safetensors", {.strict = false}); }),
             Contains("two.safetensors") && Contains("'first' and 'second' are one tensor in the module"));
  CHECK(at::isnan(tied.first).all().item<bool>());
}

TEST_CASE("a module is made of the hyper-parameters in a checkpoint, and gets its weights") {
  TemporaryFolder folder;
  Wide wide({.width = 4, .dropout = 0.25});
  Checkpoint checkpoint;
  checkpoint.manifest["hyper_parameters"] = write_options(wide.options);
  checkpoint.manifest["hyper_parameters"]["batch_size"] = 32;  // the data module's, in files of older versions
  checkpoint.manifest["datamodule_hyper_parameters"] = Value::Map{{"width", 9}};
  checkpoint.tensors = tensors_of(wide, "state_dict.");
  checkpoint.save(folder / "wide.ckpt");
  save_safetensors(folder / "wide.safetensors", tensors_of(wide));

  const auto same = Module::load_from_checkpoint<Wide>(folder / "wide.ckpt");
  CHECK(same->options.width == 4);
  CHECK(same->options.dropout == 0.25);
  CHECK(at::equal(same->weight, wide.weight));
  CHECK(same->hparams().at("width").as_int() == 4);
  CHECK(same->weight.requires_grad());
  const auto other = Module::load_from_checkpoint<Wide>(folder / "wide.ckpt", {}, Value::Map{{"dropout", 0.0}});
  CHECK(other->options.dropout == 0.0);
  CHECK(other->options.width == 4);
  for (const char* file : {"wide.ckpt", "wide.safetensors"})
    CHECK(at::equal(Module::load_from_checkpoint<Plain>(folder / file)->weight, wide.weight));

  const auto error = [&](const char* file, const Value::Map& changes = {}) {
    return levin::test::error_of<Error>([&] { Module::load_from_checkpoint<Wide>(folder / file, {}, changes); });
  };
  CHECK_THAT(error("wide.ckpt", {{"drop_out", 0.0}}), Contains("did you mean 'dropout'?"));
  CHECK_THAT(error("wide.ckpt", {{"width", 5}}), Contains("weight ([4] saved, [5] in the module)") && Contains("wide.ckpt"));
  CHECK_THAT(error("wide.safetensors"), Contains("wide.safetensors") && Contains("not a checkpoint"));
  checkpoint.manifest["hyper_parameters"]["width"] = 0;
  checkpoint.save(folder / "wrong.ckpt");
  CHECK_THAT(error("wrong.ckpt"), Contains("wrong.ckpt") && Contains("width"));
  checkpoint.manifest["hyper_parameters"] = Value::Map{{"batch_size", 32}};
  checkpoint.save(folder / "none.ckpt");
  CHECK_THAT(error("none.ckpt"), Contains("none.ckpt' has no hyper-parameters of the module"));
}

TEST_CASE("a frozen module is neither trained nor in training mode, until it is taken back") {
  Network net;
  net.backbone->register_parameter("numbers", torch::ones({2}, torch::kLong), /*requires_grad=*/false);
  freeze(*net.backbone);
  for (const auto& parameter : net.backbone->parameters()) CHECK_FALSE(parameter.requires_grad());
  for (const auto& parameter : net.head->parameters()) CHECK(parameter.requires_grad());
  CHECK_FALSE(net.backbone->norm->is_training());
  CHECK(net.is_training());
  unfreeze(net);
  for (const auto& parameter : net.parameters()) CHECK(parameter.requires_grad() == parameter.is_floating_point());
  CHECK(net.backbone->norm->is_training());
  Plain plain;
  plain.freeze();
  CHECK_FALSE(plain.weight.requires_grad());
  plain.unfreeze();
  CHECK((plain.weight.requires_grad() && plain.is_training()));
}
