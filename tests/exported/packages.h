#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "levin/core/formats/tensor_file.h"
#include "support/fixed_loader.h"

namespace levin::test {

/// A file of make_packages.py.
inline std::filesystem::path package_file(const std::string& name) {
  return std::filesystem::path(LEVIN_SOURCE_DIR) / "tests/exported/packages" / name;
}

/// What torch and Lightning compute, by name.
inline const std::map<std::string, at::Tensor>& package_references() {
  static const TensorFile file = TensorFile::open(package_file("references.safetensors"));
  return file.content.tensors;
}

/// The batch "train.0": its tensors by name.
inline Batch recorded_batch(const std::string& name) {
  return Batch{{"x", package_references().at(name + ".x")}, {"label", package_references().at(name + ".label")}};
}

/// The batches of a stage, "train" or "val".
inline std::shared_ptr<FixedLoader> recorded_loader(const std::string& stage) {
  std::vector<Batch> batches;
  while (package_references().contains(stage + "." + std::to_string(batches.size()) + ".x"))
    batches.push_back(recorded_batch(stage + "." + std::to_string(batches.size())));
  return std::make_shared<FixedLoader>(std::move(batches));
}

}  // namespace levin::test
