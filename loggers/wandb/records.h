#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/core/config/value.h"
#include "levin/core/logged_item.h"

namespace levin {
class MediaFolder;
}

namespace levin::wandb {

class Record;

/// The names of a run. Empty ones are left out.
struct RunIdentity {
  std::string id;
  std::string name = {};
  std::string project = {};
  std::string entity = {};
  std::string group = {};
  std::string job_type = {};
  std::string notes = {};
  std::vector<std::string> tags = {};
};

/// Names, and values as JSON.
using Fields = std::vector<std::pair<std::string, std::string>>;

/// The x axis of every metric: levin's step. W&B's `_step` is the number of the row.
inline constexpr std::string_view kStepName = "trainer/global_step";

/// A number in W&B's JSON, which has NaN, Infinity and -Infinity.
std::string json_of(double number);

/// The file's first record.
Record header_record();
/// `resumes`: there is an earlier part of the run, which has lasted `runtime` seconds.
Record run_record(const RunIdentity& run, double start_time, bool resumes, double runtime);
/// The machine and the program of the run: wandb-metadata.json.
Record environment_record(double start_time);
Record history_record(std::int64_t row, const Fields& fields);
Record summary_record(const Fields& fields);
/// The entries of a map, each with its whole value.
Record config_record(const Value& hyperparams);
/// Says that a metric has kStepName as its x axis.
Record metric_record(const std::string& name);
/// `path`: below the run's folder `files`.
Record file_record(const std::string& path);
Record exit_record(int exit_code, double runtime);

/// How W&B shows an item.
struct ShownItem {
  std::string json = {};  ///< its value in a row; empty: it is only a file
  std::string path = {};  ///< of its file below the run's folder `files`, as file_record() takes it; empty: none
};

/// Writes an item's file to `media`, in the folder `files`, and returns how a row shows it; a text is HTML. Throws IoError.
ShownItem show(const LoggedItem& item, MediaFolder& media, const std::filesystem::path& files);

}  // namespace levin::wandb
