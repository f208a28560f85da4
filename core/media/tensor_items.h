#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

#include "levin/core/figure.h"
#include "levin/core/media/item_queue.h"
#include "levin/core/protocol/metrics.h"

namespace levin {

/// A call of log_image() or a similar function.
struct ItemCall {
  std::string_view function;
  std::string_view name;
  CallSite where;

  /// Throws MisuseError.
  [[noreturn]] void misuse(const std::string& why) const;
};

// Make the queue's items from tensors. Each checks its argument, and throws MisuseError if it cannot be shown. Tensors are
// copied on their device; the queue's thread waits for the device, encodes and draws.

/// `image`: [H, W], [C, H, W] or [N, C, H, W], where C is 1, 3 or 4, of floats from 0 to 1 or bytes.
WaitingItem image_item(const at::Tensor& image, const ItemCall& call);
WaitingItem histogram_item(const at::Tensor& values, const ItemCall& call);
WaitingItem figure_item(Figure figure, const ItemCall& call);
WaitingItem text_item(std::string text);
WaitingItem table_item(Table table, const ItemCall& call);

}  // namespace levin
