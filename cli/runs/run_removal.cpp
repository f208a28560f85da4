#include "levin/cli/runs/run_removal.h"

#include <algorithm>
#include <set>
#include <string>
#include <system_error>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/written_files.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* doing, const fs::path& path, const std::error_code& error) {
  throw IoError(format("cannot {} {}: {}", doing, path, error.message()));
}

}  // namespace

RunContents contents_of_run(const fs::path& run) {
  const auto written = written_files(run);
  if (!written)
    throw IoError(
        format("{} has no list of the files that its run wrote ({}), so levin cannot distinguish these from others in "
               "it: remove the folder yourself",
               quoted_text(run.native()), list_of_written_files("")));
  const std::set<fs::path> listed(written->begin(), written->end());
  RunContents contents;
  std::error_code error;
  fs::recursive_directory_iterator entry(run, error);
  for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
    // A link to a folder is not a folder here: what it leads to is not below this one.
    if (fs::is_directory(entry->symlink_status())) continue;
    const fs::path file = entry->path().lexically_relative(run);
    const bool is_own =
        listed.contains(file) || file == list_of_written_files("") || host_of_temporary(file.filename().string()).has_value();
    (is_own ? contents.own : contents.others).push_back(file);
  }
  if (error) fail("look through", run, error);
  std::ranges::sort(contents.own);
  std::ranges::sort(contents.others);
  return contents;
}

void remove_run_files(const fs::path& run, const RunContents& contents) {
  std::set<fs::path> folders = {run};
  const auto written = written_files(run);
  for (const fs::path& file : written.value_or(contents.own)) {
    for (fs::path folder = file.parent_path(); !folder.empty(); folder = folder.parent_path()) folders.insert(run / folder);
  }
  std::error_code error;
  for (const fs::path& file : contents.own) {
    // Last, so that what fails can be tried again.
    if (file == list_of_written_files("")) continue;
    fs::remove(run / file, error);
    if (error) fail("delete", run / file, error);
  }
  fs::remove(list_of_written_files(run), error);
  if (error) fail("delete", list_of_written_files(run), error);
  // The contents of a folder are removed before it: their paths are longer.
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    if (fs::is_directory(fs::symlink_status(*folder, error)) && fs::is_empty(*folder, error)) fs::remove(*folder, error);
  }
}

}  // namespace levin::cli
