// Several ranks against one process with all their samples, step by step: ddp_equivalence [RANKS]
#include <levin/levin.h>

#include <cstdio>

namespace nn = torch::nn;

constexpr std::int64_t kGlobalBatch = 8;
constexpr double kTolerance = 1e-6;

/// 64 samples: eight numbers, and one to be learnt.
levin::Batch samples() {
  const auto x = torch::sin(torch::arange(64 * 8, torch::kFloat).view({64, 8}) * 0.7);
  return {{"x", x}, {"y", torch::tanh(x.sum(1, /*keepdim=*/true))}};
}

torch::optim::SGD make_optimizer(const std::vector<torch::Tensor>& parameters) {
  return torch::optim::SGD(parameters, torch::optim::SGDOptions(0.05).momentum(0.9));
}

/// The largest difference of an element.
double difference(const std::vector<torch::Tensor>& some, const std::vector<torch::Tensor>& others) {
  double largest = 0;
  for (std::size_t index = 0; index < some.size(); ++index) {
    largest = std::max(largest, (some[index] - others[index]).abs().max().item<double>());
  }
  return largest;
}

std::vector<torch::Tensor> gradients(const nn::Sequential& network) {
  std::vector<torch::Tensor> all;
  for (const auto& parameter : network->parameters()) all.push_back(parameter.grad());
  return all;
}

/// Trains a network as any module does; with each step LibTorch alone takes the same one with the whole batch.
class Equivalence : public levin::Module {
 public:
  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    return nn::functional::mse_loss(network_->forward(batch["x"]), batch["y"]);
  }

  levin::OptimizerSetups configure_optimizers() override {
    alone_ = nn::Sequential(std::dynamic_pointer_cast<nn::SequentialImpl>(network_->clone()));
    alone_optimizer_ = std::make_shared<torch::optim::SGD>(make_optimizer(alone_->parameters()));
    return make_optimizer(parameters());
  }

  void on_train_start() override {
    levin::rank_zero_info("step  loss, ranks  loss, alone  gradients differ by  weights differ by");
  }

  void on_before_optimizer_step(torch::optim::Optimizer&) override {
    const auto all = samples();
    const std::int64_t first = global_step() * kGlobalBatch % 64;
    alone_optimizer_->zero_grad();
    const auto output = alone_->forward(all["x"].narrow(0, first, kGlobalBatch));
    alone_loss_ = nn::functional::mse_loss(output, all["y"].narrow(0, first, kGlobalBatch));
    alone_loss_.backward();
    alone_optimizer_->step();
    gradients_ = difference(gradients(network_), gradients(alone_));
  }

  void on_train_batch_end(const levin::StepOutput& output, const levin::Batch&, std::int64_t) override {
    const double loss = all_gather(output.loss).mean().item<double>();
    const double alone = alone_loss_.item<double>();
    const double weights = difference(network_->parameters(), alone_->parameters());
    char row[128];
    std::snprintf(row, sizeof row, "%4d  %.9f  %.9f  %19.1e  %17.1e", static_cast<int>(global_step()), loss, alone, gradients_,
                  weights);
    levin::rank_zero_info(row);
    largest_ = std::max({largest_, std::abs(loss - alone), gradients_, weights});
  }

  void on_train_end() override {
    if (largest_ > kTolerance) throw std::runtime_error("ranks do not train as one process does");
    levin::rank_zero_info("equal within ", kTolerance);
  }

 private:
  nn::Sequential network_ = register_module("network", nn::Sequential(nn::Linear(8, 16), nn::Tanh(), nn::Linear(16, 1)));
  nn::Sequential alone_{nullptr};  // not registered: no part of what the Trainer trains
  std::shared_ptr<torch::optim::SGD> alone_optimizer_;
  torch::Tensor alone_loss_;
  double gradients_ = 0;
  double largest_ = 0;
};

int main(int argc, char** argv) {
  levin::start_ranks_here();
  return levin::run_main([&] {
    const levin::Devices ranks = argc > 1 ? argv[1] : "4";
    levin::Trainer trainer({.max_epochs = 2,
                            .accelerator = "cpu",
                            .devices = ranks,
                            .logger = false,
                            .enable_checkpointing = false,
                            .enable_progress_bar = false,
                            .enable_model_summary = false});
    levin::seed_everything(42);
    Equivalence module;
    trainer.fit(module, levin::DataLoader(levin::TensorDataset(samples()), {.batch_size = kGlobalBatch / ranks.count()}));
  });
}
