#include <levin/levin.h>

namespace nn = torch::nn;

class Scans : public levin::Module {
 public:
  struct Options {
    std::string train, test;
    std::int64_t hidden = 64;
    double lr = 1e-3;
  };
  explicit Scans(const Options& options)
      : options_(options),
        net_(nn::Flatten(), nn::Linear(3 * 32 * 32, options.hidden), nn::ReLU(), nn::Linear(options.hidden, 3)) {
    register_module("net", net_);
  }

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto loss = torch::cross_entropy_loss(net_->forward(batch["image"]), batch["label"]);
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }

  void test_step(const levin::Batch& batch, std::int64_t) override {
    log("test_acc", net_->forward(batch["image"]).argmax(1).eq(batch["label"]).to(torch::kFloat).mean());
  }

  levin::OptimizerSetups configure_optimizers() override { return levin::Adam(parameters(), options_.lr); }

  levin::LoaderPtr train_dataloader() override {
    const auto samples = levin::from_files(options_.train).shuffle().flat_map(levin::samples_of, {.at_once = 2}).shuffle(60);
    return levin::stream(samples.map(decode).batch(12), {.num_workers = 2});
  }
  levin::LoaderList test_dataloaders() override {
    return levin::stream(levin::from_shards(options_.test).map(decode).batch(12));
  }

 private:
  static levin::Batch decode(const levin::ShardSample& sample) {
    const auto image = levin::images::resize(levin::ImageFile(sample["png"], sample.key).read(), {32, 32});
    return {{"image", levin::images::to_float(image)}, {"label", torch::tensor(sample.number("cls"))}};
  }

  Options options_;
  nn::Sequential net_;
};

int main(int, char** words) {
  levin::seed_everything(1);
  Scans module({.train = words[1], .test = words[2]});
  levin::Trainer trainer({.max_epochs = 40, .logger = false, .enable_checkpointing = false, .quiet = true});
  trainer.fit(module);
  std::printf("test_acc %.4f\n", trainer.test(module)[0].at("test_acc"));
}
