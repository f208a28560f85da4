#include "levin/core/formats/tensor_file.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <limits>

#include "core/formats/lightning_regression.h"
#include "levin/core/base/error.h"
#include "levin/core/config/value_json.h"
#include "levin/core/formats/torch_file.h"
#include "support/error_of.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

using Catch::Matchers::Contains;

std::string error_of(const std::filesystem::path& file) {
  return levin::test::error_of<IoError>([&] { TensorFile::open(file); });
}

void write(const std::filesystem::path& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }

TEST_CASE("a state_dict of torch.save() gives its tensors in order, of every dtype") {
  const TensorFile file = TensorFile::open(kTorchFiles / "state_dict.pt");
  CHECK(file.kind == TensorFileKind::kStateDict);
  CHECK(file.content.manifest.size() == 0);
  CHECK(file.names.front() == "float64");
  CHECK(file.names.back() == "parameter");
  const at::Tensor counted = torch::arange(6).reshape({2, 3});
  using Row = std::pair<const char*, at::ScalarType>;
  for (const auto& [name, type] : {Row{"float64", at::kDouble},
                                   Row{"float32", at::kFloat},
                                   Row{"float16", at::kHalf},
                                   Row{"bfloat16", at::kBFloat16},
                                   Row{"int64", at::kLong},
                                   Row{"int32", at::kInt},
                                   Row{"int16", at::kShort},
                                   Row{"int8", at::kChar},
                                   Row{"uint8", at::kByte},
                                   Row{"bool", at::kBool},
                                   Row{"complex64", at::kComplexFloat},
                                   Row{"complex128", at::kComplexDouble},
                                   Row{"complex32", at::kComplexHalf},
                                   Row{"uint16", at::kUInt16},
                                   Row{"uint32", at::kUInt32},
                                   Row{"uint64", at::kUInt64},
                                   Row{"float8_e4m3fn", at::kFloat8_e4m3fn},
                                   Row{"float8_e5m2", at::kFloat8_e5m2},
                                   Row{"float8_e4m3fnuz", at::kFloat8_e4m3fnuz},
                                   Row{"float8_e5m2fnuz", at::kFloat8_e5m2fnuz}}) {
    CAPTURE(name);
    const at::Tensor& tensor = file.content.tensors.at(name);
    CHECK(tensor.scalar_type() == type);
    CHECK(at::equal(tensor.to(at::kComplexDouble), counted.to(type).to(at::kComplexDouble)));
  }
  const at::Tensor& powers = file.content.tensors.at("float8_e8m0fnu");
  CHECK(powers.scalar_type() == at::kFloat8_e8m0fnu);
  CHECK(at::equal(powers.to(at::kDouble), at::pow(2.0, counted.to(at::kDouble))));
}

TEST_CASE("a state_dict has its shapes, strides and shared memory") {
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
  const Value& manifest = file.content.manifest;
  CHECK(manifest.at("global_step").as_int() == 6);
  CHECK(manifest.at("hyper_parameters").at("hidden").as_int() == 3);
  CHECK(manifest.at("hyper_parameters").at("anything").as_string() == "class NotLevins of module __main__");
  const Value& optimizer = manifest.at("optimizer_states").as_list().at(0);
  CHECK(optimizer.at("param_groups").as_list().at(0).at("lr").as_double() == 0.05);
  CHECK(optimizer.at("state").at("0").at("step").as_int() == 6);
  CHECK(file.content.tensors.at("optimizer_states.0.state.0.exp_avg").sizes() == at::IntArrayRef({3, 2}));
  CHECK(manifest.at("loops").at("epochs_done").as_int() == 1);
  CHECK(manifest.at("loops").at("begins_epoch_again").as_bool());
  CHECK(!manifest.contains("not_read"));
}

/// A dict of tensors that are all `value`.
PickleValue* dict_of(TorchWriter& writer, const std::vector<std::string>& names, double value) {
  PickleDict dict;
  for (const std::string& name : names) dict.items.emplace_back(writer.tree.add(name), writer.add(torch::full({2}, value)));
  return writer.tree.add(std::move(dict));
}

