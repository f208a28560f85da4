#pragma once

#include "levin/data/table_data_module.h"

namespace levin {

/// Data from Parquet, Feather and Arrow files, with the options of TableDataModule, which reads them too: this one takes
/// nothing else. Columns of numbers, truth values, dates and times are features, a column of lists of one length as many, and
/// columns of texts are categories. Arrow's libraries are loaded with the first file, and must be installed: `pip install
/// pyarrow`.
///
///     levin::ParquetDataModule data({.path = "houses/*.parquet", .label_column = "price", .task =
///     levin::TableTask::kRegression});
class LEVIN_API ParquetDataModule : public TableDataModule {
 public:
  /// Throws ConfigError as checked() does, and where a file is of another kind.
  explicit ParquetDataModule(TableDataOptions options);
};

}  // namespace levin
