#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "levin/core/formats/tensor_file.h"
#include "support/temporary_folder.h"
#include "support/whole_matrix.h"

namespace levin::test {
namespace {

TEST_CASE("tensors of more than 2 GB are written and read, in each format") {
  const std::int64_t bytes = is_whole_matrix() ? (std::int64_t{1} << 31) + 4096 : 1 << 20;
  const TemporaryFolder folder;
  Checkpoint checkpoint;
  checkpoint.tensors["state_dict.large"] = torch::zeros({bytes}, at::kByte);
  checkpoint.tensors["state_dict.behind"] = torch::tensor({1.0, 2.0});
  checkpoint.tensors["state_dict.large"][bytes - 1] = 7;
  checkpoint.save(folder / "own.ckpt");
  checkpoint = {};
  const std::pair<const char*, ExportFormat> formats[] = {
      {"w.pt", ExportFormat::kStateDict}, {"w.safetensors", ExportFormat::kSafetensors}, {"w.ckpt", ExportFormat::kLightning}};
  for (const auto& [name, format] : formats) {
    CAPTURE(name);
    export_file(folder / "own.ckpt", folder / name, {.format = format});
    const auto weights = TensorFile::open(folder / name).weights();
    const std::map<std::string, at::Tensor> by_name(weights.begin(), weights.end());
    CHECK(by_name.at("large").numel() == bytes);
    CHECK(by_name.at("large")[bytes - 1].item<int>() == 7);
    CHECK(by_name.at("large")[bytes - 2].item<int>() == 0);
    CHECK(at::equal(by_name.at("behind"), torch::tensor({1.0, 2.0})));
    std::filesystem::remove(folder / name);
  }
}

}  // namespace
}  // namespace levin::test