TEST_CASE("a folder or index of Hugging Face's gives the tensors of all files") {
  const TemporaryFolder folder;
  const auto write_part = [&](const std::string& name, const std::string& tensor, double value) {
    Checkpoint whole;
    whole.tensors = {{tensor, torch::full({2}, value)}, {"other", torch::zeros({1})}};
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
}

TEST_CASE("an older folder of Hugging Face's has files of torch, one or several with an index") {
  const TemporaryFolder folder;
  const auto write_part = [&](const std::string& name, const std::string& tensor, double value) {
    TorchWriter writer;
    writer.write(*dict_of(writer, {tensor}, value), folder / name);
  };
  write_part("pytorch_model.bin", "whole", 3);
  CHECK(TensorFile::is_model_folder(folder.path()));
  CHECK(TensorFile::open(folder.path()).names == std::vector<std::string>{"whole"});
  write_part("pytorch_model-1.bin", "a", 1);
  write_part("pytorch_model-2.bin", "b", 2);
  write(folder / "pytorch_model.bin.index.json", R"({"weight_map": {"a": "pytorch_model-1.bin", "b": "pytorch_model-2.bin"}})");
  const TensorFile file = TensorFile::open(folder.path());
  CHECK(file.names == std::vector<std::string>{"a", "b"});
  CHECK(at::equal(file.content.tensors.at("b"), torch::full({2}, 2.0)));
  CHECK_FALSE(TensorFile::checks(folder.path()).empty());
}

TEST_CASE("a file of torch without weights says what it holds, and offers a key only where there is one") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "some.pt";
  const auto error_with = [&](const std::vector<std::string>& keys, bool with_tensors) {
    TorchWriter writer;
    PickleDict root;
    for (const std::string& key : keys) {
      PickleValue* const value = with_tensors ? dict_of(writer, {"a"}, 1) : writer.tree.add(std::int64_t{1});
      root.items.emplace_back(writer.tree.add(key), value);
    }
    writer.write(*writer.tree.add(std::move(root)), file);
    return error_of(file);
  };
  CHECK_THAT(error_with({"state", "param_groups"}, true),
             Contains("the state of an optimizer, not weights") && !Contains("--key"));
  CHECK_THAT(error_with({"ema", "net"}, true), Contains("choose with --key NAME"));
  CHECK_THAT(error_with({"decay", "steps"}, false), Contains("save the dict of its tensors in Python") && !Contains("--key"));
}

TEST_CASE("conjugated and negated views have the numbers that they stand for") {
  const TensorFile file = TensorFile::open(kTorchFiles / "views.pt");
  const auto& tensors = file.content.tensors;
  const at::Tensor plain = at::complex(torch::arange(3.0), torch::arange(3.0) + 3);
  CHECK(at::equal(tensors.at("plain"), plain));
  CHECK(at::equal(tensors.at("conj"), plain.conj().resolve_conj()));
  CHECK(at::equal(tensors.at("both"), -plain.conj().resolve_conj()));
  CHECK(at::equal(tensors.at("neg"), -torch::arange(3.0)));
  for (const auto& [name, tensor] : tensors) CHECK_FALSE((tensor.is_conj() || tensor.is_neg()));
  const TemporaryFolder folder;
  export_file(kTorchFiles / "views.pt", folder / "views.safetensors", {.prefix = "conj"});
  CHECK(at::equal(TensorFile::open(folder / "views.safetensors").content.tensors.at(""), plain.conj().resolve_conj()));
}

TEST_CASE("a key chooses among the dicts of a file, which are listed without") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "gan.pt";
  TorchWriter writer;
  const auto text = [&](const char* name) { return writer.tree.add(std::string(name)); };
  PickleDict root;
  root.items.emplace_back(text("generator"), dict_of(writer, {"a", "b"}, 1));
  root.items.emplace_back(text("others"), writer.tree.add(PickleDict{{{text("disc.1"), dict_of(writer, {"a"}, 2)}}}));
  root.items.emplace_back(writer.tree.add(std::int64_t{7}), writer.add(torch::full({2}, 3.0)));
  root.items.emplace_back(text("epoch"), writer.tree.add(std::int64_t{4}));
  writer.write(*writer.tree.add(root), file);
  CHECK_THAT(
      error_of(file),
      Contains("'generator' (2 tensors), 'others' (a dict), '7' (a tensor), 'epoch' (a plain value); choose with --key"));
  const auto value_of = [&](const std::string& key, const std::string& name) {
    return TensorFile::open(file, {}, key).content.tensors.at(name)[0].item<double>();
  };
  CHECK(value_of("generator", "b") == 1);
  CHECK(value_of("others.disc.1", "a") == 2);
  CHECK(value_of("7", "7") == 3);
  CHECK_THROWS_WITH(TensorFile::open(file, {}, "gen"), Contains("it has no 'gen', only 'generator' (2 tensors)"));
  CHECK_THROWS_WITH(TensorFile::open(file, {}, "epoch"), Contains("no dict of tensors, only a plain value"));
  Checkpoint().save(folder / "own.ckpt");
  CHECK_THROWS_WITH(TensorFile::open(folder / "own.ckpt", {}, "a"),
                    Contains("only files of torch.save() and torch::save() have keys"));

  root.items.emplace_back(text("model"), dict_of(writer, {"w"}, 5));
  root.items.emplace_back(text("model_ema"), dict_of(writer, {"w"}, 6));
  writer.write(*writer.tree.add(root), file);
  CHECK(value_of("", "w") == 5);
  CHECK(value_of("model_ema", "w") == 6);
  CHECK(TensorFile::open(file).not_read.back() == "'model_ema' (1 tensor)");

  writer.write(*writer.add(torch::full({2}, 8.0)), file);
  CHECK(value_of("", "tensor") == 8);
}

