// Your own loop around levin's pieces: own_loop [DIGITS.CSV]
#include "digits.h"

int main(int argc, char** argv) {
  return levin::run_main([&] {
    torch::set_num_threads(1);
    levin::seed_everything(42);
    auto net = network();
    levin::Adam optimizer(net->parameters(), 0.002);
    auto data = digits(argc > 1 ? argv[1] : "examples/digits/data/digits.csv", 32);
    data.setup(levin::Stage::kTrain);
    const auto training = data.train_dataloader();
    const auto validation = data.val_dataloaders().at(0);
    levin::CsvLogger logger({.save_dir = "logs", .name = "own_loop"});
    logger.attach({}, logger.open({}));

    std::int64_t step = 0;
    for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
      training->start_epoch(epoch);
      while (const auto batch = training->next()) {
        const auto loss = nn::functional::cross_entropy(net->forward((*batch)["features"]), (*batch)["label"]);
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        if (++step % 10 == 0) {
          logger.log_metrics({.epoch = epoch, .step = step - 1, .values = {{"train_loss", loss.item<double>()}}});
        }
      }

      const torch::NoGradGuard no_gradients;
      double hits = 0, samples = 0;
      validation->start_epoch(epoch);
      while (const auto batch = validation->next()) {
        const auto count = static_cast<double>(batch->batch_size());
        hits += count * levin::accuracy(net->forward((*batch)["features"]), (*batch)["label"]).item<double>();
        samples += count;
      }
      logger.log_metrics({.epoch = epoch, .step = step - 1, .values = {{"val_acc", hits / samples}}});
    }
    logger.finalize("success");

    levin::Checkpoint checkpoint;
    for (const auto& weight : net->named_parameters()) checkpoint.tensors["state_dict.net." + weight.key()] = weight.value();
    checkpoint.save(logger.log_dir() / "checkpoints/last.ckpt");
  });
}
