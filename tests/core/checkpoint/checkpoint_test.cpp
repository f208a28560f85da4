#include "levin/core/checkpoint/checkpoint.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <tuple>

#include "levin/core/base/error.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

void write_bytes(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

using Catch::Matchers::Contains;

// Equal type, shape and bytes.
bool identical(const at::Tensor& left, const at::Tensor& right) {
  const at::Tensor a = left.contiguous();
  const at::Tensor b = right.contiguous();
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         (a.nbytes() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

Checkpoint small_checkpoint(double value) {
  Checkpoint checkpoint;
  checkpoint.manifest["epoch"] = 3;
  checkpoint.tensors["weight"] = torch::full({100}, value);
  return checkpoint;
}

}  // namespace

TEST_CASE("tensors of every type, shape and layout come back bit for bit") {
  TemporaryFolder folder;
  torch::manual_seed(1);
  const at::Tensor base = torch::randn({6, 8});
  Checkpoint saved;
  saved.tensors = {{"float", base},
                   {"double", torch::randn({3, 1, 2}, torch::kDouble)},
                   {"half", torch::randn({5}).to(torch::kHalf)},
                   {"bfloat16", torch::randn({7}).to(torch::kBFloat16)},
                   {"bool", torch::tensor({true, false, true})},
                   {"bytes", torch::arange(9, torch::kByte)},
                   {"int8", torch::arange(-3, 4, torch::kChar)},
                   {"int16", torch::arange(-3, 4, torch::kShort)},
                   {"int32", torch::arange(-3, 4, torch::kInt)},
                   {"int64", torch::tensor({std::numeric_limits<std::int64_t>::min()})},
                   {"scalar", torch::tensor(3.5)},
                   {"empty", torch::empty({0, 4})},
                   {"empty too", torch::empty({0}, torch::kLong)},
                   {"transposed", base.t()},
                   {"strided", base.slice(1, 0, 8, 3)},
                   {"view", base.select(0, 2)},
                   {"expanded", torch::ones({1}).expand({4, 4})},
                   {"channels last", torch::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast)},
                   {"parameter", torch::randn({2}, torch::requires_grad())},
                   {"not finite", torch::tensor({std::nan(""), HUGE_VAL, -HUGE_VAL, -0.0})},
                   {"conjugated", torch::_neg_view(torch::randn({3}))},
                   {"a name / with \"quotes\" and \xc3\xa9", torch::ones({1})}};
  saved.save(folder / "all.ckpt");
  const Checkpoint loaded = Checkpoint::load(folder / "all.ckpt");
  REQUIRE(loaded.tensors.size() == saved.tensors.size());
  for (const auto& [name, tensor] : saved.tensors) {
    INFO(name);
    const at::Tensor& back = loaded.tensors.at(name);
    CHECK(identical(back, tensor.resolve_neg()));
    CHECK_FALSE(back.requires_grad());
    CHECK(reinterpret_cast<std::uintptr_t>(back.const_data_ptr()) % back.element_size() == 0);
  }
}

TEST_CASE(
    "loaded tensors outlive the checkpoint and the file, writing to them changes nothing on disk, and they can be saved over "
    "the file") {
  TemporaryFolder folder;
  const auto file = folder / "model.ckpt";
  small_checkpoint(2.0).save(file);
  const std::string before = read_text(file);
  Checkpoint changed = Checkpoint::load(file);
  at::Tensor weight = Checkpoint::load(file).tensors.at("weight");
  changed.tensors.at("weight").mul_(2.0);
  weight.add_(1.0);
  CHECK(read_text(file) == before);
  changed.tensors["other"] = changed.tensors.at("weight");
  changed.save(file);
  for (const char* name : {"weight", "other"}) CHECK(Checkpoint::load(file).tensors.at(name).equal(torch::full({100}, 4.0)));
  std::filesystem::remove(file);
  CHECK(weight.sum().item<double>() == 300.0);
}

TEST_CASE("a copy takes the memory of an earlier one where that fits") {
  Checkpoint checkpoint;
  checkpoint.tensors = {{"same", torch::full({3, 4}, 2.0)},
                        {"shape", torch::full({5}, 3.0)},
                        {"type", torch::full({2}, 4)},
                        {"new", torch::full({2}, 5.0).requires_grad_()},
                        {"order", torch::arange(12.0).view({3, 4}).t()},
                        {"old order", torch::arange(12.0).view({3, 4})},
                        {"sign", at::_neg_view(torch::arange(5.0))},
                        {"large", torch::rand({1'000'003})},
                        {"none", torch::zeros({0})}};
  Checkpoint memory;
  memory.tensors = {{"same", torch::zeros({3, 4})}, {"shape", torch::zeros({6})},    {"type", torch::zeros({2})},
                    {"gone", torch::ones({1})},     {"order", torch::zeros({4, 3})}, {"old order", torch::zeros({4, 3}).t()}};
  const at::Tensor old = memory.tensors["same"];
  const Checkpoint copied = Checkpoint(checkpoint).copy(std::move(memory));
  REQUIRE(copied.tensors.size() == checkpoint.tensors.size());
  CHECK(copied.tensors.at("same").data_ptr() == old.data_ptr());
  for (const auto& [name, tensor] : checkpoint.tensors) {
    CAPTURE(name);
    const at::Tensor& copy = copied.tensors.at(name);
    CHECK(copy.equal(tensor));
    CHECK(copy.scalar_type() == tensor.scalar_type());
    CHECK_FALSE(copy.requires_grad());
    CHECK((copy.numel() == 0 || copy.data_ptr() != tensor.data_ptr()));
    CHECK(copy.is_contiguous());
  }
}

TEST_CASE("a copy of a checkpoint that is not needed any more takes the tensors that nobody else has") {
  std::vector<float> outside = {1, 2, 3};
  const at::Tensor held = torch::rand({4});
  Checkpoint checkpoint;
  checkpoint.tensors = {{"alone", torch::rand({4})},
                        {"held", held},
                        {"view", torch::rand({8}).slice(0, 0, 4)},
                        {"part of a held one", held.view({2, 2})},
                        {"trained", torch::rand({4}).requires_grad_()},
                        {"outside", torch::from_blob(outside.data(), {3})}};
  const std::map<std::string, at::Tensor> before = Checkpoint(checkpoint).copy({}).tensors;
  std::map<std::string, const void*> places;
  for (const auto& [name, tensor] : checkpoint.tensors) places[name] = tensor.const_data_ptr();
  const Checkpoint taken = std::move(checkpoint).copy(Checkpoint());
  for (const auto& [name, tensor] : taken.tensors) {
    CAPTURE(name);
    CHECK(tensor.equal(before.at(name)));
    CHECK((tensor.const_data_ptr() == places[name]) == (name == "alone"));
  }
}

TEST_CASE("saving makes the folder, leaves no other file, and refuses what a file cannot hold") {
  TemporaryFolder folder;
  const auto file = folder.path() / "deep" / "er" / (std::string(250, 'n') + ".ckpt");
  small_checkpoint(1.0).save(file);
  using Row = std::tuple<const char*, at::Tensor, const char*>;
  for (const auto& [name, tensor, reason] :
       {Row{"complex", torch::ones({1}, torch::kComplexDouble), ""}, Row{"nothing", at::Tensor(), "undefined"},
        Row{"sparse", torch::ones({2, 2}).to_sparse(), ""}}) {
    Checkpoint bad = small_checkpoint(1.0);
    bad.tensors[name] = tensor;
    CHECK_THROWS_WITH(bad.save(file), Contains("'" + std::string(name) + "'") && Contains(reason));
  }
  CHECK_THROWS_WITH(small_checkpoint(1.0).save(folder.path()), Contains("directory"));
  write_bytes(folder / "plain", "");
  CHECK_THROWS_WITH(small_checkpoint(1.0).save(folder / "plain/below.ckpt"), Contains("below.ckpt"));
  CHECK(std::distance(std::filesystem::directory_iterator(file.parent_path()), {}) == 1);
  CHECK(Checkpoint::load(file).manifest.at("epoch").as_int() == 3);
}

TEST_CASE("every single damaged byte, and every truncation, is found") {
  TemporaryFolder folder;
  const auto file = folder / "model.ckpt";
  Checkpoint checkpoint;
  checkpoint.manifest["epoch"] = 3;
  checkpoint.tensors["weight"] = torch::arange(8, torch::kFloat);
  checkpoint.save(file);
  const std::string whole = read_text(file);
  std::size_t header_end = 8;
  for (std::size_t i = 8; i-- > 0;) header_end += static_cast<std::size_t>(static_cast<unsigned char>(whole[i])) << (8 * i);
  for (std::size_t place = 0; place < whole.size(); ++place) {
    std::string damaged = whole;
    damaged[place] = static_cast<char>(damaged[place] ^ 0x01);
    write_bytes(file, damaged);
    INFO("byte " << place);
    try {
      // A changed name of a tensor, or of an entry of the metadata that levin does not use, is for the reader of the tensors to
      // find.
      const Checkpoint loaded = Checkpoint::load(file);
      CHECK(place < header_end);
      CHECK(loaded.manifest == checkpoint.manifest);
      CHECK(identical(loaded.tensors.begin()->second.view({-1}).view(torch::kByte),
                      checkpoint.tensors.at("weight").view(torch::kByte)));
    } catch (const IoError& error) {
      CHECK_THAT(error.what(), Contains("model.ckpt"));
    }
  }
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    write_bytes(file, whole.substr(0, size));
    CHECK_THROWS_AS(Checkpoint::load(file), IoError);
  }
}

