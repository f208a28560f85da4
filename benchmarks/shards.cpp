// Seconds of an epoch over 20,000 samples of 256 numbers in ten tar files: shuffled by files and in a window of 1000, made
// tensors, in batches of 32.
//
//     shards FOLDER WORKERS        peers/shards.py makes the folder
#include <levin/levin.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sample.h"

int main(int argc, char** argv) {
  return levin::run_main([&] {
    if (argc < 3) throw levin::MisuseError("usage: shards FOLDER WORKERS");
    at::set_num_threads(1);
    levin::seed_everything(1);
    const auto decode = [](const levin::ShardSample& sample) -> levin::Batch {
      const std::string& bytes = sample["bin"];
      at::Tensor features = torch::empty({256});
      if (bytes.size() != features.nbytes()) throw levin::Error("a sample has another number of bytes");
      std::memcpy(features.mutable_data_ptr(), bytes.data(), bytes.size());
      return {{"features", features}, {"label", torch::tensor(sample.number("cls"))}};
    };
    const auto samples = levin::from_files(std::string(argv[1]) + "/*.tar").shuffle().flat_map(levin::samples_of);
    levin::Stream loader = levin::stream(samples.shuffle(1000).map(decode).batch(32), {.num_workers = std::atoi(argv[2])});
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {  // the first one reads files into the system's memory
      const levin::benchmarks::Stopwatch watch;
      loader.start_epoch(epoch);
      std::int64_t count = 0;
      while (const auto batch = loader.next()) count += batch->batch_size();
      if (count != 20'000) throw levin::Error("the folder has another number of samples");
      if (epoch > 0) levin::benchmarks::print_sample(watch.seconds());
    }
  });
}
