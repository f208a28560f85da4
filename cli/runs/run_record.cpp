#include "levin/cli/runs/run_record.h"

#include <utility>

namespace levin::cli {

RunRecord read_run_record(const std::filesystem::path& folder, RunDetail detail) {
  RunFolder run = read_run_folder(folder, detail);
  return {.path = run.path,
          .name = run.name,
          .status = run.is_stale ? run.status + "?" : run.status,
          .started = run.started,
          .seconds = run.seconds,
          .failure = run.failure,
          .tags = std::move(run.tags),
          .config = std::move(run.config),
          .summary = run.summary ? std::move(*run.summary) : summarize_metrics(run.path)};
}

std::vector<RunRecord> find_run_records(const std::vector<std::filesystem::path>& folders, RunDetail detail) {
  const std::vector<std::filesystem::path> paths = find_run_paths(folders);
  const std::vector<std::string> names = run_names(paths);
  std::vector<RunRecord> records;
  for (std::size_t run = 0; run < paths.size(); ++run) {
    records.push_back(read_run_record(paths[run], detail));
    records.back().name = names[run];
  }
  return records;
}

}  // namespace levin::cli
