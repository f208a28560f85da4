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
  const double accuracy = trainer.test(module, data).at(0).at("test_acc");
  if (accuracy < 0.9) std::cerr << "test_acc is " << accuracy << ", expected at least 0.9\n";
  return accuracy < 0.9 ? 1 : 0;
}
