// The smallest LibTorch program that takes one training step of the digits' network, and reports when it has ended.
#include <torch/torch.h>

#include "sample.h"

int main() {
  namespace nn = torch::nn;
  at::set_num_threads(1);
  nn::Sequential net(nn::Conv2d(nn::Conv2dOptions(1, 32, 3).padding(1)), nn::ReLU(),
                     nn::Conv2d(nn::Conv2dOptions(32, 64, 3).padding(1)), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(),
                     nn::Dropout(0.25), nn::Linear(64 * 4 * 4, 10));
  torch::optim::Adam optimizer(net->parameters(), 2e-3);
  const auto loss = nn::functional::cross_entropy(net->forward(torch::rand({32, 1, 8, 8})), torch::randint(10, {32}));
  loss.backward();
  optimizer.step();
  levin::benchmarks::print_first_step();
}
