#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "levin/strategies/gradients/gradient_reducer.h"

namespace c10d {
class GradBucket;
}

namespace levin {

/// PowerSGD (Vogels, Karimireddy and Jaggi, 2019) as in PyTorch's powerSGD_hook: the gradient of a parameter, as a matrix M of
/// n rows, is sent as P (n × r) and Q (m × r), with M ≈ P Qᵀ. The error is added to the next gradient (error feedback), and the
/// next approximation starts from Q (warm start). Both belong to a parameter, in any bucket.
class PowerSgd {
 public:
  /// Sums a tensor over ranks, in place, and waits for it.
  using Sum = std::function<void(at::Tensor&)>;

  explicit PowerSgd(const DdpOptions& options) : options_(options) {}

  /// Averages the gradients in the bucket over so many ranks, approximated where that pays. `along`, if defined, is sent with
  /// the others, and its exact sum is returned. Ranks: all, with buckets of the same parameters.
  at::Tensor reduce(c10d::GradBucket& bucket, int ranks, const Sum& sum, const at::Tensor& along = {});

  /// Ends the step of the reduced gradients. Until then state() is that of before it: a run that resumes within a step reduces
  /// its gradients again.
  void end_step() { before_step_.reset(); }

  /// Sets the names of parameters in the state. Called: before the next two, and when parameters have changed.
  void name_parameters(const torch::nn::Module& module);
  /// The state by name, as checkpoints store it: "step"; "q.<parameter>", the same on all ranks; and
  /// "error.<rank>.<parameter>", of every rank that has one. `gather`: every rank's, along a new first dimension.
  using Gather = std::function<at::Tensor(const at::Tensor&)>;
  std::map<std::string, at::Tensor> state(const Gather& gather) const;
  /// Restores it on rank `rank` of `ranks`. With another number of ranks, the sum of all errors stays the same.
  void load(const std::map<std::string, at::Tensor>& state, int rank, int ranks);

 private:
  struct OfParameter {
    at::Tensor parameter;  ///< held, so that no other can be at its address
    at::Tensor q;
    at::Tensor error;
  };
  /// One gradient in a reduction.
  struct Compressed {
    OfParameter* state = nullptr;
    at::Tensor matrix;  ///< in the bucket
    at::Tensor before;  ///< this rank's matrix
    at::Tensor p;
  };
  bool is_worth_it(const at::Tensor& gradient) const;
  Compressed begin(const at::Tensor& parameter, const at::Tensor& gradient, const at::Generator& random);
  void approximate(std::vector<Compressed>& gradients, int ranks, const Sum& sum) const;

  struct Moment {
    std::int64_t step = 0;
    std::map<const at::TensorImpl*, OfParameter> states;  ///< whose tensors are never changed in place
  };

  DdpOptions options_;
  std::map<std::string, at::Tensor> named_;
  Moment now_;
  std::optional<Moment> before_step_;
};

}  // namespace levin
