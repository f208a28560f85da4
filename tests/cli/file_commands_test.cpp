#include "levin/cli/file_commands.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "levin/cli/command_line.h"
#include "levin/core/checkpoint/value_json.h"
#include "levin/core/error.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

namespace levin::cli {
namespace {

using Catch::Matchers::Contains;
using test::TemporaryFolder;

const std::filesystem::path kTorchFiles = LEVIN_SOURCE_DIR "/tests/core/checkpoint/data";

TEST_CASE("a file that is looked into is printed with manifest, tensors and checksums") {
  const Inspection lightning = inspect({.file = kTorchFiles / "lightning_SGD.ckpt"});
  CHECK(lightning.is_whole);
  CHECK_THAT(lightning.text, Contains("lightning_SGD.ckpt: Lightning checkpoint, 8 tensors, 104 bytes\nmanifest:\n") &&
                                 Contains("\n  epoch: 2\n") && Contains("checksums: all hold (14 checksums)\n"));
  CHECK_THAT(lightning.text, Contains("  state_dict.first.weight                     float32  [3, 2]  24 bytes\n"));

  const Inspection json = inspect({.file = kTorchFiles / "training_loop.pt", .as_json = true});
  const Value value = parse_json(json.text);
  CHECK(value.at("kind").as_string() == "state_dict of torch.save()");
  CHECK(value.at("manifest").is_null());
  CHECK(to_json(value.at("tensors")) == R"([{"name":"weight","dtype":"float32","shape":[2],"bytes":8}])");
  CHECK_FALSE(value.at("damaged").as_bool());
}

TEST_CASE("a file of others without checksums says so, and a damaged one what is damaged") {
  const TemporaryFolder folder;
  const FileCommand save{.file = kTorchFiles / "training_loop.pt", .format = "safetensors", .output = folder / "w.safetensors"};
  CHECK(export_weights(save) == (folder / "w.safetensors").string() + " written\n");
  CHECK_THAT(inspect({.file = folder / "w.safetensors"}).text,
             Contains(": safetensors file, 1 tensor, 8 bytes\ntensors:\n  weight  float32  [2]  8 bytes\n") &&
                 Contains("checksums: the file has none\n"));

  std::string bytes = test::read_text(kTorchFiles / "training_loop.pt");
  const std::size_t ones = bytes.find(std::string("\x00\x00\x80\x3f\x00\x00\x80\x3f", 8));
  bytes[ones] = 1;
  std::ofstream(folder / "changed.pt", std::ios::binary) << bytes;
  const Inspection damaged = inspect({.file = folder / "changed.pt"});
  CHECK_FALSE(damaged.is_whole);
  CHECK(damaged.text ==
        (folder / "changed.pt").string() + ": damaged\nchecksums: damaged: training_loop/data/0 (of 7 checksums)\n");
}

TEST_CASE("an export without a name stands beside its file, and replaces nothing") {
  const TemporaryFolder folder;
  std::filesystem::copy(kTorchFiles / "lightning_SGD.ckpt", folder / "last.ckpt");
  for (const std::string format : {"safetensors", "state_dict", "lightning"}) {
    export_weights({.file = folder / "last.ckpt", .format = format});
    CHECK_THROWS_WITH(export_weights({.file = folder / "last.ckpt", .format = format}), Contains("is there already"));
  }
  for (const char* name : {"last.safetensors", "last.pt", "last.lightning.ckpt"}) CHECK(std::filesystem::exists(folder / name));
}

}  // namespace
}  // namespace levin::cli