TEST_CASE("what else is in a dict of tensors is left out, and named") {
  const TemporaryFolder folder;
  TorchWriter writer;
  PickleValue* const weights = dict_of(writer, {"weight"}, 1);
  const auto put = [&](const char* name, PickleObject object) {
    weights->as<PickleDict>()->items.emplace_back(writer.tree.add(std::string(name)), writer.tree.add(std::move(object)));
  };
  put("device", {.class_name = "torch.device", .arguments = {writer.tree.add(std::string("cpu"))}});
  put("impedance", {.class_name = "builtins.complex"});
  put("seed", {.class_name = "builtins.int"});
  put("layer._extra_state", {.class_name = "torch._utils._rebuild_sparse_tensor"});
  writer.write(*weights, folder / "odd.pt");
  const TensorFile file = TensorFile::open(folder / "odd.pt");
  CHECK(file.names == std::vector<std::string>{"weight"});
  CHECK(file.not_read.front() == "'device' (function device of module torch)");
  CHECK(file.not_read.size() == 4);
}

TEST_CASE("what is made of a file of torch's is in proportion to its size") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "small.pt";
  TorchWriter writer;
  PickleDict dict;
  dict.items.emplace_back(writer.tree.add(std::string("weight")),
                          writer.add(torch::zeros({1}).expand({std::int64_t{1} << 31})));
  writer.write(*writer.tree.add(dict), file);
  CHECK(std::filesystem::file_size(file) < 2000);
  CHECK_THAT(error_of(file), Contains("small.pt") && Contains("repeat their storages so often") && Contains("8589934592"));
  // Many tensors over one storage.
  dict.items.clear();
  const at::Tensor whole = torch::zeros({1000, 1000});
  for (int i = 0; i < 200; ++i) dict.items.emplace_back(writer.tree.add(std::to_string(i)), writer.add(whole.t()));
  writer.write(*writer.tree.add(dict), file);
  CHECK_THAT(error_of(file), Contains("repeat their storages"));
  dict.items.resize(50);
  writer.write(*writer.tree.add(dict), file);
  CHECK(TensorFile::open(file).names.size() == 50);
}

TEST_CASE("milestones that a Lightning checkpoint counts do not take memory without end") {
  const auto open_with = [](std::int64_t milestones, std::int64_t times) {
    const TemporaryFolder folder;
    TorchWriter writer;
    const auto plain = [&](const Value& value) { return writer.tree.add_plain(value); };
    PickleDict counts;
    for (std::int64_t i = 0; i < milestones; ++i) counts.items.emplace_back(writer.tree.add(i), writer.tree.add(times));
    PickleDict scheduler{{{plain("milestones"), writer.tree.add(counts)}, {plain("last_epoch"), plain(1)}}};
    PickleDict root{{{plain("state_dict"), dict_of(writer, {"w"}, 0)},
                     {plain("pytorch-lightning_version"), plain("2.6.0")},
                     {plain("epoch"), plain(0)},
                     {plain("global_step"), plain(1)},
                     {plain("optimizer_states"), plain(Value(Value::List{}))},
                     {plain("lr_schedulers"), writer.tree.add(PickleList{{writer.tree.add(scheduler)}})}}};
    writer.write(*writer.tree.add(root), folder / "counted.ckpt");
    return TensorFile::open(folder / "counted.ckpt").content.manifest;
  };
  const Value some = open_with(3, 2);
  CHECK(to_json(some.at("lr_schedulers").as_list().at(0).at("milestones")) == "[0,0,1,1,2,2]");
  const Value many = open_with(4000, 1000);
  CHECK_FALSE(many.contains("lr_schedulers"));
  CHECK_THAT(many.at("not_read").as_string(), Contains("more values than its bytes can hold"));
  CHECK_THAT(open_with(1, -1).at("not_read").as_string(), Contains("not numbers of steps"));
  CHECK_THAT(open_with(1, std::numeric_limits<std::int64_t>::max()).at("not_read").as_string(), Contains("more values"));
}

TEST_CASE("map_location puts tensors on a device, and shared memory stays shared") {
  const TensorFile file = TensorFile::open(kTorchFiles / "state_dict.pt", "meta");
  CHECK(file.content.tensors.at("row").device().is_meta());
  CHECK(file.content.tensors.at("row").is_alias_of(file.content.tensors.at("transposed")));
  CHECK(file.content.tensors.at("transposed").strides() == at::IntArrayRef({1, 4}));
}

}  // namespace
