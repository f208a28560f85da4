// Files of LibTorch's own torch::save().
#include "levin/core/formats/libtorch_archive.h"

#include <caffe2/serialize/inline_container.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "core/formats/lightning_regression.h"
#include "levin/core/base/error.h"
#include "levin/core/formats/tensor_file.h"
#include "levin/core/weights.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

using namespace std::string_literals;
using Catch::Matchers::Contains;
using Names = std::vector<std::string>;

/// That of the committed files.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    a = register_module("a", torch::nn::Linear(4, 8));
    bn = register_module("bn", torch::nn::BatchNorm1d(8));
    b = register_module("b", torch::nn::Linear(8, 1));
  }
  torch::Tensor forward(const torch::Tensor& x) { return b->forward(bn->forward(a->forward(x))); }
  torch::nn::Linear a{nullptr}, b{nullptr};
  torch::nn::BatchNorm1d bn{nullptr};
};
TORCH_MODULE(Net);

/// Writes a number along with its weights, and types that are no floats.
struct CountingImpl : torch::nn::Module {
  CountingImpl() {
    inner = register_module("inner", Net());
    register_parameter("half", torch::arange(3, torch::kBFloat16));
    register_buffer("seen", torch::tensor({7, 9}));
  }
  void save(torch::serialize::OutputArchive& archive) const override {
    torch::nn::Module::save(archive);
    archive.write("count", torch::jit::IValue(std::int64_t{3}));
  }
  Net inner{nullptr};
};
TORCH_MODULE(Counting);

const Names kNetNames = {
    "a.weight", "a.bias", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var", "bn.num_batches_tracked",
    "b.weight", "b.bias"};

void check_equal(const torch::nn::Module& left, const torch::nn::Module& right) {
  for (const auto& item : left.named_parameters()) CHECK(torch::equal(item.value(), right.named_parameters()[item.key()]));
  for (const auto& item : left.named_buffers()) CHECK(torch::equal(item.value(), right.named_buffers()[item.key()]));
}

std::string opening_error(const std::filesystem::path& file, const std::string& key = {}) {
  return error_of<IoError>([&] { TensorFile::open(file, {}, key); });
}

void write_archive(const std::filesystem::path& file, const std::string& pickle) {
  caffe2::serialize::PyTorchStreamWriter writer(file.string());
  writer.writeRecord("data.pkl", pickle.data(), pickle.size());
  writer.writeRecord("constants.pkl", "\x80\x02).", 4);
  writer.writeEndOfFile();
}

TEST_CASE("what torch::save(module) writes are weights, by the names of the modules; a key chooses one of these, or a tensor") {
  const TemporaryFolder folder;
  const std::filesystem::path saved = folder / "module.pt";
  torch::manual_seed(3);
  Counting module;
  module->inner->bn->running_mean.fill_(0.25);
  torch::save(module, saved.string());

  const TensorFile file = TensorFile::open(saved);
  CHECK(file.kind == TensorFileKind::kLibTorch);
  CHECK(kind_name(file.kind) == "archive of torch::save()"s);
  CHECK(file.content.manifest.size() == 0);
  CHECK(file.not_read == Names{"'count' (a plain value)"});
  Names expected = {"half", "seen"};
  for (const std::string& name : kNetNames) expected.push_back("inner." + name);
  CHECK(file.names == expected);
  CHECK(torch::equal(file.content.tensors.at("half"), torch::arange(3, torch::kBFloat16)));
  CHECK(torch::equal(file.content.tensors.at("seen"), torch::tensor({7, 9})));
  Counting other;
  CHECK(load_weights(*other, saved).loaded.size() == expected.size());
  check_equal(*module, *other);

  CHECK(TensorFile::open(saved, {}, "inner").names == kNetNames);
  CHECK(TensorFile::open(saved, {}, "inner.a").names == Names{"weight", "bias"});
  CHECK(TensorFile::open(saved, {}, "half").names == Names{"half"});
  Net net;
  load_weights(*net, saved, {.key = "inner"});
  check_equal(*net, *module->inner);
  CHECK_THAT(opening_error(saved, "outer"), Contains("it has no 'outer', only 'half' (a tensor)"));
  CHECK_THAT(opening_error(saved, "count"), Contains("its 'count' holds no tensors, but a plain value"));
}

