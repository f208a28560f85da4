#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

#include "levin/core/base/fwd.h"
#include "levin/core/config/value.h"

namespace levin {

/// A checksum of a file, and whether it is that of what it covers.
struct LEVIN_API ChecksumReport {
  std::string what;  ///< "tensor data"
  bool holds = true;
};

/// What one checkpoint file holds: named tensors, and a manifest of plain values. The file is a safetensors file; the manifest
/// is one JSON text in its `__metadata__`. Tensor names: `state_dict.<parameter>`, `optimizer_states.<i>.state.<j>.<field>`,
/// `rng.<rank>.cpu`, `rng.<rank>.<accelerator>` where that has random numbers of its own, `rng.<rank>.own` and `rng.shared`
/// where they were asked for, and `rng.seed`, from which they begin where they were not. Manifest keys are Lightning's: epoch,
/// global_step, optimizer_states, lr_schedulers, loops, callbacks, hyper_parameters, datamodule_hyper_parameters; and
/// levin_version, and metrics: by rank, what it had logged in the epoch under way.
class LEVIN_API Checkpoint {
 public:
  Value manifest = Value(Value::Map{});
  std::map<std::string, at::Tensor> tensors;

  /// Writes the file so that at any instant either the old or the new one is whole: a temporary file in the same folder, fsync,
  /// rename, fsync of the folder. Makes the folder when missing. Throws IoError with path and reason; the temporary is removed.
  void save(const std::filesystem::path& file) const;
  /// The same, with tensors of its own on the CPU, which nobody else changes; those that nobody else has are taken as they are.
  /// `memory`: an earlier copy that is of no use any more, whose tensors are filled again where name, type and shape are the
  /// same: new memory takes several times as long. Throws MisuseError for what save() cannot write.
  Checkpoint copy(Checkpoint memory) &&;
  /// The same as another thread can save it: with tensors of this thread's devices on the CPU. Others stay where they are.
  Checkpoint on_host() &&;
  /// Reads a file by mmap; tensors share the mapping copy-on-write. Throws IoError naming the file and what is wrong with it
  /// (missing, truncated, checksum, not a safetensors file), and the newest whole checkpoint of the same folder if there is
  /// one.
  static Checkpoint load(const std::filesystem::path& file);
  /// The manifest of a checkpoint alone: what the tensors' checksum covers is not read.
  static Value load_manifest(const std::filesystem::path& file);
  /// True for a regular file, not a link to one, that levin has written as a checkpoint: one that a callback may replace or
  /// remove. Reads its header only.
  static bool is_checkpoint(const std::filesystem::path& file);
};

}  // namespace levin
