#include <filesystem>
#include <iostream>

#include "module.h"

// What a short training gives. A test that fails prints why, and ends with another status than 0.
int main() {
  levin::seed_everything(1);
  @CLASS @module({});
  @CLASS @Data data({.path = std::filesystem::path(__FILE__).parent_path() / "text.txt"});
  levin::Trainer trainer(
      {.max_steps = 100, .threads = 1, .logger = false, .enable_checkpointing = false, .enable_progress_bar = false});
  trainer.fit(module, data);
  const double loss = trainer.validate(module, data).at(0).at("val_loss");
  // Of 256 symbols a guess costs 5.5.
  if (loss > 2.6) std::cerr << "val_loss is " << loss << ", expected at most 2.6\n";
  return loss > 2.6 ? 1 : 0;
}
