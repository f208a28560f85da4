#include "levin/cli/runs/run_record.h"

#include <optional>

#include "levin/cli/runs/run_folder.h"
#include "levin/cli/runs/run_index.h"

namespace levin::cli {

RunRecord read_run_record(const std::filesystem::path& folder) {
  RunFolder run = read_run_folder(folder);
  return {.path = run.path,
          .name = run.name,
          .status = run.status,
          .started = run.started,
          .seconds = run.seconds,
          .failure = run.failure,
          .tags = std::move(run.tags),
          .config = std::move(run.config),
          .summary = summarize_metrics(run.path)};
}

std::vector<RunRecord> find_run_records(const std::vector<std::filesystem::path>& folders) {
  const std::vector<std::filesystem::path> paths = find_run_paths(folders);
  const std::vector<std::string> names = run_names(paths);
  std::vector<std::unique_ptr<RunIndex>> indices;
  for (const std::filesystem::path& folder : folders) indices.push_back(std::make_unique<RunIndex>(folder));
  std::vector<RunRecord> records;
  for (std::size_t run = 0; run < paths.size(); ++run) {
    std::optional<RunRecord> known;
    for (auto index = indices.begin(); !known && index != indices.end(); ++index) known = (*index)->find(paths[run]);
    if (!known) {
      known = read_run_record(paths[run]);
      for (const auto& index : indices) index->put(*known);
    }
    known->name = names[run];
    records.push_back(std::move(*known));
  }
  for (const auto& index : indices) index->forget_missing();
  return records;
}

}  // namespace levin::cli
