#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "levin/core/export.h"
#include "levin/optim/stepped_lr_scheduler.h"

namespace levin {

/// The initial rate times a function of the step. From C++ only: YAML cannot hold a function.
class LEVIN_API LambdaLr final : public SteppedLrScheduler {
 public:
  /// The factor at a step; steps count from 0.
  using Factor = std::function<double(std::int64_t)>;

  LambdaLr(torch::optim::Optimizer& optimizer, Factor lr_lambda);
  /// One function for each parameter group. Throws MisuseError when their number differs.
  LambdaLr(torch::optim::Optimizer& optimizer, std::vector<Factor> lr_lambdas);

 private:
  double next_lr(std::size_t group, double lr) override;
  double first_lr(std::size_t group) const override;
  bool takes_new_groups() const override { return false; }
  void save_state(Value& state) const override;

  std::vector<Factor> lr_lambdas_;
};

}  // namespace levin
