#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "levin/core/base/fwd.h"
#include "levin/core/config/option_type.h"
#include "levin/core/optimizers/described_optimizer.h"

// Optimizers that LibTorch lacks, with the names, options, state and numbers of torch.optim, and LAMB, LARS and Lion:
//
//     levin::Lion(parameters(), {.lr = 1e-4, .weight_decay = 0.1})
namespace levin {

/// The decay rates of two averages: each at least 0 and below 1.
struct LEVIN_API Betas {
  double first = 0.9;
  double second = 0.999;
};

template <>
struct LEVIN_API OptionType<Betas> {
  static Betas read(const Value& value);
  static Value write(const Betas& betas) { return Value(Value::List{betas.first, betas.second}); }
  static std::string name() { return "two floats"; }
  static Value schema();
};

/// The state of those that keep averages of the gradient and of its square, as Adam does.
struct LEVIN_API MomentsState {
  std::int64_t step = 0;
  at::Tensor exp_avg = {};
  at::Tensor exp_avg_sq = {};
};

struct LEVIN_API MomentumState {
  at::Tensor momentum_buffer = {};
};

struct LEVIN_API AdadeltaOptions {
  double lr = 1.0;
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0.0;
  bool maximize = false;
  static void declare(OptionList<AdadeltaOptions>& options);
};

struct LEVIN_API AdadeltaState {
  std::int64_t step = 0;
  at::Tensor square_avg = {};
  at::Tensor acc_delta = {};
};

/// Steps in the units of the parameters, without a rate to tune (Zeiler 2012), as torch.optim.Adadelta.
class LEVIN_API Adadelta final : public OptimizerOf<AdadeltaOptions, AdadeltaState> {
  using OptimizerOf::OptimizerOf;
  void step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) override;
};

struct LEVIN_API AdafactorOptions {
  double lr = 1e-2;
  double beta2_decay = -0.8;
  /// Smallest root of a square; unset: the resolution of the parameter's type. And the smallest size of parameters that steps
  /// are in proportion to.
  std::tuple<std::optional<double>, double> eps = {std::nullopt, 1e-3};
  double d = 1.0;  ///< what an update is clipped to
  double weight_decay = 0.0;
  bool maximize = false;
  static void declare(OptionList<AdafactorOptions>& options);
};

struct LEVIN_API AdafactorState {
  std::int64_t step = 0;
  at::Tensor row_var = {};   ///< of parameters with two dimensions and more
  at::Tensor col_var = {};   ///< the same
  at::Tensor variance = {};  ///< of others
  StateFields fields();
};

/// Stores of the squares of a matrix of gradients its rows and columns (Shazeer and Stern 2018), as torch.optim.Adafactor.
class LEVIN_API Adafactor final : public OptimizerOf<AdafactorOptions, AdafactorState> {
  using OptimizerOf::OptimizerOf;
  State first_state(const at::Tensor& parameter, const Options& options) const override;
  void step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) override;
};

struct LEVIN_API AdamaxOptions {
  double lr = 2e-3;
  Betas betas = {};
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool maximize = false;
  static void declare(OptionList<AdamaxOptions>& options);
};

struct LEVIN_API AdamaxState {
  std::int64_t step = 0;
  at::Tensor exp_avg = {};
  at::Tensor exp_inf = {};
};

/// Adam with the infinity norm of gradients (Kingma and Ba 2014), as torch.optim.Adamax.
class LEVIN_API Adamax final : public OptimizerOf<AdamaxOptions, AdamaxState> {
  using OptimizerOf::OptimizerOf;
  void step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) override;
};

struct LEVIN_API AdamWBf16Options {
  double lr = 1e-3;
  Betas betas = {};
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool maximize = false;
  static void declare(OptionList<AdamWBf16Options>& options);
};

/// AdamW whose state takes half the memory: averages are stored in bfloat16 and rounded stochastically (Zamirai et al. 2020),
/// since to the nearest they would stop where a change is less than half a last digit. Steps are computed in float32, and the
/// same on ranks that have the same gradients.
class LEVIN_API AdamWBf16 final : public OptimizerOf<AdamWBf16Options, MomentsState> {
  using OptimizerOf::OptimizerOf;
  State first_state(const at::Tensor& parameter, const Options& options) const override;
  void step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) override;
};

struct LEVIN_API ASGDOptions {
  double lr = 1e-2;
  double lambd = 1e-4;
  double alpha = 0.75;
  double t0 = 1e6;
  double weight_decay = 0.0;
  bool maximize = false;
  static void declare(OptionList<ASGDOptions>& options);
};

struct LEVIN_API ASGDState {
  std::int64_t step = 0;
  double eta = 0.0;
  double mu = 1.0;
  at::Tensor ax = {};
};

/// Averaged stochastic gradient descent (Polyak and Juditsky 1992), as torch.optim.ASGD. The average is `ax` of the state.
class LEVIN_API ASGD final : public OptimizerOf<ASGDOptions, ASGDState> {
  using OptimizerOf::OptimizerOf;
  State first_state(const at::Tensor& parameter, const Options& options) const override;
  void step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) override;
};

