#pragma once

#include <utility>

#include "levin/core/engine/parts/hook_runner.h"
#include "levin/core/engine/step/precision.h"

namespace levin {

/// Brings a batch to where and how the module wants it, with the three transfer hooks, and tells the metrics its size.
inline Batch transfer_batch(HookRunner& hooks, MetricStore& metrics, const at::Device& device, const Precision& precision,
                            Batch batch, std::int64_t dataloader_idx, std::int64_t num_dataloaders) {
  batch = precision.convert_input(std::move(batch));
  batch = hooks.module(Hook::kOnBeforeBatchTransfer, &Module::on_before_batch_transfer, std::move(batch), dataloader_idx);
  batch =
      hooks.module(Hook::kTransferBatchToDevice, &Module::transfer_batch_to_device, std::move(batch), device, dataloader_idx);
  batch = hooks.module(Hook::kOnAfterBatchTransfer, &Module::on_after_batch_transfer, std::move(batch), dataloader_idx);
  metrics.begin_batch({batch.batch_size(), dataloader_idx, num_dataloaders});
  return batch;
}

}  // namespace levin
