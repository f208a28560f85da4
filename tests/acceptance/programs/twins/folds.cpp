#include <levin/levin.h>

namespace nn = torch::nn;

class Strength : public levin::Module {
 public:
  struct Options {
    std::int64_t hidden = 32;
    double lr = 0.01;
  };
  explicit Strength(const Options& options) : options_(options) {}

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto loss = error(batch);
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }

  void validation_step(const levin::Batch& batch, std::int64_t) override { log("val_loss", error(batch)); }

  levin::OptimizerSetups configure_optimizers() override { return levin::Adam(parameters(), options_.lr); }

 private:
  torch::Tensor error(const levin::Batch& batch) { return torch::mse_loss(net_->forward(batch[0]).squeeze(1), batch[1]); }

  Options options_;
  nn::Sequential net_ =
      register_module("net", nn::Sequential(nn::Linear(8, options_.hidden), nn::ReLU(), nn::Linear(options_.hidden, 1)));
};

int main() {
  return levin::run_main([] {
    const auto rows = levin::read_csv("examples/table/data/train.csv").values.to(torch::kFloat);
    const auto features = rows.slice(1, 0, -1);
    const levin::DatasetPtr data = levin::TensorDataset(
        {{"features", (features - features.mean(0)) / features.std(0)}, {"strength", rows.select(1, -1) / 10}});
    std::vector<double> losses;
    for (int fold = 0; fold < 5; ++fold) {
      levin::seed_everything(fold);
      std::vector<std::int64_t> kept, held_out;
      for (const auto row : levin::random_permutation(data->size(), 1)) (row % 5 == fold ? held_out : kept).push_back(row);
      levin::Trainer trainer({.max_epochs = 15, .quiet = true});
      Strength module({});
      trainer.fit(module, levin::DataLoader(levin::Subset(data, kept), {.batch_size = 32, .shuffle = true}),
                  levin::DataLoader(levin::Subset(data, held_out), {.batch_size = 256}));
      losses.push_back(trainer.callback_metrics().at("val_loss"));
    }
    const auto all = torch::tensor(losses);
    std::printf("val_loss %.3f ± %.3f\n", all.mean().item<double>(), all.std(false).item<double>());
  });
}
