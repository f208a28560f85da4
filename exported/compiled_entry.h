#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "levin/core/batch.h"
#include "levin/core/formats/package_file.h"

namespace torch::inductor {
class AOTIModelPackageLoader;
}

namespace levin {

/// One entry of a package, with its code loaded.
///
/// Threading: run() may be called on any thread; calls wait for one another.
class CompiledEntry {
 public:
  /// Throws ConfigError when the package is not for this machine (PackageFile::check_fits), and IoError when LibTorch cannot
  /// load its code.
  CompiledEntry(const PackageFile& package, const PackageEntry& entry);
  ~CompiledEntry();

  const PackageEntry& entry() const { return entry_; }
  /// Outputs in the order of entry().outputs. Computes without autograd.
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs) const;
  /// The tensors of a batch that the entry reads, by name where the batch has all names, else by position. Throws MisuseError,
  /// which names the tensor, for another type or shape than the package was made for.
  std::vector<at::Tensor> batch_inputs(const Batch& batch) const;

 private:
  const at::Tensor& find(const Batch& batch, const PackageEntry::Input& input, bool by_name) const;

  std::string file_;
  PackageEntry entry_;
  std::unique_ptr<torch::inductor::AOTIModelPackageLoader> loader_;
};

}  // namespace levin
