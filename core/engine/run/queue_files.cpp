#include "levin/core/engine/run/queue_files.h"

#include <charconv>
#include <map>
#include <system_error>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/console/console.h"

namespace levin {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBegin = "hpc_ckpt_";
constexpr std::string_view kEnd = ".ckpt";

/// By number.
std::map<int, fs::path> queue_files(const fs::path& folder) {
  std::map<int, fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) continue;
    const char* const last = name.data() + name.size() - kEnd.size();
    int number = 0;
    const auto [stop, problem] = std::from_chars(name.data() + kBegin.size(), last, number);
    if (problem == std::errc() && stop == last && number > 0) files[number] = entry->path();
  }
  return files;
}

/// The notes, when the file is of that job.
std::string notes_in(const fs::path& file, const std::string& job) {
  const Checkpoint checkpoint = Checkpoint::load(file);
  const Value* queued = checkpoint.manifest.find("queued_job");
  if (queued == nullptr || queued->at("number").as_string() != job) return "";
  return queued->at("notes").as_string();
}

}  // namespace

fs::path next_queue_file(const fs::path& folder) {
  const auto files = queue_files(folder);
  const int number = files.empty() ? 1 : files.rbegin()->first + 1;
  return folder / format("{}{}{}", kBegin, number, kEnd);
}

std::string notes_from_queue(const fs::path& folder, const std::string& job) {
  const auto files = queue_files(folder);
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    try {
      if (std::string notes = notes_in(file->second, job); !notes.empty()) return notes;
    } catch (const IoError& error) {
      rank_zero_warn(format("Skipping a damaged checkpoint of job {}: {}", job, error.what()));
    }
  }
  return "";
}

void remove_queue_files(const fs::path& folder, const std::string& job) {
  for (const auto& [number, file] : queue_files(folder)) {
    std::error_code ignored;
    try {
      if (!notes_in(file, job).empty()) fs::remove(file, ignored);
    } catch (const IoError&) {
      // A damaged one may be of another job.
    }
  }
}

}  // namespace levin
