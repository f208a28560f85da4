#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/data/read_file.h"

namespace levin {

/// NumPy's .npz file: a zip archive of arrays. Those of np.savez() are read where they are touched, and may be larger than the
/// memory; those of np.savez_compressed() are decompressed as a whole.
///
///     at::Tensor images = levin::NpzFile("digits.npz").read("images");
class LEVIN_API NpzFile {
 public:
  /// Throws IoError, naming the file, where it is damaged.
  explicit NpzFile(const std::filesystem::path& path, double max_expansion = kMaxExpansion);
  /// The same for a file in memory; `name` stands for it in messages.
  NpzFile(std::string bytes, const std::string& name, double max_expansion = kMaxExpansion);
  ~NpzFile();
  NpzFile(NpzFile&&) noexcept;

  /// In the order of the file.
  const std::vector<std::string>& names() const;
  /// Throws ConfigError without such an array, IoError where it is damaged, holds no numbers, or expands too much.
  at::Tensor read(const std::string& name) const;

 private:
  struct Archive;
  std::unique_ptr<const Archive> archive_;
};

}  // namespace levin
