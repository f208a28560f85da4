#pragma once

#include <filesystem>
#include <vector>

#include "levin/callbacks/prediction_writer.h"

namespace levin::detail {

/// Writes tensors with one row for each sample, under their names, to `stem` with what the format adds to the name. Each file
/// is whole at every moment. Gives the files. Throws IoError.
std::vector<std::filesystem::path> write_predictions(const std::filesystem::path& stem, PredictionFormat format,
                                                     const std::vector<Batch::Item>& columns);

}  // namespace levin::detail