TEST_CASE("a manifest is read of a file whose tensors are damaged, and of no other program's") {
  TemporaryFolder folder;
  small_checkpoint(1.0).save(folder / "epoch=2.ckpt");
  small_checkpoint(3.0).save(folder / "epoch=3.ckpt");
  std::string damaged = read_text(folder / "epoch=3.ckpt");
  damaged.back() = static_cast<char>(damaged.back() + 1);
  write_bytes(folder / "epoch=3.ckpt", damaged);
  write_bytes(folder / "last.ckpt", damaged.substr(0, damaged.size() / 2));
  CHECK(Checkpoint::load_manifest(folder / "epoch=3.ckpt").at("epoch") == Value(3));
  CHECK_THROWS_WITH(Checkpoint::load_manifest(folder / "last.ckpt"), Contains("ends within") && Contains("epoch=2.ckpt"));
  CHECK_THROWS_WITH(Checkpoint::load(folder.path()), Contains("directory"));
  CHECK_THROWS_WITH(Checkpoint::load(folder / "nowhere/last.ckpt"), Contains("No such file") && !Contains("newest"));
  write_bytes(folder / "other.safetensors", std::string("\x02\0\0\0\0\0\0\0{}", 10));
  CHECK_THROWS_WITH(Checkpoint::load(folder / "other.safetensors"), Contains("no manifest"));
  CHECK_THROWS_WITH(Checkpoint::load_manifest(folder / "other.safetensors"), Contains("no whole manifest"));
}
