#include <levin/levin.h>

namespace nn = torch::nn;

/// Whether a trip was late, by its row in a Parquet file and its signal in an HDF5 file.
class Trips : public levin::Module {
 public:
  struct Options {
    std::string train, test, signals;
    std::int64_t hidden = 32;
    double lr = 0.005;
  };
  explicit Trips(const Options& options)
      : options_(options),
        speeds_(levin::ArrayDataset({options.signals}, {.arrays = {{"speed", "/speed"}}})),
        net_(nn::Linear(2 + 32, options.hidden), nn::ReLU(), nn::Linear(options.hidden, 2)) {
    register_module("net", net_);
  }

  torch::Tensor forward(const levin::Batch& batch) {
    return net_->forward(torch::cat({batch["trip"], batch["speed"].to(torch::kFloat) / 30}, 1));
  }

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto loss = torch::cross_entropy_loss(forward(batch), batch["late"]);
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }

  void test_step(const levin::Batch& batch, std::int64_t) override {
    log("test_acc", forward(batch).argmax(1).eq(batch["late"]).to(torch::kFloat).mean());
  }

  levin::OptimizerSetups configure_optimizers() override { return levin::Adam(parameters(), options_.lr); }

  levin::LoaderPtr train_dataloader() override {
    const auto groups = levin::from_row_groups(options_.train).shuffle();
    return levin::stream(samples(groups.flat_map(levin::rows_of, {.at_once = 2}).shuffle(100)).batch(20), {.num_workers = 2});
  }
  levin::LoaderList test_dataloaders() override { return levin::stream(samples(levin::from_rows(options_.test)).batch(20)); }

 private:
  levin::Pipeline<levin::Batch> samples(const levin::Pipeline<levin::ColumnRow>& rows) const {
    return rows.map([speeds = speeds_](const levin::ColumnRow& row) -> levin::Batch {
      const auto trip = static_cast<std::int64_t>(row.number("trip"));
      const double is_rome = row.text("city") == "Rome" ? 1 : 0;
      return {{"trip", torch::tensor({row.number("distance") / 20, is_rome}, torch::kFloat)},
              {"speed", speeds->get_batch({&trip, 1})["speed"][0]},
              {"late", torch::tensor(static_cast<std::int64_t>(row.number("late")))}};
    });
  }

  Options options_;
  levin::DatasetPtr speeds_;
  nn::Sequential net_;
};

int main(int, char** words) {
  levin::seed_everything(1);
  Trips module({.train = words[1], .test = words[2], .signals = words[3]});
  levin::Trainer trainer({.max_epochs = 40, .logger = false, .enable_checkpointing = false, .quiet = true});
  trainer.fit(module);
  std::printf("test_acc %.4f\n", trainer.test(module)[0].at("test_acc"));
}
