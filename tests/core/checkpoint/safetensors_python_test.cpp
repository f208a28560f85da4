#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "levin/core/checkpoint/checkpoint.h"
#include "support/temporary_folder.h"

// Registered with CTest only where a Python with the safetensors package is found (see CMakeLists.txt).
TEST_CASE("Python's safetensors package opens a checkpoint", "[.safetensors_python]") {
  levin::test::TemporaryFolder folder;
  levin::Checkpoint checkpoint;
  checkpoint.manifest["epoch"] = 3;
  checkpoint.tensors = {{"flags", torch::tensor({true, false, true})},
                        {"counts", torch::arange(5)},
                        {"scalar", torch::tensor(2.5)},
                        {"empty", torch::empty({0, 3})},
                        {"transposed", torch::arange(6, torch::kDouble).view({2, 3}).t()}};
  checkpoint.save(folder / "model.ckpt");
  const char* python = std::getenv("LEVIN_SAFETENSORS_PYTHON");
  REQUIRE(python != nullptr);
  const std::string command = std::string(python) + " " LEVIN_SOURCE_DIR "/tests/core/checkpoint/read_with_safetensors.py " +
                              (folder / "model.ckpt").string();
  CHECK(std::system(command.c_str()) == 0);
}
