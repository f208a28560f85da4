#include <iostream>

#include "module.h"

// What a short training gives. A test that fails prints why, and ends with another status than 0.
int main() {
  levin::seed_everything(1);
  @CLASS @module({});
  @CLASS @Data data({});
  levin::Trainer trainer(
      {.max_epochs = 30, .threads = 1, .logger = false, .enable_checkpointing = false, .enable_progress_bar = false});
  trainer.fit(module, data);
  double off = 0;
  const auto batches = trainer.predict(module, data).at(0);
  for (const levin::Batch& batch : batches) off += (batch["point"].norm(2, 1) - 1).abs().mean().item<double>();
  off /= static_cast<double>(batches.size());
  if (off > 0.2) std::cerr << "points are " << off << " off the ring, expected at most 0.2\n";
  return off > 0.2 ? 1 : 0;
}
