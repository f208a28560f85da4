#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/StringUtil.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/options.h"

namespace levin {

/// Options that belong together, such as Adam's betas: a list of fixed length in YAML.
template <class... Members>
struct OptionType<std::tuple<Members...>> {
  using Tuple = std::tuple<Members...>;
  static Tuple read(const Value& value) {
    if (!value.is_list() || value.size() != sizeof...(Members)) detail::throw_wrong_type(value, name());
    return [&]<std::size_t... I>(std::index_sequence<I...>) { return Tuple{OptionType<Members>::read(value.as_list()[I])...}; }
    (std::index_sequence_for<Members...>());
  }
  static Value write(const Tuple& tuple) {
    return std::apply([](const Members&... members) { return Value(Value::List{OptionType<Members>::write(members)...}); },
                      tuple);
  }
  static std::string name() { return c10::str("list of ", sizeof...(Members)); }
  static Value schema() {
    constexpr auto kLength = static_cast<std::int64_t>(sizeof...(Members));
    return Value::Map{{"type", "array"}, {"minItems", kLength}, {"maxItems", kLength}};
  }
};

/// A tensor of an optimizer's state whose shape differs from its parameter's.
struct OwnShape {
  at::Tensor* tensor;
};

/// A part of the state of one parameter: its name in checkpoints and PyTorch, and its address. Tensors of a list have their own
/// shapes.
struct StateField {
  std::string name;
  std::variant<at::Tensor*, OwnShape, std::int64_t*, double*, std::deque<at::Tensor>*> place;
};
using StateFields = std::vector<StateField>;

/// The state of one parameter, with named parts.
class LEVIN_API ParameterState : public torch::optim::OptimizerParamState {
 public:
  ~ParameterState() override;
  virtual StateFields fields() = 0;
};

/// The named options of a parameter group.
class LEVIN_API GroupOptions : public torch::optim::OptimizerOptions {
 public:
  ~GroupOptions() override;
  virtual Value values() const = 0;
  /// Throws ConfigError for a name or a value that the options do not have.
  virtual void set_values(const Value& values) = 0;
};

/// The options of a parameter group: a struct with `lr` and a declare(), as in OptionList.
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

namespace detail {
/// The result of a state's fields(), or else its members under their names.
template <class State>
StateFields fields_of(State& state) {
  if constexpr (requires { state.fields(); }) {
    return state.fields();
  } else {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return StateFields{{std::string(MemberOf<State, I>::name()), &MemberOf<State, I>::get(state)}...};
    }
    (std::make_index_sequence<count_members<State>()>());
  }
}
}  // namespace detail

/// An optimizer with named options and state. Checkpoints store them, also for PyTorch and Lightning; `ddp_sharded` divides the
/// state, and schedulers and LearningRateMonitor use its momentum, betas and weight decay. Derive from OptimizerOf.
class LEVIN_API DescribedOptimizer : public torch::optim::Optimizer {
 public:
  using Optimizer::Optimizer;

  /// Steps every parameter that has a gradient. Throws MisuseError for a complex gradient, and for a sparse one, or with
  /// steps_sparse_gradients() for a dense one.
  at::Tensor step(LossClosure closure = nullptr) override;
  /// Throw MisuseError: LibTorch's archives cannot store it. Levin's checkpoints do.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

  /// A state to load a checkpoint's into.
  virtual std::unique_ptr<ParameterState> make_state() const = 0;
  /// True when each parameter's step depends only on its own gradient and state. Override it where that is not so.
  virtual bool steps_parameters_alone() const { return true; }

 protected:
  static void fill_with_zeros(const StateFields& fields, const at::Tensor& parameter);
  /// True when gradients are sparse instead of dense.
  virtual bool steps_sparse_gradients() const { return false; }

 private:
  virtual void step_in_group(at::Tensor& parameter, const torch::optim::OptimizerOptions& options) = 0;
};

class StepRunner;

/// An optimizer whose step a device can record (`cuda_graph: auto`), such as those with fused kernels.
class LEVIN_API RecordableOptimizer {
 public:
  virtual ~RecordableOptimizer() = default;
  /// Makes `runner` run the device work of a step; null: the optimizer itself, the default. False when the optimizer's options
  /// exclude it.
  virtual bool run_steps_by(StepRunner* runner) = 0;
};

/// The base of an optimizer that defines the step of one parameter; docs/extend/write-an-optimizer.md has a complete one. Its
/// options are a struct (see OptionList), with an `lr`; `maximize` negates gradients. Its state is a struct with the values of
/// each parameter: tensors of its shape, and numbers. Give the state a `StateFields fields()` to save other members, under
/// other names, or with an OwnShape.
template <class OptionsType, class StateType>
class OptimizerOf : public DescribedOptimizer {
 public:
  using Options = OptionsType;
  using State = StateType;

  /// Throws ConfigError for invalid options.
  explicit OptimizerOf(std::vector<at::Tensor> parameters, Options options = {})
      : OptimizerOf(std::vector<torch::optim::OptimizerParamGroup>{std::move(parameters)}, std::move(options)) {}
  /// The options of a group: std::make_unique<levin::GroupOptionsOf<Options>>(options).
  explicit OptimizerOf(const std::vector<torch::optim::OptimizerParamGroup>& groups, Options options = {})
      : DescribedOptimizer(groups, std::make_unique<GroupOptionsOf<Options>>(checked("The optimizer", std::move(options)))) {}

  std::unique_ptr<ParameterState> make_state() const override { return std::make_unique<StateOf>(State{}); }

 protected:
  /// The state of a parameter before its first step. Default: zeros for each tensor of the parameter's shape, and the struct's
  /// defaults for all else.
  virtual State first_state(const at::Tensor& parameter, const Options&) const {
    State state;
    fill_with_zeros(detail::fields_of(state), parameter);
    return state;
  }
  /// The state of a parameter; null before its first step.
  const State* state_of(const at::Tensor& parameter) const {
    const auto found = this->state().find(parameter.unsafeGetTensorImpl());
    return found == this->state().end() ? nullptr : &static_cast<const StateOf&>(*found->second).state;
  }
  /// Called: without recording of gradients. It must not change `gradient`.
  virtual void step_parameter(at::Tensor& parameter, const at::Tensor& gradient, const Options& options, State& state) = 0;

 private:
  struct StateOf final : ParameterState {
    StateOf(State given) : state(std::move(given)) {}
    std::unique_ptr<torch::optim::OptimizerParamState> clone() const override { return std::make_unique<StateOf>(*this); }
    StateFields fields() override { return detail::fields_of(state); }
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

/// A parameter or buffer of a module, and its replacement in evaluations.
struct LEVIN_API WeightPair {
  at::Tensor trained;
  at::Tensor evaluated;  ///< of the same shape and type, on any device
};

/// A second base of an optimizer or callback that evaluates with other weights than it trains, such as averages. fit() copies
/// them into the module for each validation and after training; after an error the trained ones stay. In checkpoints of every
/// hook, `state_dict` has the weights to evaluate, and `current_model_state` the trained ones, from which a fit resumes.
class LEVIN_API EvaluatedWeights {
 public:
  virtual ~EvaluatedWeights();
  /// Each tensor once; none while the trained weights are to be evaluated. Ranks: any; the same tensors on all.
  virtual std::vector<WeightPair> evaluated_weights() const = 0;
  /// Called: after training, and on resuming a finished run, before the weights to evaluate are copied into the module for
  /// good. Ranks: all.
  virtual void on_training_done(Trainer&, Module&) {}
};

}  // namespace levin
