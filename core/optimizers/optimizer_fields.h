#pragma once

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>

#include "levin/core/optimizers/described_optimizer.h"

// What optimizers hold, field by field, under PyTorch's names. `visit(name, field)` gets a reference to each.
namespace levin {

/// The options of a parameter group by PyTorch's names: those of LibTorch's optimizers, and of each DescribedOptimizer. An
/// empty map for a class that does not tell them.
Value option_values(const torch::optim::OptimizerOptions& options);

/// Sets every option to its value. Throws ConfigError when one lacks a value, or cannot have it; others in `values` are left
/// out.
void set_option_values(torch::optim::OptimizerOptions& options, const Value& values);

/// One of them; nothing when there is none of that name.
std::optional<Value> option_value(const torch::optim::OptimizerOptions& options, std::string_view name);
/// False when there is none of that name.
bool set_option_value(torch::optim::OptimizerOptions& options, std::string_view name, const Value& value);

namespace detail {

template <class Options, class Visit>
void visit_option_fields(Options& options, const Visit& visit) {
  using Plain = std::remove_const_t<Options>;
  namespace optim = torch::optim;
  visit("lr", options.lr());
  if constexpr (!std::is_same_v<Plain, optim::LBFGSOptions>) visit("weight_decay", options.weight_decay());
  if constexpr (std::is_same_v<Plain, optim::SGDOptions>) {
    visit("momentum", options.momentum());
    visit("dampening", options.dampening());
    visit("nesterov", options.nesterov());
  } else if constexpr (std::is_same_v<Plain, optim::AdamOptions> || std::is_same_v<Plain, optim::AdamWOptions>) {
    visit("betas", options.betas());
    visit("eps", options.eps());
    visit("amsgrad", options.amsgrad());
  } else if constexpr (std::is_same_v<Plain, optim::RMSpropOptions>) {
    visit("alpha", options.alpha());
    visit("eps", options.eps());
    visit("momentum", options.momentum());
    visit("centered", options.centered());
  } else if constexpr (std::is_same_v<Plain, optim::AdagradOptions>) {
    visit("lr_decay", options.lr_decay());
    visit("initial_accumulator_value", options.initial_accumulator_value());
    visit("eps", options.eps());
  } else {
    static_assert(std::is_same_v<Plain, optim::LBFGSOptions>);
    visit("max_iter", options.max_iter());
    visit("max_eval", options.max_eval());
    visit("tolerance_grad", options.tolerance_grad());
    visit("tolerance_change", options.tolerance_change());
    visit("history_size", options.history_size());
    visit("line_search_fn", options.line_search_fn());
  }
}

/// visit_option_fields() of the options of one of LibTorch's optimizers; nothing for those of another.
template <class Options, class Visit>
void visit_torch_options(Options& options, const Visit& visit) {
  namespace optim = torch::optim;
  const auto attempt = [&]<class Concrete>(Concrete* concrete) {
    if (concrete != nullptr) visit_option_fields(*concrete, visit);
    return concrete != nullptr;
  };
  const auto any_of = [&]<class... Candidates>() {
    using std::conditional_t;
    (void)(attempt(dynamic_cast<conditional_t<std::is_const_v<Options>, const Candidates, Candidates>*>(&options)) || ...);
  };
  any_of.template operator()<optim::SGDOptions, optim::AdamOptions, optim::AdamWOptions, optim::RMSpropOptions,
                             optim::AdagradOptions, optim::LBFGSOptions>();
}

/// A tensor that is not shaped like its parameter is visited as an OwnShape.
template <class Visit>
void visit_state_fields(ParameterState& state, const Visit& visit) {
  for (const StateField& field : state.fields()) {
    const char* const name = field.name.c_str();
    std::visit(
        [&]<class Place>(const Place& place) {
          if constexpr (std::is_same_v<Place, OwnShape>) {
            visit(name, place);
          } else {
            visit(name, *place);
          }
        },
        field.place);
  }
}

template <class State, class Visit>
void visit_state_fields(State& state, const Visit& visit) {
  using Plain = std::remove_const_t<State>;
  namespace optim = torch::optim;
  if constexpr (std::is_same_v<Plain, optim::SGDParamState>) {
    visit("momentum_buffer", state.momentum_buffer());
  } else if constexpr (std::is_same_v<Plain, optim::AdamParamState> || std::is_same_v<Plain, optim::AdamWParamState>) {
    visit("step", state.step());
    visit("exp_avg", state.exp_avg());
    visit("exp_avg_sq", state.exp_avg_sq());
    visit("max_exp_avg_sq", state.max_exp_avg_sq());
  } else if constexpr (std::is_same_v<Plain, optim::RMSpropParamState>) {
    visit("step", state.step());
    visit("square_avg", state.square_avg());
    visit("momentum_buffer", state.momentum_buffer());
    visit("grad_avg", state.grad_avg());
  } else if constexpr (std::is_same_v<Plain, optim::AdagradParamState>) {
    visit("step", state.step());
    visit("sum", state.sum());
  } else {
    static_assert(std::is_same_v<Plain, optim::LBFGSParamState>);
    visit("func_evals", state.func_evals());
    visit("n_iter", state.n_iter());
    visit("t", state.t());
    visit("prev_loss", state.prev_loss());
    visit("d", state.d());
    visit("H_diag", state.H_diag());
    visit("prev_flat_grad", state.prev_flat_grad());
    visit("old_dirs", state.old_dirs());
    visit("old_stps", state.old_stps());
    visit("ro", state.ro());
    visit("al", state.al());
  }
}

/// What an optimizer keeps of a parameter, and how it is made.
template <class StateType>
struct OptimizerKind {
  using State = StateType;
  static std::unique_ptr<State> make_state(const torch::optim::Optimizer&) { return std::make_unique<State>(); }
};
struct DescribedKind {
  using State = ParameterState;
  static std::unique_ptr<State> make_state(const torch::optim::Optimizer& optimizer) {
    return static_cast<const DescribedOptimizer&>(optimizer).make_state();
  }
};

/// Calls visit(OptimizerKind<…>{}) or visit(DescribedKind{}) for the class of an optimizer; false when it is none of LibTorch's
/// and does not describe itself.
template <class Visit>
bool visit_optimizer_kind(const torch::optim::Optimizer& optimizer, const Visit& visit) {
  namespace optim = torch::optim;
  const auto attempt = [&]<class Class, class Kind>() {
    const bool matches = dynamic_cast<const Class*>(&optimizer) != nullptr;
    if (matches) visit(Kind{});
    return matches;
  };
  return attempt.template operator()<DescribedOptimizer, DescribedKind>() ||
         attempt.template operator()<optim::SGD, OptimizerKind<optim::SGDParamState>>() ||
         attempt.template operator()<optim::Adam, OptimizerKind<optim::AdamParamState>>() ||
         attempt.template operator()<optim::AdamW, OptimizerKind<optim::AdamWParamState>>() ||
         attempt.template operator()<optim::RMSprop, OptimizerKind<optim::RMSpropParamState>>() ||
         attempt.template operator()<optim::Adagrad, OptimizerKind<optim::AdagradParamState>>() ||
         attempt.template operator()<optim::LBFGS, OptimizerKind<optim::LBFGSParamState>>();
}

}  // namespace detail
}  // namespace levin
