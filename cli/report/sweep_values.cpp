#include "levin/cli/report/sweep_values.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "levin/cli/sweep/sweep_state.h"
#include "levin/core/base/error.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSweepFile = "sweep.json";

/// The folder of the sweep that a run is a trial of, above the run's own.
std::optional<fs::path> sweep_above(const fs::path& run) {
  constexpr int kHighest = 4;
  fs::path folder = run;
  for (int level = 0; level < kHighest && folder.has_relative_path(); ++level) {
    folder = folder.parent_path();
    std::error_code ignored;
    if (fs::exists((folder.empty() ? fs::path(".") : folder) / kSweepFile, ignored)) return folder.empty() ? "." : folder;
  }
  return std::nullopt;
}

/// The trial's last run among these.
Value run_of(const fs::path& trial, const std::vector<RunFolder>& runs) {
  Value found;
  const fs::path folder = trial.lexically_normal();
  for (std::size_t index = 0; index < runs.size(); ++index) {
    const auto [end, _] = std::mismatch(folder.begin(), folder.end(), runs[index].path.begin(), runs[index].path.end());
    if (end == folder.end()) found = static_cast<std::int64_t>(index);
  }
  return found;
}

Value value_of(const SweepState& sweep, const std::vector<RunFolder>& runs) {
  std::vector<std::string> keys;
  for (const Trial& trial : sweep.trials) {
    for (const auto& [key, _] : trial.values) {
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
  }
  Value::List trials;
  for (const std::size_t index : sweep.ranking()) {
    const Trial& trial = sweep.trials[index];
    Value::List values(keys.size());
    for (const auto& [key, text] : trial.values)
      values[static_cast<std::size_t>(std::ranges::find(keys, key) - keys.begin())] = text;
    trials.push_back(Value::Map{{"name", trial.name()},
                                {"run", run_of(sweep.folder_of(trial), runs)},
                                {"status", trial.status},
                                {"values", std::move(values)},
                                {"score", trial.score() ? Value(*trial.score()) : Value()},
                                {"seconds", trial.seconds}});
  }
  return Value::Map{{"folder", sweep.folder.string()},
                    {"monitor", sweep.monitor},
                    {"mode", sweep.maximize ? "max" : "min"},
                    {"keys", Value::List(keys.begin(), keys.end())},
                    {"trials", std::move(trials)}};
}

}  // namespace

Value sweep_values(const std::vector<RunFolder>& runs) {
  std::vector<fs::path> folders;
  for (const RunFolder& run : runs) {
    const auto folder = sweep_above(run.path);
    if (folder && std::ranges::find(folders, *folder) == folders.end()) folders.push_back(*folder);
  }
  Value::List sweeps;
  for (const fs::path& folder : folders) {
    try {
      sweeps.push_back(value_of(SweepState::read(folder), runs));
    } catch (const Error&) {
      // Its trials are runs like others.
    }
  }
  return sweeps;
}

}  // namespace levin::cli
