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

/// PowerSGD (Vogels, Karimireddy and Jaggi, 2019) as PyTorch's powerSGD_hook has it: the gradient of a parameter, taken as a
/// matrix M of n rows, travels as P (n × r) and Q (m × r), of which M is about P Qᵀ. What that leaves out is added to the next
/// gradient (error feedback), and Q is where the next approximation begins (warm start). Both belong to a parameter, whichever
/// bucket it travels in.
class PowerSgd {
 public:
  /// Makes a tensor its sum over ranks, in place, and waits for it.
  using Sum = std::function<void(at::Tensor&)>;

  explicit PowerSgd(const DdpOptions& options) : options_(options) {}

  /// Gradients in the bucket become their mean over so many ranks, approximated for those that are worth it. `along`, if it is
  /// defined, travels with those that are not, and is summed exactly: the result. Ranks: all, with buckets of the same
  /// parameters.
  at::Tensor reduce(c10d::GradBucket& bucket, int ranks, const Sum& sum, const at::Tensor& along = {});

  /// The step whose gradients were reduced is over. Until then state() is as before it: a run that resumes within a step
  /// reduces its gradients again.
  void end_step() { before_step_.reset(); }

  /// What parameters are called, in the state. Called: before both of what follow, and when they have changed.
  void name_parameters(const torch::nn::Module& module);
  /// The state by name, as checkpoints store it: "step"; "q.<parameter>", the same on all ranks; and
  /// "error.<rank>.<parameter>", of every rank that has one. `gather`: every rank's, along a new first dimension.
  using Gather = std::function<at::Tensor(const at::Tensor&)>;
  std::map<std::string, at::Tensor> state(const Gather& gather) const;
  /// Takes it back on rank `rank` of `ranks`. Where there were others, what all ranks had left out together stays the same.
  void load(const std::map<std::string, at::Tensor>& state, int rank, int ranks);

 private:
  struct OfParameter {
    at::Tensor parameter;  ///< held, so that no other can be at its address
    at::Tensor q;
    at::Tensor error;
  };
  /// One gradient on its way.
  struct Compressed {
    OfParameter* state = nullptr;
    at::Tensor matrix;  ///< in the bucket
    at::Tensor before;  ///< the matrix as this rank has it
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
