#include "levin/core/checkpoint/tensor_file.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "core/checkpoint/lightning_regression.h"
#include "levin/core/error.h"
#include "levin/core/module.h"
#include "levin/core/weights.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

namespace {

using Catch::Matchers::Contains;
using levin::TensorFile;
using levin::TensorFileKind;
using levin::test::kTorchFiles;
using levin::test::TemporaryFolder;

std::string error_of(const std::filesystem::path& file) {
  try {
    TensorFile::open(file);
  } catch (const levin::IoError& error) {
    return error.what();
  }
  return "";
}

void write(const std::filesystem::path& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }

TEST_CASE("a state_dict of torch.save() gives its tensors in order, of every dtype") {
  const TensorFile file = TensorFile::open(kTorchFiles / "state_dict.pt");
  CHECK(file.kind == TensorFileKind::kStateDict);
  CHECK(file.content.manifest.size() == 0);
  CHECK(file.names.front() == "float64");
  CHECK(file.names.back() == "parameter");
  const at::Tensor counted = torch::arange(6).reshape({2, 3});
  const std::map<std::string, at::ScalarType> numbers = {{"float64", at::kDouble},
                                                         {"float32", at::kFloat},
                                                         {"float16", at::kHalf},
                                                         {"bfloat16", at::kBFloat16},
                                                         {"int64", at::kLong},
                                                         {"int32", at::kInt},
                                                         {"int16", at::kShort},
                                                         {"int8", at::kChar},
                                                         {"uint8", at::kByte},
                                                         {"bool", at::kBool},
                                                         {"complex64", at::kComplexFloat},
                                                         {"complex128", at::kComplexDouble},
                                                         {"complex32", at::kComplexHalf},
                                                         {"uint16", at::kUInt16},
                                                         {"uint32", at::kUInt32},
                                                         {"uint64", at::kUInt64},
                                                         {"float8_e4m3fn", at::kFloat8_e4m3fn},
                                                         {"float8_e5m2", at::kFloat8_e5m2},
                                                         {"float8_e4m3fnuz", at::kFloat8_e4m3fnuz},
                                                         {"float8_e5m2fnuz", at::kFloat8_e5m2fnuz}};
  for (const auto& [name, type] : numbers) {
    CAPTURE(name);
    const at::Tensor& tensor = file.content.tensors.at(name);
    CHECK(tensor.scalar_type() == type);
    CHECK(at::equal(tensor.to(at::kComplexDouble), counted.to(type).to(at::kComplexDouble)));
  }
  const at::Tensor& powers = file.content.tensors.at("float8_e8m0fnu");
  CHECK(powers.scalar_type() == at::kFloat8_e8m0fnu);
  CHECK(at::equal(powers.to(at::kDouble), at::pow(2.0, counted.to(at::kDouble))));
}

TEST_CASE("a state_dict keeps shapes, strides and shared memory") {
  const TensorFile file = TensorFile::open(kTorchFiles / "state_dict.pt");
  const auto& tensors = file.content.tensors;
  CHECK(tensors.at("scalar").dim() == 0);
  CHECK(tensors.at("scalar").item<double>() == 2.5);
  CHECK(tensors.at("empty").sizes() == at::IntArrayRef({0, 3}));
  CHECK(tensors.at("transposed").strides() == at::IntArrayRef({1, 4}));
  CHECK(at::equal(tensors.at("transposed"), torch::arange(12.0).reshape({3, 4}).t()));
  CHECK(tensors.at("row").is_alias_of(tensors.at("transposed")));
  tensors.at("row").fill_(-1);
  CHECK(at::equal(tensors.at("transposed").select(1, 1), torch::full({4}, -1.0)));
  CHECK(at::equal(tensors.at("expanded"), torch::full({2, 2}, 7.0)));
  CHECK(at::equal(tensors.at("parameter"), torch::tensor({1.0, 2.0})));
  // The file itself is as it was.
  CHECK(at::equal(TensorFile::open(kTorchFiles / "state_dict.pt").content.tensors.at("row"),
                  torch::tensor({4.0, 5.0, 6.0, 7.0})));
}

TEST_CASE("a Lightning checkpoint gives weights and what fit needs, whatever else is in it") {
  const TensorFile file = TensorFile::open(kTorchFiles / "lightning_within_epoch.ckpt");
  CHECK(file.kind == TensorFileKind::kLightning);
  CHECK(file.names.front() == "state_dict.first.weight");
  CHECK(file.content.tensors.at("state_dict.second.bias").sizes() == at::IntArrayRef({1}));
  const levin::Value& manifest = file.content.manifest;
  CHECK(manifest.at("global_step").as_int() == 6);
  CHECK(manifest.at("hyper_parameters").at("hidden").as_int() == 3);
  CHECK(manifest.at("hyper_parameters").at("anything").as_string() == "class NotLevins of module __main__");
  const levin::Value& optimizer = manifest.at("optimizer_states").as_list().at(0);
  CHECK(optimizer.at("param_groups").as_list().at(0).at("lr").as_double() == 0.05);
  CHECK(optimizer.at("state").at("0").at("step").as_int() == 6);
  CHECK(file.content.tensors.at("optimizer_states.0.state.0.exp_avg").sizes() == at::IntArrayRef({3, 2}));
  CHECK(manifest.at("loops").at("epochs_done").as_int() == 1);
  CHECK(manifest.at("loops").at("begins_epoch_again").as_bool());
  CHECK(!manifest.contains("not_read"));
}

TEST_CASE("the weights of files of torch load into a module") {
  torch::nn::Linear first(2, 3);
  levin::load_weights(*first, kTorchFiles / "lightning_SGD.ckpt", {.prefix = "first."});
  CHECK(at::equal(first->weight,
                  TensorFile::open(kTorchFiles / "lightning_SGD.ckpt").content.tensors.at("state_dict.first.weight")));
  torch::nn::Linear wide(2, 4);
  CHECK_THROWS_WITH(levin::load_weights(*wide, kTorchFiles / "lightning_SGD.ckpt", {.prefix = "first."}),
                    Contains("weight ([3, 2] saved, [4, 2] in the module)"));
  CHECK(TensorFile::open(kTorchFiles / "training_loop.pt").names == std::vector<std::string>{"weight"});
}

TEST_CASE("a folder or index of Hugging Face's gives the tensors of all files") {
  const TemporaryFolder folder;
  const auto write_part = [&](const std::string& name, const std::string& tensor, double value) {
    levin::Checkpoint whole;
    whole.tensors[tensor] = torch::full({2}, value);
    whole.tensors["other"] = torch::zeros({1});
    whole.save(folder.path() / name);
  };
  write_part("model-00001-of-00002.safetensors", "a", 1);
  write_part("model-00002-of-00002.safetensors", "b", 2);
  const std::filesystem::path index = folder.path() / "model.safetensors.index.json";
  write(index, R"({"metadata": {"total_size": 16},
    "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})");
  for (const auto& path : {index, folder.path()}) {
    const TensorFile file = TensorFile::open(path);
    CHECK(file.kind == TensorFileKind::kSafetensorsIndex);
    CHECK(file.names == std::vector<std::string>{"a", "b"});
    CHECK(at::equal(file.content.tensors.at("b"), torch::full({2}, 2.0)));
  }
  write(index, R"({"weight_map": {"c": "model-00001-of-00002.safetensors"}})");
  CHECK_THAT(error_of(index), Contains("it says that 'c' is in"));
  write(index, R"({"weight_map": {"c": "../model.safetensors"}})");
  CHECK_THAT(error_of(index), Contains("has no file beside it for 'c'"));
  write(index, R"({"weights": {}})");
  CHECK_THAT(error_of(index), Contains("no weight_map"));
}

TEST_CASE("what is no file of weights is an error that says what to do") {
  CHECK_THAT(error_of(kTorchFiles / "legacy.pt"), Contains("torch.save(torch.load(FILE), NEW_FILE)") && Contains("legacy.pt"));
  CHECK_THAT(error_of(kTorchFiles / "whole_module.pt"),
             Contains("class Linear of module torch.nn.modules.linear: levin runs no code from files"));
  CHECK_THAT(error_of(kTorchFiles / "sparse.pt"),
             Contains("'sparse' in it is made by function _rebuild_sparse_tensor of module torch._utils"));
  CHECK_THAT(error_of(kTorchFiles / "README.md"), Contains("README.md"));
  CHECK_THAT(error_of(kTorchFiles / "missing.pt"), Contains("missing.pt") && Contains("No such file"));
  CHECK_THAT(error_of(kTorchFiles), Contains("a folder without"));
}

TEST_CASE("a file of torch's that is cut short or damaged is an error with a place, never a crash") {
  const std::string whole = levin::test::read_text(kTorchFiles / "lightning_AdamW.ckpt");
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "damaged.ckpt";
  for (std::size_t size = 4; size < whole.size(); size += 97) {
    CAPTURE(size);
    write(file, whole.substr(0, size));
    CHECK_THAT(error_of(file), Contains("damaged.ckpt") && Contains("byte"));
  }
  std::size_t refused = 0;
  for (std::size_t place = 0; place < whole.size(); place += 11) {
    std::string changed = whole;
    changed[place] = static_cast<char>(changed[place] ^ 0x15);
    write(file, changed);
    refused += error_of(file).empty() ? 0 : 1;  // padding and other files of the archive may be anything
  }
  CHECK(refused > 50);
}

TEST_CASE("a change in a tensor's bytes is found by its checksum") {
  std::string bytes = levin::test::read_text(kTorchFiles / "training_loop.pt");
  const std::size_t ones = bytes.find(std::string("\x00\x00\x80\x3f\x00\x00\x80\x3f", 8));
  REQUIRE(ones != std::string::npos);
  bytes[ones + 2] = 0;
  const TemporaryFolder folder;
  write(folder.path() / "changed.pt", bytes);
  CHECK_THAT(error_of(folder.path() / "changed.pt"), Contains("checksum") && Contains("data/0"));
}

TEST_CASE("map_location puts tensors on a device, and shared memory stays shared") {
  const TensorFile file = TensorFile::open(kTorchFiles / "state_dict.pt", "meta");
  CHECK(file.content.tensors.at("row").device().is_meta());
  CHECK(file.content.tensors.at("row").is_alias_of(file.content.tensors.at("transposed")));
  CHECK(file.content.tensors.at("transposed").strides() == at::IntArrayRef({1, 4}));
  CHECK_THROWS_WITH(TensorFile::open(kTorchFiles / "state_dict.pt", "abacus"), Contains("map_location: 'abacus'"));
}

}  // namespace
