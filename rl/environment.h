#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "levin/core/base/fwd.h"
#include "levin/core/session.h"

namespace levin {

/// The outcome of Environment::step().
struct LEVIN_API Transition {
  at::Tensor observation = {};  ///< after the action
  double reward = 0;            ///< for the action
  bool terminated = false;      ///< the episode has ended in a state that has no future: the goal, a fall
  bool truncated = false;       ///< the episode is cut off in a state that has one, by a limit of steps
};

/// A task that an agent learns by acting in it, as gymnasium.Env. Observations have the same shape and type in all steps and
/// episodes, and are on the CPU; a tensor that was returned does not change later.
///
/// Random numbers are the environment's own, of the seed that its factory gets: LibTorch's default generator is the whole
/// program's. Gradients are off. Threading: one thread at a time, not always the same one.
class LEVIN_API Environment {
 public:
  virtual ~Environment();
  /// Begins an episode, and returns its first observation.
  virtual at::Tensor reset() = 0;
  /// Takes an action. Called: after reset(), until the episode has ended.
  virtual Transition step(const at::Tensor& action) = 0;
  /// All that decides what the next calls give, random numbers included, for exact resume. Names of tensors have no dot.
  /// Default: throws MisuseError.
  virtual KeptState state() const;
  /// Puts back what state() gave. Default: throws MisuseError.
  virtual void set_state(const KeptState& state);
};

/// Makes an environment whose random numbers are those of `seed`.
using EnvironmentFactory = std::function<std::unique_ptr<Environment>(std::uint64_t seed)>;

}  // namespace levin
