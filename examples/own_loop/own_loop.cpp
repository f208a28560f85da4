// Your own loop, which levin follows step by step: own_loop [DIGITS.CSV [DEVICES]]
#include "digits.h"

int main(int argc, char** argv) {
  return levin::run_main([&] {
    const levin::Devices devices = argc > 2 ? argv[2] : "1";
    levin::seed_everything(42);
    Digits module;
    levin::Session session({.devices = devices,
                            .threads = 1,
                            .logger = levin::CsvLogger({.save_dir = "logs", .name = "own_loop"}),
                            .log_every_n_steps = 10},
                           module);
    session.begin();
    auto data = digits(argc > 1 ? argv[1] : "examples/digits/data/digits.csv", 32 / devices.count());
    data.setup(levin::Stage::kTrain);
    const auto training = data.train_dataloader();
    training->set_shard(session.shard());
    for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
      training->start_epoch(epoch);
      while (auto batch = training->next()) session.step(*std::move(batch));
      session.validate(data.val_dataloaders());
      session.end_epoch();
    }
    session.save(session.trainer().log_dir() / "checkpoints/last.ckpt");
    session.end();
  });
}
