#pragma once

#include <cstdint>
#include <filesystem>

namespace levin::tensorboard {

/// The events of a run up to the checkpoint from which it resumes.
struct EarlierEvents {
  std::int64_t end_step = 0;  ///< items of this step and later ones will be logged again
  std::int64_t rows = -1;     ///< the number of rows of metrics; -1: those before end_step
};

/// Writes to `folder` those events of the event files in `earlier`, which may be the same folder; another one is unchanged. A
/// file of which all events count is a hard link if the disk has them. Returns the number of rows that count. Throws IoError.
std::int64_t continue_events(const std::filesystem::path& earlier, const std::filesystem::path& folder,
                             const EarlierEvents& counts);

}  // namespace levin::tensorboard
