#pragma once

#include <cstdint>
#include <filesystem>

namespace levin::tensorboard {

/// What counts of the events that a run has written before the checkpoint from which it goes on.
struct EarlierEvents {
  std::int64_t end_step = 0;  ///< images and the like of this step and later ones will be logged anew
  std::int64_t rows = -1;     ///< so many rows of metrics count, the first; -1: those before end_step
};

/// Has `folder` hold what counts of the event files in `earlier`, and nothing else of them: `earlier` may be the same folder,
/// or another, which stays as it is. A file all of which counts is linked where the disk allows. Gives the number of rows that
/// count. Throws IoError.
std::int64_t continue_events(const std::filesystem::path& earlier, const std::filesystem::path& folder,
                             const EarlierEvents& counts);

}  // namespace levin::tensorboard
