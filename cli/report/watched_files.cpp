#include "levin/cli/report/watched_files.h"

#include <system_error>

#include "levin/core/files/atomic_file.h"

namespace levin::cli {

namespace fs = std::filesystem;

FileStates watched_files(const std::vector<RunFolder>& runs, const fs::path& report) {
  FileStates states;
  for (const RunFolder& run : runs) {
    std::error_code error;
    for (fs::recursive_directory_iterator entry(run.path, error), end; !error && entry != end; entry.increment(error)) {
      std::error_code gone;
      const fs::path& file = entry->path();
      const bool is_temporary = host_of_temporary(file.filename()).has_value();
      if (is_temporary || file.extension() == ".html" || !entry->is_regular_file(gone)) continue;
      if (fs::equivalent(file, report, gone)) continue;
      const fs::file_time_type time = entry->last_write_time(gone);
      const std::uintmax_t size = gone ? 0 : entry->file_size(gone);
      if (!gone) states[file] = {time, size};
    }
  }
  return states;
}

}  // namespace levin::cli
