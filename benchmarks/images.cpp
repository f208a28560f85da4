// Seconds of an epoch over 512 JPEG files of 500 × 375 pixels, one thread each: decoded, a random part of 224 × 224, flipped at
// random, normalized, in batches of 32.
//
//     images FOLDER WORKERS        peers/images.py makes the folder
#include <levin/levin.h>

#include <cstdio>
#include <cstdlib>

#include "sample.h"

int main(int argc, char** argv) {
  return levin::run_main([&] {
    if (argc < 3) throw levin::MisuseError("usage: images FOLDER WORKERS");
    at::set_num_threads(1);
    levin::seed_everything(1);
    levin::ImageFolderDataModule data({.path = argv[1],
                                       .val_fraction = 0,
                                       .test_fraction = 0,
                                       .preset = levin::ImagePreset::kImagenet,
                                       .batch_size = 32,
                                       .num_workers = std::atoi(argv[2])});
    data.setup(levin::Stage::kTrain);
    const levin::LoaderPtr loader = data.train_dataloader();
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {  // the first one starts workers and reads files into the system's memory
      const levin::benchmarks::Stopwatch watch;
      loader->start_epoch(epoch);
      std::int64_t images = 0;
      while (const auto batch = loader->next()) images += batch->batch_size();
      if (images != 512) throw levin::Error("the folder has another number of images");
      if (epoch > 0) levin::benchmarks::print_sample(watch.seconds());
    }
  });
}
