#include "levin/cli/file_commands.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "levin/cli/command_line.h"
#include "levin/core/base/error.h"
#include "levin/core/options/value_json.h"
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

TEST_CASE("an export stands beside its file, or where it is told, and replaces nothing unless forced") {
  const TemporaryFolder folder;
  std::filesystem::copy(kTorchFiles / "lightning_SGD.ckpt", folder / "last.ckpt");
  for (const std::string format : {"safetensors", "state_dict", "lightning"}) {
    export_weights({.file = folder / "last.ckpt", .format = format});
    CHECK_THROWS_WITH(export_weights({.file = folder / "last.ckpt", .format = format}), Contains("is there already"));
  }
  for (const char* name : {"last.safetensors", "last.pt", "last.lightning.ckpt"}) CHECK(std::filesystem::exists(folder / name));

  std::ofstream(folder / "run.yaml") << "trainer:\n";
  FileCommand command{.file = folder / "last.ckpt", .format = "safetensors", .output = folder / "run.yaml"};
  CHECK_THROWS_WITH(export_weights(command), Contains("run.yaml' is there already: give --force"));
  CHECK(test::read_text(folder / "run.yaml") == "trainer:\n");
  command.force = true;
  export_weights(command);
  CHECK(inspect({.file = folder / "run.yaml"}).is_whole);
  std::filesystem::create_symlink("nowhere", folder / "link.safetensors");
  CHECK_THROWS_WITH(
      export_weights({.file = folder / "last.ckpt", .format = "safetensors", .output = folder / "link.safetensors"}),
      Contains("is there already"));
}

TEST_CASE("a key is given on the command line") {
  const CommandLine line = parse_command_line({"export", "gan.pt", "--to", "safetensors", "--key", "generator", "--force"});
  CHECK(line.file.key == "generator");
  CHECK(line.file.force);
  CHECK(parse_command_line({"inspect", "gan.pt", "--key=a.b"}).file.key == "a.b");
  CHECK_THROWS_WITH(inspect({.file = kTorchFiles / "training_loop.pt", .key = "model"}),
                    Contains("no 'model' in it, but 'model_state_dict' (1 tensor), 'epoch' (a plain value)"));
  const Inspection chosen = inspect({.file = kTorchFiles / "training_loop.pt", .key = "model_state_dict"});
  CHECK_THAT(chosen.text, Contains("1 tensor") && !Contains("beside"));
  CHECK_THAT(inspect({.file = kTorchFiles / "training_loop.pt"}).text, Contains("\nbeside: 'epoch' (a plain value)\ntensors:"));
}

}  // namespace
}  // namespace levin::cli
