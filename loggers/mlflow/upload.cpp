#include "levin/loggers/mlflow/upload.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/value_json.h"
#include "levin/core/console/console.h"
#include "levin/core/files/file_bytes.h"
#include "levin/loggers/mlflow/texts.h"

namespace levin::mlflow {
namespace {

namespace fs = std::filesystem;

/// Limits of one request.
constexpr std::size_t kMostMetrics = 1000;
constexpr std::size_t kMostParameters = 100;

/// The tag by which a run is found again if the answer to its creation was lost.
constexpr const char* kKeyTag = "levin.run";

/// A number as Google's JSON has it.
Value number_of(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

Value::List pairs_of(const Value& map) {
  Value::List pairs;
  for (const auto& [key, value] : map.as_map()) pairs.push_back(Value::Map{{"key", key}, {"value", value}});
  return pairs;
}

/// The server's JSON has whole numbers as ints or floats, and large ones as texts.
bool is_same_number(const Value& one, const Value& other) {
  if (one.is_number() && other.is_number()) return one.as_double() == other.as_double();
  const auto text = [](const Value& value) { return value.is_string() ? value.as_string() : to_json(value); };
  return text(one) == text(other);
}

void copy_if_there(const Value& from, const char* name, Value& to, const char* as) {
  if (const Value* const value = from.find(name)) to[as] = *value;
}

}  // namespace

bool Upload::send_next() {
  if (waiting_.empty()) {
    for (Journal::Entry& entry : journal_.entries(read_to_)) waiting_.push_back(std::move(entry));
    if (waiting_.empty()) return false;
    read_to_ = waiting_.back().end;
  }
  run_id();
  std::size_t count = send_metrics();
  if (count == 0) {
    send_entry(waiting_.front().value);
    count = 1;
  }
  journal_.save_state(waiting_[count - 1].end);
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
  return true;
}

Value::List Upload::later() const {
  const Value* const files = journal_.state().find("later");
  return files == nullptr ? Value::List() : files->as_list();
}

void Upload::send_later() {
  const Value::List files = later();
  if (files.empty()) return;
  run_id();
  Value& refused = journal_.state()["later"];
  refused = Value::List();
  try {
    for (const Value& file : files) send_file(file);
  } catch (...) {
    refused = files;
    throw;
  }
  journal_.save_state(journal_.sent());
}

std::string Upload::rest() const {
  std::vector<std::string> parts;
  if (const std::size_t entries = journal_.unsent(); entries > 0)
    parts.push_back(entries == 1 ? "1 entry" : format("{} entries", entries));
  if (const std::size_t files = later().size(); files > 0) parts.push_back(counted(files, "file"));
  return join(parts, " and ");
}

const std::string& Upload::run_id() {
  if (!journal_.state().contains("run")) {
    take_run(find_run());
    if (rank() == 0)
      rank_zero_info(format("MLflow: {}/#/experiments/{}/runs/{}", server_.uri(),
                            journal_.state().at("run").at("experiment_id").as_string(), run_id()));
  }
  return journal_.state().at("run").at("run_id").as_string();
}

void Upload::take_run(const Value& run) {
  const Value& info = run.at("info");
  Value& stored = journal_.state()["run"];
  for (const char* const name : {"run_id", "experiment_id", "artifact_uri"}) stored[name] = info.at(name).as_string();
  journal_.state()["status"] = info.at("status").as_string();
  journal_.save_state(journal_.sent());
}

Value Upload::find_run() {
  const Value& header = journal_.header();
  if (const Value* const id = header.find("run_id")) {
    if (rank() == 0) server_.post("runs/update", Value::Map{{"run_id", *id}, {"status", "RUNNING"}});
    return server_.get("runs/get", "run_id=" + url_encoded(id->as_string())).at("run");
  }
  const Value experiment = find_experiment();
  const std::string& key = header.at("key").as_string();
  const Value found = server_.post("runs/search", Value::Map{{"experiment_ids", Value::List{experiment}},
                                                             {"filter", format("tags.`{}` = '{}'", kKeyTag, key)},
                                                             {"max_results", 1}});
  if (const Value* const runs = found.find("runs"); runs != nullptr && runs->size() > 0) return runs->as_list().front();
  if (rank() != 0) throw IoError("rank 0 has not created the run yet");
  Value tags = header.at("tags");
  tags[kKeyTag] = key;
  Value run = Value::Map{{"experiment_id", experiment}, {"start_time", header.at("start")}, {"tags", pairs_of(tags)}};
  copy_if_there(header, "run_name", run, "run_name");
  return server_.post("runs/create", run).at("run");
}

Value Upload::find_experiment() {
  const Value& name = journal_.header().at("experiment");
  const auto look_up = [&]() -> std::optional<Value> {
    try {
      return server_.get("experiments/get-by-name", "experiment_name=" + url_encoded(name.as_string()))
          .at("experiment")
          .at("experiment_id");
    } catch (const Refused& refused) {
      if (refused.code() != "RESOURCE_DOES_NOT_EXIST") throw;
      return std::nullopt;
    }
  };
  if (const auto id = look_up()) return *id;
  Value experiment = Value::Map{{"name", name}};
  copy_if_there(journal_.header(), "artifact_location", experiment, "artifact_location");
  try {
    return server_.post("experiments/create", experiment).at("experiment_id");
  } catch (const Refused&) {
    // Another run may have created it since.
    if (const auto id = look_up()) return *id;
    throw;
  }
}

std::size_t Upload::send_metrics() {
  Value::List metrics;
  std::size_t count = 0;
  for (; count < waiting_.size() && metrics.size() < kMostMetrics; ++count) {
    const Value& entry = waiting_[count].value;
    const Value* const values = entry.find("metrics");
    if (values == nullptr) break;
    for (const auto& [name, value] : values->as_map()) {
      metrics.push_back(Value::Map{
          {"key", name}, {"value", number_of(value.as_double())}, {"timestamp", entry.at("time")}, {"step", entry.at("step")}});
    }
  }
  if (count == 0) return 0;
  const std::int64_t end = waiting_[count - 1].end;
  if (waiting_.front().end <= doubtful_to_) remove_known(metrics);
  // Before the first byte is sent, so that the next process knows.
  if (!metrics.empty() && journal_.sending() < end) journal_.save_sending(end);
  doubtful_to_ = std::max(doubtful_to_, end);
  send_parts("metrics", metrics, kMostMetrics);
  return count;
}

void Upload::remove_known(Value::List& points) {
  std::map<std::string, Value::List> there;
  std::erase_if(points, [&](const Value& point) {
    const std::string& name = point.at("key").as_string();
    if (!there.contains(name)) there[name] = history(name);
    const auto is_same = [&](const Value& other) {
      return std::ranges::all_of(std::array{"step", "timestamp", "value"}, [&](const char* part) {
        const Value* const value = other.find(part);
        return value != nullptr && is_same_number(*value, point.at(part));
      });
    };
    return std::ranges::any_of(there[name], is_same);
  });
}

Value::List Upload::history(const std::string& name) {
  constexpr int kMostPages = 1000;
  constexpr const char* kPageSize = "25000";
  Value::List points;
  std::string page;
  for (int pages = 0; pages < kMostPages; ++pages) {
    const std::string page_query = page.empty() ? "" : "&page_token=" + url_encoded(page);
    Value answer;
    try {
      answer = server_.get("metrics/get-history", format("run_id={}&metric_key={}&max_results={}{}", url_encoded(run_id()),
                                                         url_encoded(name), kPageSize, page_query));
    } catch (const Refused&) {  // it does not know the name
      return points;
    }
    if (const Value* const more = answer.find("metrics"); more != nullptr && more->is_list())
      points.insert(points.end(), more->as_list().begin(), more->as_list().end());
    const Value* const next = answer.find("next_page_token");
    if (next == nullptr || !next->is_string() || next->as_string().empty() || next->as_string() == page) break;
    page = next->as_string();
  }
  return points;
}

void Upload::send_entry(const Value& entry) {
  for (const char* const kind : {"params", "tags"}) {
    if (const Value* const parts = entry.find(kind)) send_parts(kind, pairs_of(*parts), kMostParameters);
  }
  if (entry.contains("status")) send_status(entry);
  if (entry.contains("artifact")) send_file(entry);
}

void Upload::send_parts(const std::string& kind, const Value::List& parts, std::size_t most) {
  for (std::size_t begin = 0; begin < parts.size(); begin += most) {
    const auto from = parts.begin() + static_cast<std::ptrdiff_t>(begin);
    send_batch(kind, {from, from + static_cast<std::ptrdiff_t>(std::min(most, parts.size() - begin))});
  }
}

void Upload::send_batch(const std::string& kind, const Value::List& parts) {
  try {
    server_.post("runs/log-batch", Value::Map{{"run_id", run_id()}, {kind, parts}});
  } catch (const Refused& refused) {
    if (parts.size() > 1) {
      const auto middle = parts.begin() + static_cast<std::ptrdiff_t>(parts.size() / 2);
      send_batch(kind, {parts.begin(), middle});
      return send_batch(kind, {middle, parts.end()});
    }
    const Value run = server_.get("runs/get", "run_id=" + run_id()).at("run");
    if (run.at("info").at("lifecycle_stage").as_string() != "active") throw IoError("the run was deleted there");
    Console::instance().warn_once(
        format("MLflow does not take {} of {}: {}", quoted_text(parts[0].at("key").as_string()), kind, refused.what()));
  }
}

void Upload::send_status(const Value& entry) {
  Value update = Value::Map{{"run_id", run_id()}, {"status", entry.at("status")}};
  copy_if_there(entry, "time", update, "end_time");
  server_.post("runs/update", update);
  if (entry.at("status") == Value("RUNNING")) {
    // How an earlier part of the run ended no longer counts.
    for (const char* const tag : {"failure", "stop_reason"}) {
      try {
        server_.post("runs/delete-tag", Value::Map{{"run_id", run_id()}, {"key", tag}});
      } catch (const Refused&) {  // it has no such tag
      }
    }
  }
  journal_.state()["status"] = entry.at("status");
}

void Upload::send_file(const Value& entry) {
  const fs::path file = journal_.run_folder() / entry.at("file").as_string();
  const std::string& path = entry.at("artifact").as_string();
  const std::string& artifacts = journal_.state().at("run").at("artifact_uri").as_string();
  Console& console = Console::instance();
  if (!open_plain_file(file).is_open()) return console.warn_once(format("{} is gone: MLflow does not get it", file));
  if (MlflowServer::takes_files(artifacts)) {
    try {
      server_.upload(artifacts, path, file);
      if (entry.contains("table")) note_table(path);
    } catch (const Refused& refused) {
      journal_.state()["later"].push_back(entry);
      return console.warn_once(format("MLflow refuses the file {}, which is sent again at the end: {}", path, refused.what()),
                               "a file that MLflow does not take");
    }
  } else {
    console.warn_once(
        format(
            "MLflow stores the run's artifacts in {}, where only its Python can write: they stay in {}. `mlflow server` takes "
            "those of experiments that it creates (--serve-artifacts, its default).",
            quoted_text(without_credentials(artifacts)), journal_.run_folder()),
        "artifacts of MLflow");
  }
  std::error_code ignored;
  if (entry.contains("held")) fs::remove(file, ignored);
}

void Upload::note_table(const std::string& path) {
  constexpr const char* kTag = "mlflow.loggedArtifacts";
  const Value run = server_.get("runs/get", "run_id=" + run_id()).at("run");
  Value::List tables;
  if (const Value* const tags = run.at("data").find("tags")) {
    for (const Value& tag : tags->as_list()) {
      if (tag.at("key").as_string() == kTag) tables = parse_json(tag.at("value").as_string()).as_list();
    }
  }
  Value table = Value::Map{{"path", path}, {"type", "table"}};
  if (std::ranges::find(tables, table) != tables.end()) return;
  tables.push_back(std::move(table));
  const std::string text = to_json(tables);
  if (text.size() <= kLongestTag) send_batch("tags", {Value::Map{{"key", kTag}, {"value", text}}});
}

}  // namespace levin::mlflow
