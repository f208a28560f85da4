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
  std::optional<std::int64_t> batches = std::nullopt;  ///< that limits leave of an epoch; unset: all
};

/// A fit's module and data, to compute something with them before it trains. When this is gone, parameters, buffers, gradients,
/// modes, metric objects, random numbers and the place in the data are as before; what a module, dataset or loader keeps
/// elsewhere is not. What is logged meanwhile goes nowhere. Called: in on_fit_start, one at a time. Ranks: all, with equal
/// calls.
class LEVIN_API FitPreview {
 public:
  /// `in_64_bits`: parameters, buffers and the batch are 64-bit numbers meanwhile. Throws MisuseError outside of on_fit_start.
  explicit FitPreview(Trainer& trainer, bool in_64_bits = false);
  ~FitPreview();

  /// That of training first. They are asked for once for all checks, and anew for the fit. Whoever reads one starts its epoch.
  const std::vector<FitLoader>& loaders() const;
  /// The module optimizes automatically, and each rank has a batch of training data: loss() may be called.
  bool has_loss() const;
  /// training_step's loss of the first training batch, each time with the same random numbers and buffers. Throws MisuseError
  /// when it gives none.
  at::Tensor loss();
  /// Module::backward: gradients of this rank alone.
  void backward(const at::Tensor& loss);
  /// A signal wants the run to end: whoever reads for long reads no further.
  bool interrupted() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace levin
