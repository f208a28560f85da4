#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace levin::cli {

/// What is in the folder of a run, by its origin. Paths are below the folder; folders are not among them.
struct RunContents {
  std::vector<std::filesystem::path> own;     ///< by the run's own list (written_files.h), that list included
  std::vector<std::filesystem::path> others;  ///< all else, in order: a link to a folder is one thing
};

/// Lists a run's folder. Throws IoError where it has no list of what was written, as those of an earlier levin.
RunContents contents_of_run(const std::filesystem::path& run);

/// Removes what is the run's own, and folders that are empty then; the run's, too. Throws IoError for what cannot be removed.
void remove_run_files(const std::filesystem::path& run, const RunContents& contents);

}  // namespace levin::cli