TEST_CASE("what torch::save() writes of a tensor or several has the archive's numbers as names") {
  const TemporaryFolder folder;
  torch::save(torch::arange(5), (folder / "one.pt").string());
  CHECK(torch::equal(TensorFile::open(folder / "one.pt").content.tensors.at("0"), torch::arange(5)));
  const std::vector<torch::Tensor> several = {torch::ones({2}), torch::zeros({0, 3}), torch::full({}, 2.5, torch::kDouble)};
  torch::save(several, (folder / "several.pt").string());
  const TensorFile file = TensorFile::open(folder / "several.pt");
  REQUIRE(file.names == Names{"0", "1", "2"});
  for (std::size_t i = 0; i < several.size(); ++i) CHECK(torch::equal(file.content.tensors.at(file.names[i]), several[i]));
}

TEST_CASE("what torch::save(optimizer) writes is distinguished from weights, and shown with its options") {
  const TemporaryFolder folder;
  Net net;
  torch::optim::Adam adam(net->parameters(), torch::optim::AdamOptions(0.125));
  net->forward(torch::ones({2, 4})).sum().backward();
  adam.step();
  torch::save(adam, (folder / "adam.pt").string());
  const TensorFile file = TensorFile::open(folder / "adam.pt");
  CHECK(file.kind == TensorFileKind::kOptimizer);
  CHECK(file.names.size() >= 12);
  CHECK(std::ranges::count_if(file.names, [](const std::string& name) { return name.ends_with(".exp_avg_sq"); }) == 6);
  const Value& group = file.content.manifest.at("param_groups").at("param_groups/0");
  CHECK(group.at("options").at("lr") == Value(0.125));
  CHECK(group.at("options").at("amsgrad") == Value(false));
  CHECK(file.weights().empty());

  const auto refusal = Contains("adam.pt' holds the state of an optimizer, not weights");
  CHECK_THAT(error_of<ConfigError>([&] { load_weights(*net, folder / "adam.pt"); }), refusal);
  CHECK_THAT(error_of<ConfigError>([&] { export_file(folder / "adam.pt", folder / "out", {}); }), refusal);
}

TEST_CASE("files that another program of LibTorch's has written are read") {
  Net net, same;
  load_weights(*net, kTorchFiles / "libtorch_module.pt");
  CHECK(TensorFile::open(kTorchFiles / "libtorch_module.pt").names == kNetNames);
  torch::load(same, (kTorchFiles / "libtorch_module.pt").string());
  check_equal(*net, *same);
  torch::Tensor tensor;
  torch::load(tensor, (kTorchFiles / "libtorch_tensor.pt").string());
  CHECK(torch::equal(TensorFile::open(kTorchFiles / "libtorch_tensor.pt").content.tensors.at("0"), tensor));
  for (const char* name : {"libtorch_optimizer.pt", "libtorch_tensor.pt"}) {
    const auto checks = TensorFile::checks(kTorchFiles / name);
    CHECK(checks.size() > 4);
    CHECK(std::ranges::all_of(checks, &ChecksumReport::holds));
  }
}

TEST_CASE("a program of TorchScript's is no archive of weights") {
  const TemporaryFolder folder;
  torch::jit::Module program("Doubled");
  program.register_parameter("weight", torch::ones({2}), false);
  program.define("def forward(self, x):\n    return x * self.weight\n");
  program.save((folder / "program.pt").string());
  CHECK_THAT(opening_error(folder / "program.pt"), Contains("it is a TorchScript program, not weights"));
}

TEST_CASE("an archive whose modules hold themselves, or are no modules, is an error") {
  const TemporaryFolder folder;
  const auto text_of = [](const std::string& text) {
    return "X" + std::string(1, static_cast<char>(text.size())) + "\0\0\0"s + text;
  };
  write_archive(folder / "itself.pt", "\x80\x02"s + "c__torch__\nModule\nq\0)\x81q\1}"s + text_of("a") + "h\1sb.");
  CHECK_THAT(opening_error(folder / "itself.pt"), Contains("nested deeper than"));
  write_archive(folder / "list.pt", "\x80\x02].");
  CHECK_THAT(opening_error(folder / "list.pt"), Contains("TorchScript"));
  write_archive(folder / "attributes.pt", "\x80\x02"s + "c__torch__\nModule\n)\x81K\1b.");
  CHECK(TensorFile::open(folder / "attributes.pt").names.empty());
}

}  // namespace
