// Prints what one prediction takes, in microseconds: predict predictor | forward. The MLP 64-256-256-10, a batch of one row.
#include <levin/levin.h>

#include <cstring>

#include "sample.h"

namespace {

using levin::benchmarks::print_sample;

class Network : public levin::Module {
 public:
  Network()
      : net_(register_module("net",
                             torch::nn::Sequential(torch::nn::Linear(64, 256), torch::nn::ReLU(), torch::nn::Linear(256, 256),
                                                   torch::nn::ReLU(), torch::nn::Linear(256, 10)))) {}
  torch::Tensor forward(const torch::Tensor& rows) { return net_->forward(rows); }
  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override { return forward(batch[0]).sum(); }
  levin::Batch predict_step(const levin::Batch& batch, std::int64_t) override { return forward(batch[0]); }

 private:
  torch::nn::Sequential net_;
};

template <class Predict>
void measure(const Predict& predict) {
  constexpr int kCalls = 20'000;
  for (int round = 0; round < 7; ++round) {
    const levin::benchmarks::Stopwatch watch;
    for (int call = 0; call < kCalls; ++call) predict();
    if (round > 1) print_sample(watch.seconds() / kCalls * 1e6);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return levin::run_main([&] {
    torch::set_num_threads(1);
    torch::manual_seed(1);
    const auto network = std::make_shared<Network>();
    const torch::Tensor row = torch::randn({1, 64});
    if (argc > 1 && std::strcmp(argv[1], "forward") == 0) {
      const torch::NoGradGuard no_gradients;
      network->eval();
      measure([&] { return network->forward(row); });
    } else {
      const std::filesystem::path file = std::filesystem::temp_directory_path() / "levin_benchmark_predict.ckpt";
      levin::Checkpoint weights;
      for (const auto& weight : network->named_parameters())
        weights.tensors["state_dict." + weight.key()] = weight.value().detach();
      weights.save(file);
      const auto predictor = levin::Predictor::load(file, {.module = network});
      measure([&] { return predictor.predict(row); });
    }
  });
}
