#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "levin/core/base/error.h"

namespace levin {

class ExchangeSite;
class Strategy;

/// Which of these marks any rank has set; all ranks have equally many. Ranks: all, with the same `site`.
std::vector<bool> marked_by_any(const Strategy& strategy, const std::vector<std::byte>& marks, const ExchangeSite& site);

/// Differentiable gathers of modules (Module::all_gather): the gradient of a rank's tensor is the sum of its gradients on all
/// ranks. So ranks meet in backward passes, and each pass must reach the same gathers on all ranks, whatever each rank's loss
/// uses. Before a pass ranks therefore exchange which gathers their losses reach. A gather that only some reach becomes part
/// of the others' passes, with a gradient of zero.
///
/// Ranks: all, for every method that is not const. Gradients are not reduced during such a pass: ranks could wait for one
/// another in both.
class GatheredGradients final : public std::enable_shared_from_this<GatheredGradients> {
 public:
  explicit GatheredGradients(std::shared_ptr<Strategy> strategy) : strategy_(std::move(strategy)) {}

  /// Called: before a training batch. Drops the gathers of the one before.
  void begin_batch();
  /// As Strategy::all_gather(), with a gradient where any rank's tensor needs one.
  at::Tensor gather(const at::Tensor& tensor, SourceLocation where);
  /// True when ranks may have to meet in this batch's backward passes. The same on all ranks.
  bool any() const { return !gathers_.empty(); }
  /// A loss with the value of `loss` whose pass reaches every gather that any rank's pass reaches. `loss` undefined: this rank
  /// has none; the result is then undefined if ranks do not meet in the pass.
  at::Tensor tied(const at::Tensor& loss);

  /// The gradient of this rank's tensor in gather number `number`; `own`: its loss's gradient for the tensors of all ranks.
  /// Called: in backward passes. Throws MisuseError when the gradient itself must be differentiated, and DesyncError, on every
  /// rank, when ranks have reached different gathers.
  at::Tensor gradient(std::int64_t number, const at::Tensor& own);

 private:
  struct Gather {
    at::Tensor all;  ///< the result that the module received
    SourceLocation where;
  };

  /// Which gathers the pass of a loss reaches, a byte each.
  std::vector<std::byte> reached_from(const at::Tensor& loss) const;

  std::shared_ptr<Strategy> strategy_;
  std::vector<Gather> gathers_;
  std::int64_t first_ = 0;  ///< number of the first of them within the run
};

}  // namespace levin
