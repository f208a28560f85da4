#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

#include "levin/core/base/fwd.h"
#include "levin/core/config/value.h"

namespace levin {

/// A checksum of a file, and whether it matches.
struct LEVIN_API ChecksumReport {
  std::string what;  ///< "tensor data"
  bool holds = true;
};

/// The content of a checkpoint file: named tensors, and a manifest of plain values. The file is a safetensors file; the
/// manifest is one JSON text in its `__metadata__`. Tensor names: `state_dict.<parameter>`,
/// `optimizer_states.<i>.state.<j>.<field>`, `rng.<rank>.cpu`, `rng.<rank>.<accelerator>` where that has its own generator,
/// `rng.<rank>.own` and `rng.shared` where they were used, and `rng.seed`, with which unused ones start. Manifest keys are
/// Lightning's: epoch, global_step, optimizer_states, lr_schedulers, loops, callbacks, hyper_parameters,
/// datamodule_hyper_parameters; and levin_version, and metrics: by rank, the values logged in the current epoch.
class LEVIN_API Checkpoint {
 public:
  Value manifest = Value(Value::Map{});
  std::map<std::string, at::Tensor> tensors;

  /// Writes the file so that at any instant either the old or the new one is whole: a temporary file in the same folder, fsync,
  /// rename, fsync of the folder. Makes the folder when missing. Throws IoError with path and reason; the temporary is removed.
  void save(const std::filesystem::path& file) const;
  /// A copy whose tensors are on the CPU and not shared; tensors that are not shared already are moved. `memory`: an earlier
  /// copy that is no longer needed, whose tensors are reused where name, type and shape are the same: new memory takes several
  /// times as long. Throws MisuseError for what save() cannot write.
  Checkpoint copy(Checkpoint memory) &&;
  /// A copy that another thread can save: with tensors of this thread's devices on the CPU. Others stay.
  Checkpoint on_host() &&;
  /// Reads a file by mmap; tensors share the mapping copy-on-write. Throws an IoError that names the file, the problem
  /// (missing, truncated, checksum, not a safetensors file), and the newest whole checkpoint of the same folder, if any.
  static Checkpoint load(const std::filesystem::path& file);
  /// Reads only the manifest of a checkpoint, not the tensors.
  static Value load_manifest(const std::filesystem::path& file);
  /// True for a regular file, not a link, that levin has written as a checkpoint: a callback may replace or remove it. Reads
  /// only its header.
  static bool is_checkpoint(const std::filesystem::path& file);
};

}  // namespace levin
