#pragma once

#include <memory>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace levin::detail {

/// The learning rates that an optimizer's groups had before its first scheduler touched them: PyTorch's `initial_lr`. All
/// schedulers of one optimizer share them, so that chained and sequential schedules start from the same base. They live as long
/// as one of the schedulers does. Threading: any thread.
using InitialLrs = std::shared_ptr<std::vector<double>>;

/// The initial rates of this optimizer: those remembered, or else its present ones.
InitialLrs initial_lrs(const torch::optim::Optimizer& optimizer);

}  // namespace levin::detail
