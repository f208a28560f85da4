#include "levin/data/builtins.h"

#include "levin/core/options/registry.h"
#include "levin/data/dataset_data_module.h"
#include "levin/data/sampler.h"
#include "levin/data/table_data_module.h"

namespace levin {

void register_builtin_data() {
  Registry<DataModule>::instance().add<TableDataModule>(
      "TableDataModule", "CSV, NumPy or MNIST files, divided into training, validation and test data");
  Registry<DataModule>::instance().add<DatasetDataModule>("DatasetDataModule", "Datasets of your own");
  Registry<Sampler>::instance().add<SequentialSampler>("SequentialSampler", "Each sample once, in the dataset's order");
  Registry<Sampler>::instance().add<RandomSampler>("RandomSampler", "Each sample once, in a new order in each epoch");
}

}  // namespace levin
