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

/// Which of these marks, as many on all ranks, any rank has set. Ranks: all, with the same `site`.
std::vector<bool> marked_by_any(const Strategy& strategy, const std::vector<std::byte>& marks, const ExchangeSite& site);

/// What modules gather over ranks so that gradients come back (Module::all_gather): the gradient of a rank's tensor is the sum
/// of what all ranks' losses say of it. So ranks meet in backward passes, and each pass must come to the same gathers on all
/// ranks, whatever each rank's loss uses. Before a pass ranks therefore tell one another which gathers their losses come to.
/// What some come to and others do not becomes a part of the others' passes, with a gradient of zero.
///
/// Ranks: all, for every method that is not const. No reduction of gradients is under way in such a pass: ranks could wait for
/// one another in both.
class GatheredGradients final : public std::enable_shared_from_this<GatheredGradients> {
 public:
  explicit GatheredGradients(std::shared_ptr<Strategy> strategy) : strategy_(std::move(strategy)) {}

  /// Before a training batch: the gathers of the one before are done with.
  void begin_batch();
  /// As Strategy::all_gather(), with a gradient where any rank's tensor needs one.
  at::Tensor gather(const at::Tensor& tensor, SourceLocation where);
  /// Ranks may have to meet in this batch's backward passes. The same on all ranks.
  bool any() const { return !gathers_.empty(); }
  /// The loss of a pass that comes to every gather that any rank's pass comes to; its value is that of `loss`. `loss`
  /// undefined: this rank has none; so is the result where ranks do not meet in the pass.
  at::Tensor tied(const at::Tensor& loss);

  /// The gradient of this rank's tensor in gather number `number`, where `own` is what its loss says of all ranks' tensors.
  /// Called: in backward passes. Throws MisuseError when it is to be differentiated itself, and DesyncError, on every rank,
  /// when ranks have come to different gathers.
  at::Tensor gradient(std::int64_t number, const at::Tensor& own);

 private:
  struct Gather {
    at::Tensor all;  ///< what the module got
    SourceLocation where;
  };

  /// Which gathers the pass of a loss comes to, a byte each.
  std::vector<std::byte> reached_from(const at::Tensor& loss) const;

  std::shared_ptr<Strategy> strategy_;
  std::vector<Gather> gathers_;
  std::int64_t first_ = 0;  ///< number of the first of them, counted through the run
};

}  // namespace levin
