#include "levin/data/builtins.h"

#include "levin/core/options/registry.h"
#include "levin/data/table_data_module.h"

namespace levin {

void register_builtin_data() {
  Registry<DataModule>::instance().add<TableDataModule>(
      "TableDataModule", "CSV, NumPy or MNIST files, divided into training, validation and test data");
}

}  // namespace levin
