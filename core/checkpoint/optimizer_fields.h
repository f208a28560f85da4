#pragma once

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <type_traits>

// What the optimizers of LibTorch hold, field by field, under PyTorch's names. `visit(name, field)` gets a reference to each.
namespace levin::detail {

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

/// The types that belong to one optimizer.
template <class OptionsType, class StateType>
struct OptimizerKind {
  using Options = OptionsType;
  using State = StateType;
};

/// Calls visit(OptimizerKind<…>{}) for the class of an optimizer; false when it is none of LibTorch's.
template <class Visit>
bool visit_optimizer_kind(const torch::optim::Optimizer& optimizer, const Visit& visit) {
  namespace optim = torch::optim;
  const auto attempt = [&]<class Class, class Options, class State>() {
    const bool matches = dynamic_cast<const Class*>(&optimizer) != nullptr;
    if (matches) visit(OptimizerKind<Options, State>{});
    return matches;
  };
  return attempt.template operator()<optim::SGD, optim::SGDOptions, optim::SGDParamState>() ||
         attempt.template operator()<optim::Adam, optim::AdamOptions, optim::AdamParamState>() ||
         attempt.template operator()<optim::AdamW, optim::AdamWOptions, optim::AdamWParamState>() ||
         attempt.template operator()<optim::RMSprop, optim::RMSpropOptions, optim::RMSpropParamState>() ||
         attempt.template operator()<optim::Adagrad, optim::AdagradOptions, optim::AdagradParamState>() ||
         attempt.template operator()<optim::LBFGS, optim::LBFGSOptions, optim::LBFGSParamState>();
}

}  // namespace levin::detail
