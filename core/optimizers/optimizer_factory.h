#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/registry.h"
#include "levin/core/optimizers/lr_scheduler.h"

namespace torch::nn {
class Module;
}

namespace levin {

/// Makes an optimizer for the `optimizer:` section of YAML. Registered by PyTorch's class name: SGD, Adam, AdamW, …
class LEVIN_API OptimizerFactory {
 public:
  virtual ~OptimizerFactory();
  virtual std::shared_ptr<torch::optim::Optimizer> make(std::vector<at::Tensor> parameters) const = 0;
  /// Makes one for a module's parameters that need a gradient. Default: make() of all of them.
  virtual std::shared_ptr<torch::optim::Optimizer> make_for(const torch::nn::Module& module) const;
};

/// Makes a scheduler for the `lr_scheduler:` section of YAML. Registered by PyTorch's class name: StepLR, OneCycleLR, …
class LEVIN_API LrSchedulerFactory {
 public:
  virtual ~LrSchedulerFactory();
  /// `length`: of all of training, for omitted options.
  virtual std::shared_ptr<LrScheduler> make(torch::optim::Optimizer& optimizer, const ScheduleLength& length = {}) const = 0;
};

namespace detail {

/// Throws MisuseError when there are none.
LEVIN_API void check_has_parameters(const std::vector<at::Tensor>& parameters);

/// Makes objects of a class from its options, if it has any, and other arguments.
template <class Derived>
class Recipe {
 public:
  template <class... Arguments>
  std::shared_ptr<Derived> make(Arguments&&... arguments) const {
    return std::make_shared<Derived>(std::forward<Arguments>(arguments)...);
  }
  std::shared_ptr<Derived> make_of_length(torch::optim::Optimizer& optimizer, const ScheduleLength&) const {
    return make(optimizer);
  }
};
template <class Derived>
requires requires { typename Derived::Options; }
class Recipe<Derived> {
 public:
  using Options = typename Derived::Options;
  explicit Recipe(Options options) : options_(std::move(options)) {}
  template <class... Arguments>
  std::shared_ptr<Derived> make(Arguments&&... arguments) const {
    return std::make_shared<Derived>(std::forward<Arguments>(arguments)..., options_);
  }
  /// Makes a scheduler, with a length if its class takes one.
  std::shared_ptr<Derived> make_of_length(torch::optim::Optimizer& optimizer, const ScheduleLength& length) const {
    if constexpr (std::is_constructible_v<Derived, torch::optim::Optimizer&, const Options&, const ScheduleLength&>) {
      return std::make_shared<Derived>(optimizer, options_, length);
    } else {
      return make(optimizer);
    }
  }

 private:
  Options options_;
};

}  // namespace detail

/// The factory of an optimizer class, whose constructor takes the parameters and the class's Options, if any.
template <class Derived>
class OptimizerFactoryOf final : public OptimizerFactory, public detail::Recipe<Derived> {
 public:
  using detail::Recipe<Derived>::Recipe;
  std::shared_ptr<torch::optim::Optimizer> make(std::vector<at::Tensor> parameters) const override {
    detail::check_has_parameters(parameters);
    return detail::Recipe<Derived>::make(std::move(parameters));
  }
};

/// The factory of a scheduler class, whose constructor takes the optimizer, the class's Options, if any, and optionally a
/// ScheduleLength.
template <class Derived>
class LrSchedulerFactoryOf final : public LrSchedulerFactory, public detail::Recipe<Derived> {
 public:
  using detail::Recipe<Derived>::Recipe;
  std::shared_ptr<LrScheduler> make(torch::optim::Optimizer& optimizer, const ScheduleLength& length) const override {
    return detail::Recipe<Derived>::make_of_length(optimizer, length);
  }
};

}  // namespace levin

// As LEVIN_REGISTER_MODULE: `optimizer: Derived` and `lr_scheduler: Derived` in YAML.
#define LEVIN_REGISTER_OPTIMIZER(Derived, ...) \
  LEVIN_REGISTER_(::levin::OptimizerFactory, ::levin::OptimizerFactoryOf<Derived>, #Derived __VA_OPT__(, ) __VA_ARGS__)
#define LEVIN_REGISTER_LR_SCHEDULER(Derived, ...) \
  LEVIN_REGISTER_(::levin::LrSchedulerFactory, ::levin::LrSchedulerFactoryOf<Derived>, #Derived __VA_OPT__(, ) __VA_ARGS__)
