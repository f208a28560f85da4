#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "levin/core/logger.h"
#include "support/csv_table.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

namespace levin::test {

inline MetricRow row_of(std::int64_t step, MetricMap values, std::int64_t epoch = 0) {
  MetricRow row;
  row.epoch = epoch;
  row.step = step;
  row.values = std::move(values);
  return row;
}

inline RunInfo run_in(const std::filesystem::path& root, int rank = 0) {
  return {.rank = rank, .world_size = rank + 1, .default_root_dir = root};
}

/// A run that resumes from a checkpoint in this folder, after `step` steps.
inline RunInfo resumed_in(const std::filesystem::path& root, std::int64_t step, const std::filesystem::path& run_folder) {
  RunInfo run = run_in(root);
  run.resuming = true;
  run.resume_step = step;
  run.resume_checkpoint = run_folder / "checkpoints/last.ckpt";
  return run;
}

/// What rank 0 of a run does with its logger at the start.
inline void start(Logger& logger, const RunInfo& run) { logger.attach(run, logger.open(run)); }

/// True for a CSV text as every reader wants it: it ends with a whole line, and each line has as many cells as the first. The
/// cells are RFC 4180's; the line end is "\n" alone.
inline bool is_rectangular(const std::string& text) {
  std::size_t cells = 1;
  std::size_t expected = 0;
  bool quoted = false;
  for (const char character : text) {
    if (character == '"') quoted = !quoted;
    if (quoted) continue;
    if (character == '\r' || character == '\0') return false;
    if (character == ',') ++cells;
    if (character != '\n') continue;
    if (expected == 0) expected = cells;
    if (cells != expected) return false;
    cells = 1;
  }
  return !quoted && text.ends_with('\n');
}

}  // namespace levin::test
