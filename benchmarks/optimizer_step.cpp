// Time of an optimizer's step alone, on the parameters of the digits' MLP (64-256-256-10): LibTorch's class against levin's of
// the same name. The two alternate within one run, so that a busy machine slows both; the median of the ratios counts.
#include <levin/levin.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>

namespace {

using torch::optim::Optimizer;
using Parameters = std::vector<at::Tensor>;
using Make = std::function<std::shared_ptr<Optimizer>(Parameters)>;

constexpr int kSteps = 200;  // of one measurement

Parameters network() {
  Parameters parameters;
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{256, 64}, {256}, {256, 256}, {256}, {10, 256}, {10}}) {
    parameters.push_back((torch::randn(sizes) * 0.1).requires_grad_());
    parameters.back().mutable_grad() = torch::randn(sizes) * 0.01;
  }
  return parameters;
}

double microseconds_per_step(Optimizer& optimizer) {
  const auto started = std::chrono::steady_clock::now();
  for (int step = 0; step < kSteps; ++step) optimizer.step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count() / kSteps * 1e6;
}

double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

template <class Class, class Options>
Make make(const Options& options) {
  return [options](Parameters parameters) { return std::make_shared<Class>(std::move(parameters), options); };
}

void compare(const char* name, const Make& plain, const Make& own, int rounds) {
  const auto theirs = plain(network());
  const auto ours = own(network());
  microseconds_per_step(*theirs);  // what is done once
  microseconds_per_step(*ours);
  std::vector<double> their_times, our_times, ratios;
  for (int round = 0; round < rounds; ++round) {
    their_times.push_back(microseconds_per_step(*theirs));
    our_times.push_back(microseconds_per_step(*ours));
    ratios.push_back(our_times.back() / their_times.back());
  }
  std::printf("%-18s %10.1f %10.1f %8.2f  (%.2f to %.2f)\n", name, quantile(their_times, 0.5), quantile(our_times, 0.5),
              quantile(ratios, 0.5), quantile(ratios, 0.1), quantile(ratios, 0.9));
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 31;
  const int threads = argc > 2 ? std::atoi(argv[2]) : 1;
  if (rounds < 1 || threads < 1) {
    std::cerr << "usage: optimizer_step [rounds] [threads]\n";
    return 2;
  }
  at::set_num_threads(threads);
  torch::manual_seed(0);
  std::printf("microseconds a step of 6 tensors, 85,002 numbers; %d threads, %d rounds of %d steps\n", threads, rounds, kSteps);
  std::printf("%-18s %10s %10s %8s  (10th to 90th percentile)\n", "", "LibTorch", "levin", "ratio");
  namespace optim = torch::optim;
  compare("SGD", make<optim::SGD>(optim::SGDOptions(1e-3)), make<levin::SGD>(optim::SGDOptions(1e-3)), rounds);
  const auto momentum = optim::SGDOptions(1e-3).momentum(0.9).nesterov(true);
  compare("SGD, momentum", make<optim::SGD>(momentum), make<levin::SGD>(momentum), rounds);
  compare("Adam", make<optim::Adam>(optim::AdamOptions()), make<levin::Adam>(optim::AdamOptions()), rounds);
  compare("AdamW", make<optim::AdamW>(optim::AdamWOptions()), make<levin::AdamW>(optim::AdamWOptions()), rounds);
  const auto amsgrad = optim::AdamWOptions().amsgrad(true);
  compare("AdamW, amsgrad", make<optim::AdamW>(amsgrad), make<levin::AdamW>(amsgrad), rounds);
  compare("Adagrad", make<optim::Adagrad>(optim::AdagradOptions()), make<levin::Adagrad>(optim::AdagradOptions()), rounds);
  return 0;
}
