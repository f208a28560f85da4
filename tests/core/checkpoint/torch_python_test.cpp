#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "core/checkpoint/lightning_regression.h"
#include "levin/core/checkpoint/file_report.h"
#include "levin/core/checkpoint/tensor_file.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

// Registered with CTest only where a Python with torch, Lightning and safetensors is found (see CMakeLists.txt).

void run_python(const std::string& script, const std::filesystem::path& folder) {
  const char* const python = std::getenv("LEVIN_TORCH_PYTHON");
  REQUIRE(python != nullptr);
  const std::string command =
      std::string(python) + " " LEVIN_SOURCE_DIR "/tests/core/checkpoint/" + script + " " + folder.string() + " 2>&1";
  REQUIRE(std::system(command.c_str()) == 0);
}

TEST_CASE("what torch and Lightning write today is read as what they wrote for the tests", "[.torch_python]") {
  const TemporaryFolder folder;
  run_python("data/make_torch_files.py", folder.path());
  for (const char* name : {"state_dict.pt", "training_loop.pt", "lightning_SGD.ckpt", "lightning_within_epoch.ckpt"}) {
    CAPTURE(name);
    const TensorFile now = TensorFile::open(folder / name);
    const TensorFile then = TensorFile::open(kTorchFiles / name);
    CHECK(now.kind == then.kind);
    CHECK(now.names == then.names);
    for (const std::string& tensor : then.names) {
      CAPTURE(tensor);
      const at::Tensor expected = then.content.tensors.at(tensor);
      CHECK(now.content.tensors.at(tensor).scalar_type() == expected.scalar_type());
      CHECK(at::allclose(now.content.tensors.at(tensor).to(at::kComplexDouble), expected.to(at::kComplexDouble)));
    }
  }
}

TEST_CASE("Python's torch, safetensors and Lightning load what is exported", "[.torch_python]") {
  const TemporaryFolder folder;
  export_file(kTorchFiles / "state_dict.pt", folder / "all.pt", {.format = ExportFormat::kStateDict});

  for (const std::string& optimizer : kOptimizers) {
    LightningRegression module(optimizer);
    module.begin_alike();
    Trainer trainer(epochs(2));
    trainer.fit(module, lightning_batches());
    const std::filesystem::path file = folder / ("levin_" + optimizer + ".ckpt");
    trainer.save_checkpoint(file);
    export_file(file, folder / (optimizer + ".safetensors"), {.format = ExportFormat::kSafetensors});
    export_file(file, folder / (optimizer + ".pt"), {.format = ExportFormat::kStateDict});
    export_file(file, folder / (optimizer + ".ckpt"), {.format = ExportFormat::kLightning});
  }
  run_python("read_exports.py", folder.path());  // trains two epochs more with Lightning
  for (const std::string& optimizer : kOptimizers) {
    CAPTURE(optimizer);
    LightningRegression module(optimizer);
    Trainer trainer(epochs(4));
    trainer.fit(module, lightning_batches(), {}, {.ckpt_path = (folder / ("levin_" + optimizer + ".ckpt")).string()});
    CHECK(distance(module, folder / (optimizer + "_later.pt")) < 1e-6);
  }
}

}  // namespace
}  // namespace levin::test
