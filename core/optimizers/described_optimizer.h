#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/options/options.h"

namespace levin {

/// A tensor of an optimizer's state that has not the shape of its parameter.
struct OwnShape {
  at::Tensor* tensor;
};

/// A part of the state of one parameter: its name, as checkpoints and PyTorch have it, and where it is.
struct StateField {
  std::string name;
  std::variant<at::Tensor*, OwnShape, std::int64_t*, double*> place;
};
using StateFields = std::vector<StateField>;

/// State of one parameter, whose parts have names.
class LEVIN_API ParameterState : public torch::optim::OptimizerParamState {
 public:
  ~ParameterState() override;
  virtual StateFields fields() = 0;
};

/// Options of a parameter group, which have names.
class LEVIN_API GroupOptions : public torch::optim::OptimizerOptions {
 public:
  ~GroupOptions() override;
  virtual Value values() const = 0;
  /// Throws ConfigError for a name or a value that the options do not have.
  virtual void set_values(const Value& values) = 0;
};

/// Options as a parameter group has them: a struct with `lr` and a declare(), as OptionList says.
template <class Options>
class GroupOptionsOf final : public GroupOptions {
 public:
  GroupOptionsOf(Options given) : options(std::move(given)) {}
  std::unique_ptr<torch::optim::OptimizerOptions> clone() const override { return std::make_unique<GroupOptionsOf>(*this); }
  double get_lr() const override { return options.lr; }
  void set_lr(double lr) override { options.lr = lr; }
  Value values() const override { return write_options(options); }
  void set_values(const Value& values) override { options = read_options<Options>(values); }

  Options options;
};

/// An optimizer whose options and state have names. Checkpoints hold them, also for PyTorch and Lightning; `ddp_sharded`
/// divides it, schedulers and LearningRateMonitor know its momentum, betas and weight decay. Derive from OptimizerOf.
class LEVIN_API DescribedOptimizer : public torch::optim::Optimizer {
 public:
  using Optimizer::Optimizer;
  DescribedOptimizer(DescribedOptimizer&& other) noexcept;
  ~DescribedOptimizer() override;

  /// Steps every parameter that has a gradient. Throws MisuseError for a gradient that is sparse or complex.
  at::Tensor step(LossClosure closure = nullptr) override;
  /// LibTorch's archives do not hold it: these throw MisuseError. Checkpoints of levin's do.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

  /// The state of a parameter before a checkpoint's is put into it.
  virtual std::unique_ptr<ParameterState> make_state() const = 0;
  /// Whether each parameter is stepped by its own gradient and state, whatever those of others are. Override it, with false,
  /// where that is not so.
  virtual bool steps_parameters_alone() const { return true; }

 protected:
  static void fill_with_zeros(const StateFields& fields, const at::Tensor& parameter);

 private:
  virtual void step_in_group(at::Tensor& parameter, const torch::optim::OptimizerOptions& options) = 0;
};

/// The base of an optimizer that says what it does to one parameter, with options (an OptionList's, one of them `lr`; one
/// called `maximize` turns gradients round) and state (a struct with `StateFields fields()`):
///
///     struct HeavyBallOptions {
///       double lr = 0.01;
///       double momentum = 0.9;
///       static void declare(levin::OptionList<HeavyBallOptions>& options) { … }
///     };
///     struct HeavyBallState {
///       at::Tensor momentum_buffer;
///       levin::StateFields fields() { return {{"momentum_buffer", &momentum_buffer}}; }
///     };
///     class HeavyBall final : public levin::OptimizerOf<HeavyBallOptions, HeavyBallState> {
///       using OptimizerOf::OptimizerOf;
///       void step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) override
///       {
///         state.momentum_buffer.mul_(options.momentum).add_(gradient);
///         parameter.sub_(state.momentum_buffer, options.lr);
///       }
///     };
template <class OptionsType, class StateType>
class OptimizerOf : public DescribedOptimizer {
 public:
  using Options = OptionsType;
  using State = StateType;

  /// Throws ConfigError for options that YAML could not have either.
  explicit OptimizerOf(std::vector<at::Tensor> parameters, Options options = {})
      : OptimizerOf(std::vector<torch::optim::OptimizerParamGroup>{std::move(parameters)}, std::move(options)) {}
  /// A group's own options: std::make_unique<levin::GroupOptionsOf<Options>>(options).
  explicit OptimizerOf(const std::vector<torch::optim::OptimizerParamGroup>& groups, Options options = {})
      : DescribedOptimizer(groups, std::make_unique<GroupOptionsOf<Options>>(checked("The optimizer", std::move(options)))) {}

  std::unique_ptr<ParameterState> make_state() const override { return std::make_unique<StateOf>(State{}); }

 protected:
  /// The state with which a parameter is stepped for the first time. Default: zeros in the parameter's shape for each tensor
  /// that has it, and what the struct says for all else.
  virtual State first_state(const at::Tensor& parameter, const Options&) const {
    State state;
    fill_with_zeros(state.fields(), parameter);
    return state;
  }
  /// Called: without gradients being recorded. `gradient` is not to be changed.
  virtual void step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) = 0;

 private:
  struct StateOf final : ParameterState {
    StateOf(State given) : state(std::move(given)) {}
    std::unique_ptr<torch::optim::OptimizerParamState> clone() const override { return std::make_unique<StateOf>(*this); }
    StateFields fields() override { return state.fields(); }
    State state;
  };

  void step_in_group(at::Tensor& parameter, const torch::optim::OptimizerOptions& group_options) override {
    const Options& options = static_cast<const GroupOptionsOf<Options>&>(group_options).options;
    auto& state = this->state()[parameter.unsafeGetTensorImpl()];
    if (state == nullptr) state = std::make_unique<StateOf>(first_state(parameter, options));
    at::Tensor gradient = parameter.grad();
    if constexpr (requires { options.maximize; }) {
      if (options.maximize) gradient = gradient.neg();
    }
    step_parameter(parameter, gradient, options, static_cast<StateOf&>(*state).state);
  }
};

}  // namespace levin
