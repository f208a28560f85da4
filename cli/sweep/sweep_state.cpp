#include "levin/cli/sweep/sweep_state.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/secrets.h"
#include "levin/core/base/text.h"
#include "levin/core/config/value_json.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/file_bytes.h"
#include "levin/core/files/paths.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

/// How many of so many trials continue.
std::size_t third_of(std::size_t trials) { return (trials + 2) / 3; }

Value to_value(const Trial& trial) {
  Value values(Value::Map{}), scores(Value::List{});
  for (const auto& [key, text] : trial.values) values[key] = text;
  for (const std::optional<double>& score : trial.scores) scores.push_back(score ? Value(*score) : Value());
  return Value::Map{{"number", static_cast<std::int64_t>(trial.number)},
                    {"values", std::move(values)},
                    {"status", trial.status},
                    {"scores", std::move(scores)},
                    {"seconds", trial.seconds},
                    {"failure", trial.failure}};
}

Trial trial_of(const Value& value) {
  Trial trial{.number = static_cast<std::size_t>(value.at("number").as_int()),
              .values = {},
              .status = value.at("status").as_string(),
              .scores = {},
              .seconds = value.at("seconds").as_double(),
              .failure = value.at("failure").as_string()};
  for (const auto& [key, text] : value.at("values").as_map()) trial.values.emplace_back(key, text.as_string());
  for (const Value& score : value.at("scores").as_list())
    trial.scores.push_back(score.is_null() ? std::nullopt : std::optional(score.as_double()));
  return trial;
}

SweepState state_of(const fs::path& folder, const Value& value) {
  SweepState state;
  state.folder = folder;
  for (const Value& argument : value.at("arguments").as_list()) state.arguments.push_back(argument.as_string());
  state.monitor = value.at("monitor").as_string();
  state.maximize = value.at("maximize").as_bool();
  state.rungs.clear();
  for (const Value& epochs : value.at("rungs").as_list()) state.rungs.push_back(epochs.as_int());
  if (const Value* const sampler = value.find("sampler")) state.sampler = *sampler;
  if (const Value* const options = value.find("begun_with")) state.begun_with = *options;
  for (const Value& trial : value.at("trials").as_list()) state.trials.push_back(trial_of(trial));
  return state;
}

}  // namespace

std::string Trial::name() const { return format("trial_{:03}", number); }

std::vector<std::size_t> SweepState::ranking() const {
  std::vector<std::size_t> indices(trials.size());
  for (std::size_t index = 0; index < indices.size(); ++index) indices[index] = index;
  std::stable_sort(indices.begin(), indices.end(), [this](std::size_t one, std::size_t other) {
    const std::optional<double> left = trials[one].score(), right = trials[other].score();
    return left && (!right || is_better(*left, *right));
  });
  return indices;
}

std::vector<std::size_t> SweepState::participants(std::size_t rung) const {
  std::vector<std::size_t> chosen = ranking();
  if (rung > 0) {
    // By the score of each after the rung before, not by later ones.
    const std::vector<std::size_t> before = participants(rung - 1);
    const auto score = [&](std::size_t index) { return trials[index].scores[rung - 1]; };
    chosen.clear();
    for (const std::size_t index : before) {
      if (trials[index].scores.size() >= rung && score(index)) chosen.push_back(index);
    }
    std::stable_sort(chosen.begin(), chosen.end(),
                     [&](std::size_t one, std::size_t other) { return is_better(*score(one), *score(other)); });
    chosen.resize(std::min(chosen.size(), third_of(before.size())));
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

void SweepState::write() const {
  const std::vector<std::string> shown = without_secrets(arguments);
  Value value(Value::Map{{"arguments", Value::List(shown.begin(), shown.end())},
                         {"monitor", monitor},
                         {"maximize", maximize},
                         {"rungs", Value::List(rungs.begin(), rungs.end())},
                         {"sampler", sampler},
                         {"begun_with", begun_with},
                         {"trials", Value::List{}}});
  for (const Trial& trial : trials) value["trials"].push_back(to_value(trial));
  write_file(folder / "sweep.json", plain_json(value));
}

SweepState SweepState::read(const fs::path& folder) {
  const fs::path file = folder / "sweep.json";
  const std::optional<std::string> text = file_bytes(file);
  if (!text)
    throw IoError(format("{} is not the folder of a sweep: it has no sweep.json{}", quoted_text(folder.native()),
                         working_folder_of(folder)));
  try {
    return state_of(folder, parse_json(*text));
  } catch (const Error& error) {
    throw IoError(format("{} is damaged: {}", file, error.what()));
  }
}

std::vector<std::int64_t> halving_rungs(std::size_t trials, std::int64_t epochs) {
  std::vector<std::int64_t> rungs = {epochs};
  for (; trials > 1 && rungs.front() > 1; trials = third_of(trials))
    rungs.insert(rungs.begin(), std::max<std::int64_t>(1, rungs.front() / 3));
  return rungs;
}

}  // namespace levin::cli
