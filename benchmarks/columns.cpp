// Seconds from a Parquet file to the end of a shuffled epoch: 200,000 rows of 16 numbers, two columns of texts and a label,
// read, standardized, categories made numbers, and given in batches of 256. One thread.
//
//     columns FOLDER        peers/columns.py makes the folder
#include <levin/levin.h>

#include <cstdio>
#include <filesystem>

#include "sample.h"

int main(int argc, char** argv) {
  return levin::run_main([&] {
    if (argc < 2) throw levin::MisuseError("usage: columns FOLDER");
    at::set_num_threads(1);
    levin::seed_everything(1);
    const std::filesystem::path file = std::filesystem::path(argv[1]) / "rows.parquet";
    for (int time = 0; time < 2; ++time) {  // the first one reads the file into the system's memory, and loads Arrow
      const levin::benchmarks::Stopwatch watch;
      levin::ParquetDataModule data({.path = file,
                                     .label_column = "label",
                                     .code_columns = {"city", "kind"},
                                     .standardize = true,
                                     .val_fraction = 0,
                                     .test_fraction = 0,
                                     .batch_size = 256});
      data.setup(levin::Stage::kTrain);
      const levin::LoaderPtr loader = data.train_dataloader();
      loader->start_epoch(0);
      std::int64_t rows = 0;
      while (const auto batch = loader->next()) rows += batch->batch_size();
      if (rows != 200'000) throw levin::Error("the file has another number of rows");
      if (time > 0) levin::benchmarks::print_sample(watch.seconds());
    }
  });
}
