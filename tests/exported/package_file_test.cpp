#include "levin/core/formats/package_file.h"

#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "exported/packages.h"
#include "levin/exported/compiled_function.h"
#include "levin/exported/exported_module.h"
#include "support/error_of.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

/// Offsets of a package at which to cut or to change it: all of its parts, and where they meet.
std::vector<std::size_t> some_places(std::size_t size) {
  std::vector<std::size_t> places;
  for (std::size_t part = 0; part < 200; ++part) places.push_back(size * part / 200);
  for (std::size_t last = 1; last < 150 && last < size; ++last) places.push_back(size - last);
  return places;
}

}  // namespace

TEST_CASE("a function of a package takes tensors by name and gives tensors by name, on any thread") {
  const CompiledFunction function(package_file("function.pt2"));
  const auto call = [&](std::int64_t rows) {
    const at::Tensor image = torch::arange(rows * 3, torch::kFloat).reshape({rows, 3}) / 10;
    const at::Tensor code = function({{"image", image}, {"scale", torch::tensor(3.0F)}})["code"];
    return at::allclose(code, torch::tanh(image) * 3);
  };
  CHECK(call(5));
  std::vector<int> right(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t index = 0; index < right.size(); ++index)
    threads.emplace_back([&, index] {
      for (int round = 0; round < 50; ++round) right[index] += call(2 + static_cast<std::int64_t>(index)) ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(right == std::vector<int>(4, 50));
  CHECK(error_of<MisuseError>([&] {
          function({{"image", torch::zeros({2, 4})}, {"scale", torch::tensor(1.0F)}});
        }).find("takes \"image\" as float32 [") != std::string::npos);
}

TEST_CASE("a package that is for something else is refused before its code is loaded, with both named") {
  const std::vector<std::pair<std::string, std::vector<std::string>>> expected = {
      {"other_torch.pt2", {"torch 2.12.0", "has 2."}},
      {"other_system.pt2", {"the system plan9", "has linux"}},
      {"other_machine.pt2", {"the processor aarch64", "has x86_64"}},
      {"other_processor.pt2", {"a processor with avx9000", "processor=\"x86-64-v3\""}}};
  for (const auto& [name, named] : expected) {
    const std::filesystem::path file = package_file(name);
    const std::string error = error_of<ConfigError>([&] { CompiledFunction function(file); });
    for (const std::string& part : named) {
      INFO(error);
      CHECK(error.find(part) != std::string::npos);
    }
  }
  CHECK(error_of<IoError>([&] { CompiledFunction function(package_file("other_format.pt2")); }).find("format 99") !=
        std::string::npos);
  CHECK(error_of<ConfigError>([&] { CompiledFunction function(package_file("steps.pt2")); }).find("ExportedModule") !=
        std::string::npos);
  CHECK(error_of<IoError>([&] { PackageFile::open(package_file("references.safetensors")); }).find("not a package") !=
        std::string::npos);
}

TEST_CASE("a package that is cut short or changed anywhere is an error that names it") {
  const TemporaryFolder folder;
  const std::string whole = read_text(package_file("other_format.pt2"));  // its code is left out
  const std::filesystem::path file = folder / "changed.pt2";
  std::size_t refused = 0;
  std::size_t tried = 0;
  for (const std::size_t place : some_places(whole.size())) {
    for (const bool cuts : {true, false}) {
      std::string changed = whole.substr(0, cuts ? place : whole.size());
      if (!cuts) changed[place] = static_cast<char>(changed[place] ^ 0x55);
      std::ofstream(file, std::ios::binary) << changed;
      const std::string error = error_of<IoError>([&] { PackageFile::open(file); });
      ++tried;
      refused += error.find("changed.pt2") != std::string::npos ? 1 : 0;
    }
  }
  CHECK(refused == tried);
}

TEST_CASE("the contents of a package are shown without loading it") {
  const std::string summary = PackageFile::open(package_file("steps.pt2")).summary();
  for (const char* line :
       {"module: Steps, precision 32-true", "torch 2.13.0 on linux, x86_64 with", "hyper-parameters: width int 6",
        "  takes x float32[batch, 4]; label int64[batch]; global_step", "  takes batch of 2 or more",
        "train_loss (on_epoch=true, prog_bar), seen (on_step=true, on_epoch=false)", "val_accuracy (Accuracy)",
        "  holds where make_packages.py:"}) {
    INFO(summary);
    CHECK(summary.find(line) != std::string::npos);
  }
  CHECK(PackageFile::open(package_file("other_torch.pt2")).summary().find("torch 2.12.0") != std::string::npos);
  CHECK(TensorFile::open(package_file("steps.pt2")).kind == TensorFileKind::kPackage);
}
