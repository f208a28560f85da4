#include <filesystem>
#include <iostream>

#include "module.h"

// What a short training gives. A test that fails prints why, and ends with another status than 0.
int main() {
  levin::seed_everything(1);
  @CLASS @module({});
  levin::TableDataModule data({.path = std::filesystem::path(__FILE__).parent_path() / "pendulum.csv",
                               .task = levin::TableTask::kRegression,
                               .standardize = true});
  levin::Trainer trainer(
      {.max_epochs = 60, .threads = 1, .logger = false, .enable_checkpointing = false, .enable_progress_bar = false});
  trainer.fit(module, data);
  const double error = trainer.test(module, data).at(0).at("test_error");
  if (error > 0.05) std::cerr << "test_error is " << error << " s, expected at most 0.05 s\n";
  return error > 0.05 ? 1 : 0;
}
