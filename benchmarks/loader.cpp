// Seconds of one shuffled epoch over 1,000,000 small samples in memory (16 floats and a label), batches of 256, one thread,
// nothing done with the batches: through a DataLoader, or as one index_select of the whole table. The order is drawn in the
// time that is measured. One sample a run, of a second epoch.
//
//     loader index_select | loader WORKERS
#include <levin/levin.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "sample.h"

namespace {

constexpr std::int64_t kSamples = 1'000'000;
constexpr std::int64_t kBatchSize = 256;

std::int64_t read_at_once(const levin::Batch& data) {
  const auto order = torch::randperm(kSamples, torch::kLong);
  std::int64_t rows = 0;
  for (const auto& [name, tensor] : data.items()) rows = tensor.index_select(0, order).size(0);
  return rows;
}

std::int64_t read_batches(levin::DataLoader& loader, std::int64_t epoch) {
  std::int64_t rows = 0;
  loader.start_epoch(epoch);
  while (const auto batch = loader.next()) rows += batch->batch_size();
  return rows;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: loader index_select|WORKERS\n");
    return 2;
  }
  const std::string side = argv[1];
  at::set_num_threads(1);
  torch::manual_seed(0);
  const levin::Batch data{{"features", torch::rand({kSamples, 16})}, {"label", torch::randint(10, {kSamples})}};
  levin::DataLoader loader(
      std::make_shared<levin::TensorDataset>(data),
      levin::DataLoaderOptions{.batch_size = kBatchSize, .shuffle = true, .num_workers = std::atoi(side.c_str()), .seed = 0});
  const auto read = [&](std::int64_t epoch) {
    return side == "index_select" ? read_at_once(data) : read_batches(loader, epoch);
  };
  read(0);
  const levin::benchmarks::Stopwatch stopwatch;
  const std::int64_t rows = read(1);
  const double seconds = stopwatch.seconds();
  if (rows != kSamples) return 1;
  levin::benchmarks::print_sample(seconds);
}