struct LEVIN_API LAMBOptions {
  double lr = 1e-3;
  Betas betas = {};
  double eps = 1e-6;
  double weight_decay = 0.01;
  bool maximize = false;
  static void declare(OptionList<LAMBOptions>& options);
};

/// AdamW for large batches, whose steps are in proportion to the size of each parameter (You et al. 2019, algorithm 2).
class LEVIN_API LAMB final : public OptimizerOf<LAMBOptions, MomentsState> {
  using OptimizerOf::OptimizerOf;
  void step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) override;
};

struct LEVIN_API LARSOptions {
  double lr = 1.0;
  double momentum = 0.9;
  double weight_decay = 0.0;
  double trust_coefficient = 1e-3;  ///< size of a step relative to the parameter's, at a rate of 1
  bool maximize = false;
  static void declare(OptionList<LARSOptions>& options);
};

/// SGD with momentum for large batches, whose steps are in proportion to the size of each parameter (You et al. 2017).
class LEVIN_API LARS final : public OptimizerOf<LARSOptions, MomentumState> {
  using OptimizerOf::OptimizerOf;
  void step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) override;
};

struct LEVIN_API LionOptions {
  double lr = 1e-4;
  Betas betas = {0.9, 0.99};
  double weight_decay = 0.0;
  bool maximize = false;
  static void declare(OptionList<LionOptions>& options);
};

struct LEVIN_API LionState {
  at::Tensor exp_avg = {};
};

/// Steps by the sign of a momentum (Chen et al. 2023).
class LEVIN_API Lion final : public OptimizerOf<LionOptions, LionState> {
  using OptimizerOf::OptimizerOf;
  void step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) override;
};

struct LEVIN_API MuonOptions {
  double lr = 1e-3;
  double weight_decay = 0.1;
  double momentum = 0.95;
  bool nesterov = true;
  std::tuple<double, double, double> ns_coefficients = {3.4445, -4.775, 2.0315};  ///< of the Newton-Schulz iteration
  double eps = 1e-7;
  std::int64_t ns_steps = 5;
  std::optional<std::string> adjust_lr_fn = std::nullopt;  ///< original (the default) or match_rms_adamw
  static void declare(OptionList<MuonOptions>& options);
};

/// Momentum made orthogonal, for matrices only (Jordan et al. 2024), as torch.optim.Muon: give other parameters to another
/// optimizer.
class LEVIN_API Muon final : public OptimizerOf<MuonOptions, MomentumState> {
  using OptimizerOf::OptimizerOf;
  State first_state(const at::Tensor& parameter, const Options& options) const override;
  void step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) override;
};

struct LEVIN_API NAdamOptions {
  double lr = 2e-3;
  Betas betas = {};
  double eps = 1e-8;
  double weight_decay = 0.0;
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  static void declare(OptionList<NAdamOptions>& options);
};

struct LEVIN_API NAdamState {
  std::int64_t step = 0;
  at::Tensor exp_avg = {};
  at::Tensor exp_avg_sq = {};
  double mu_product = 1.0;  ///< of all momenta so far
};

/// Adam with Nesterov's momentum (Dozat 2016), as torch.optim.NAdam.
class LEVIN_API NAdam final : public OptimizerOf<NAdamOptions, NAdamState> {
  using OptimizerOf::OptimizerOf;
  void step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) override;
};

struct LEVIN_API RAdamOptions {
  double lr = 1e-3;
  Betas betas = {};
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  static void declare(OptionList<RAdamOptions>& options);
};

/// Adam whose rate warms up by itself (Liu et al. 2019), as torch.optim.RAdam.
class LEVIN_API RAdam final : public OptimizerOf<RAdamOptions, MomentsState> {
  using OptimizerOf::OptimizerOf;
  void step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) override;
};

struct LEVIN_API RpropOptions {
  double lr = 1e-2;
  std::tuple<double, double> etas = {0.5, 1.2};  ///< factors of a step when the gradient's sign has changed, and when not
  std::tuple<double, double> step_sizes = {1e-6, 50.0};  ///< the smallest and the largest
  bool maximize = false;
  static void declare(OptionList<RpropOptions>& options);
};

struct LEVIN_API RpropState {
  std::int64_t step = 0;
  at::Tensor prev = {};
  at::Tensor step_size = {};
};

/// Resilient backpropagation, for whole datasets as one batch (Riedmiller and Braun 1993), as torch.optim.Rprop.
class LEVIN_API Rprop final : public OptimizerOf<RpropOptions, RpropState> {
  using OptimizerOf::OptimizerOf;
  State first_state(const at::Tensor& parameter, const Options& options) const override;
  void step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) override;
};

struct LEVIN_API SparseAdamOptions {
  double lr = 1e-3;
  Betas betas = {};
  double eps = 1e-8;
  bool maximize = false;
  static void declare(OptionList<SparseAdamOptions>& options);
};

/// Adam for sparse gradients, as of an Embedding with sparse(true), whose averages and weights change only where there is a
/// gradient; as torch.optim.SparseAdam. Dense gradients are an error.
class LEVIN_API SparseAdam final : public OptimizerOf<SparseAdamOptions, MomentsState> {
 public:
  using OptimizerOf::OptimizerOf;

 private:
  bool steps_sparse_gradients() const override { return true; }
  void step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) override;
};

}  // namespace levin
