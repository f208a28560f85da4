#include <catch2/catch.hpp>
#include <fstream>

#include "acceptance/digits_run.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

/// What scripts/setup.sh does where no download works and a CUDA toolkit is installed.
class Setup {
 public:
  Setup() {
    program("python", "case \"$*\" in *--version*) exit 0;; *) exit 1;; esac");
    program("nvcc", "exit 0");
  }

  Outcome run(const std::string& cuda = "") const {
    const std::string path = folder_.path().string() + ":" + std::getenv("PATH");
    return test::run({.arguments = {"bash", LEVIN_SOURCE_DIR "/scripts/setup.sh"},
                      .environment = {{"PATH", path},
                                      {"PYTHON", (folder_ / "python").string()},
                                      {"LEVIN_CACHE", cache().string()},
                                      {"LEVIN_TORCH_VERSION", "9.8.7"},
                                      {"LEVIN_CUDA", cuda},
                                      {"Torch_DIR", ""},
                                      {"CMAKE_PREFIX_PATH", ""}}});
  }
  fs::path cache() const { return folder_ / "cache"; }

 private:
  void program(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << "#!/bin/sh\n" << text << "\n";
    fs::permissions(folder_ / name, fs::perms::owner_all);
  }
  TemporaryFolder folder_;
};

TEST_CASE("without a GPU, the CPU part of LibTorch is enough, also where a CUDA toolkit is") {
  const Setup setup;
  const bool has_gpu = fs::exists("/dev/nvidia0");
  CHECK_THAT(setup.run("OFF").err, Contains("LibTorch 9.8.7 (CPU)") && !Contains("CUDA"));
  if (!has_gpu) CHECK_THAT(setup.run().err, Contains("LibTorch 9.8.7 (CPU)") && !Contains("CUDA"));
  CHECK_THAT(setup.run("ON").err, Contains("LibTorch 9.8.7 (with CUDA)") || Contains("needs 12 GiB"));
}

TEST_CASE("a LibTorch with CUDA's libraries that is there serves without a GPU too") {
  const Setup setup;
  const fs::path libtorch = setup.cache() / "torch-9.8.7-cuda/torch";
  for (const char* file : {"lib/libtorch_cpu.so", "include/ATen/core/Tensor.h"}) {
    fs::create_directories((libtorch / file).parent_path());
    std::ofstream(libtorch / file) << "\n";
  }
  for (const char* cuda : {"", "OFF", "ON"}) {
    const Outcome outcome = setup.run(cuda);
    INFO(outcome.text());
    CHECK(outcome.ok());
    CHECK(outcome.err.empty());
  }
}

}  // namespace
}  // namespace levin::test
