// Your own main() around levin's Trainer: own_trainer [DIGITS.CSV [DEVICES]]
#include "digits.h"

int main(int argc, char** argv) {
  return levin::run_main([&] {
    const levin::Devices devices = argc > 2 ? argv[2] : "1";
    levin::Trainer trainer({.max_epochs = 5, .devices = devices, .threads = 1, .log_every_n_steps = 10});
    levin::seed_everything(42);
    Digits module;
    auto data = digits(argc > 1 ? argv[1] : "examples/digits/data/digits.csv", 32 / devices.count());
    trainer.fit(module, data);
  });
}
