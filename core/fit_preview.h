#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/data_module.h"

namespace levin {

class Trainer;

/// A loader that a fit reads.
struct LEVIN_API FitLoader {
  std::string name;  ///< "training loader", "validation loader 1"
  LoaderPtr loader;
  std::optional<std::int64_t> batches = std::nullopt;  ///< of an epoch, after limits; unset: all
};

/// A fit's module and data, to compute with before training. The destructor restores parameters, buffers, gradients, modes,
/// metric objects, random numbers and the position in the data, but not what a module, dataset or loader stores elsewhere.
/// Logged values are dropped. Called: in on_fit_start, one at a time. Ranks: all, with equal calls.
class LEVIN_API FitPreview {
 public:
  /// `in_64_bits`: parameters, buffers and the batch are 64-bit until then. Throws MisuseError outside of on_fit_start.
  explicit FitPreview(Trainer& trainer, bool in_64_bits = false);
  ~FitPreview();

  /// The training loader first. Made once for all checks, and again for the fit. Call start_epoch() before you read one.
  const std::vector<FitLoader>& loaders() const;
  /// loss() may be called: optimization is automatic, and each rank has a training batch.
  bool has_loss() const;
  /// training_step's loss of the first training batch, each time with the same random numbers and buffers. Throws MisuseError
  /// when it returns none.
  at::Tensor loss();
  /// Module::backward: gradients of this rank alone.
  void backward(const at::Tensor& loss);
  /// A signal has asked the run to end: stop a long read.
  bool interrupted() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace levin
