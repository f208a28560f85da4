#include "levin/columns/parquet_data_module.h"

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/core/files/column_file.h"

namespace levin {

LEVIN_REGISTER_DATA_MODULE(ParquetDataModule,
                           "Parquet, Feather or Arrow files, divided into training, validation and test data");

namespace {

/// A folder is asked for its files when it is read.
void check_is_columns(const char* option, const Paths& paths) {
  for (const std::filesystem::path& path : paths) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored) || column_format_of(path) != nullptr) continue;
    throw ConfigError(format("ParquetDataModule: {}: {} ends in none of {}: TableDataModule reads other tables", option, path,
                             join(column_file_endings())));
  }
}

TableDataOptions of_columns(TableDataOptions options) {
  check_is_columns("path", options.path);
  check_is_columns("val_path", options.val_path);
  check_is_columns("test_path", options.test_path);
  if (options.predict_path) check_is_columns("predict_path", *options.predict_path);
  return options;
}

}  // namespace

ParquetDataModule::ParquetDataModule(TableDataOptions options)
    : TableDataModule("ParquetDataModule", of_columns(std::move(options))) {}

}  // namespace levin
