#include "levin/loggers/mlflow/mlflow_logger.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/secrets.h"
#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/files/paths.h"
#include "levin/core/files/remote_file.h"
#include "levin/core/files/written_files.h"
#include "levin/loggers/media_folder.h"
#include "levin/loggers/mlflow/earlier_journal.h"
#include "levin/loggers/mlflow/journal.h"
#include "levin/loggers/mlflow/mlflow_server.h"
#include "levin/loggers/mlflow/mlflow_sync.h"
#include "levin/loggers/mlflow/texts.h"
#include "levin/loggers/mlflow/upload_queue.h"
#include "levin/loggers/rank_rows.h"
#include "levin/loggers/version_folder.h"
#include "levin/loggers/wall_clock.h"

namespace levin {
namespace {

namespace fs = std::filesystem;
using mlflow::Journal;

constexpr const char* kMLflowHelp = "Sends metrics, hyper-parameters, images, files and checkpoints to an MLflow server";

std::string log_model_problem(const Value& log_model) {
  const bool has_meaning = log_model.is_bool() || log_model == Value("all");
  return has_meaning ? "" : "log_model is false (no checkpoints), true (those that remain at the end) or 'all'";
}

/// A unique name of a run.
std::string make_key() {
  std::random_device random;
  return format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

/// Empty if the journal cannot be read.
std::string key_of(const fs::path& journal) {
  try {
    return Journal(journal).header().at("key").as_string();
  } catch (const Error&) {
    return {};
  }
}

std::string status_for_server(const std::string& status) {
  return status == "success" ? "FINISHED" : status == "failed" ? "FAILED" : "KILLED";
}

}  // namespace

LEVIN_REGISTER_(Logger, MLflowLogger, "MLflowLogger", kMLflowHelp);
LEVIN_REGISTER_(Logger, MLflowLogger, "MLFlowLogger", "MLflowLogger, as Lightning spells it");

void MLflowLoggerOptions::declare(OptionList<MLflowLoggerOptions>& options) {
  using O = MLflowLoggerOptions;
  options.add(&O::experiment_name, "Experiment of the server, created if missing");
  options.add(&O::run_name, "Name of the run there; null: MLflow chooses one");
  options.add(&O::tracking_uri, "Address of the server; null: the environment's MLFLOW_TRACKING_URI");
  options.add(&O::tags, "Tags of the run");
  options.add(&O::log_model, "Checkpoints as artifacts: true those that remain at the end, 'all' each when it is saved");
  options.add(&O::prefix, "Put before each metric's name, with a '-'");
  options.add(&O::artifact_location, "Store for artifacts of an experiment that is created; null: the server's choice");
  options.add(&O::run_id, "A run of the server to continue");
  declare_version_folder(options);
  options.add(&O::per_rank, "Every rank's own unreduced values too, as NAME/rank_{rank}");
  options.add(&O::every_n_steps, "With per_rank: steps between step values").min(1);
  options.add(&O::end_timeout, "Seconds for which the run's end waits for a server that does not respond").min(1);
  options.rule({"log_model"}, [](const O& logger) { return log_model_problem(logger.log_model); });
  options.rule({"tracking_uri"},
               [](const O& logger) { return mlflow::tracking_uri_problem(mlflow::tracking_uri(logger.tracking_uri)); });
}

MLflowLogger::MLflowLogger(Options options) : options_(checked("MLflowLogger", std::move(options))) {}
MLflowLogger::~MLflowLogger() = default;

VersionFolder MLflowLogger::version_folder(const RunInfo& run) const {
  return VersionFolder::of(options_, run.default_root_dir);
}

std::vector<fs::path> MLflowLogger::earlier_runs(const RunInfo& run) const { return version_folder(run).earlier(); }

std::string MLflowLogger::version() const { return folder_.empty() ? "" : version_folder(run_).version_of(folder_); }

fs::path MLflowLogger::earlier_journal(const RunInfo& run) const {
  fs::path file = Journal::file_of(folder_, run.rank);
  if (run.resuming && !fs::exists(file) && !run.resume_checkpoint.empty()) {
    const fs::path below = Journal::file_of({}, run.rank);
    file = version_folder(run).of_checkpoint(run.resume_checkpoint, below) / below;
  }
  const bool continues = run.resuming || !run.earlier_token.empty();
  return continues && fs::exists(file) ? file : fs::path();
}

std::string MLflowLogger::open(const RunInfo& run) {
  RunInfo info = run;
  info.earlier_token = info.earlier_token.substr(0, info.earlier_token.find('\n'));
  // A second run with the same logger (a test after a fit) continues in the same folder, and the same run of MLflow.
  if (folder_.empty()) {
    const auto has_none = [](const fs::path& folder) { return !has_journal(folder); };
    folder_ = version_folder(run).make(info, has_none);
    key_ = make_key();
  }
  run_ = run;
  if (const fs::path earlier = earlier_journal(run); !earlier.empty()) {
    try {
      const Value there = Journal(earlier).header();
      const Value here = header();
      const bool is_same = there.at("uri") == here.at("uri") && there.at("experiment") == here.at("experiment");
      key_ = is_same ? there.at("key").as_string() : make_key();
    } catch (const Error& error) {
      rank_zero_warn(format("MLflowLogger: {}. So this is a new run in MLflow.", error.what()));
      key_ = make_key();
    }
  }
  return folder_.string() + "\n" + key_;
}

void MLflowLogger::attach(const RunInfo& run, const std::string& token) {
  const std::vector<std::string> parts = split(token, "\n");
  folder_ = parts.front();
  list_written_files(folder_);
  key_ = parts.back();
  run_ = run;
  media_ = std::make_unique<MediaFolder>(folder_);
  queue_.reset();
  const fs::path own = Journal::file_of(folder_, run.rank);
  const fs::path earlier = earlier_journal(run);
  if (!earlier.empty() && key_of(earlier) == key_) {
    const mlflow::JournalCut cut =
        run.resuming ? mlflow::JournalCut{run.resume_rows, run.resume_step} : mlflow::JournalCut{.rows = {0, 0}};
    earlier_ = std::make_unique<mlflow::EarlierJournal>(earlier, own, cut);
    rows_ = earlier_->rows();
    queue();
  } else if (fs::exists(own) && key_of(own) != key_) {
    const fs::path backup = Journal::move_to_backup(own);
    Console::instance().warn(
        format("{} is of an earlier run, which this run does not resume: it is saved as {}", own, backup.filename()));
  }
}

Value MLflowLogger::header() const {
  Value tags = mlflow::source_tags();
  for (const auto& [name, text] : options_.tags)
    tags[mlflow::name_for_server(name)] = names_secret(name) ? std::string(kMask) : mlflow::tag_text(text);
  Value header = Value::Map{{"uri", mlflow::without_credentials(mlflow::tracking_uri(options_.tracking_uri))},
                            {"key", key_},
                            {"rank", run_.rank},
                            {"experiment", options_.experiment_name},
                            {"start", milliseconds_now()},
                            {"tags", std::move(tags)}};
  if (options_.run_name) header["run_name"] = *options_.run_name;
  if (options_.artifact_location) header["artifact_location"] = *options_.artifact_location;
  if (options_.run_id) header["run_id"] = *options_.run_id;
  return header;
}

mlflow::UploadQueue& MLflowLogger::queue() {
  if (!media_) throw MisuseError("MLflowLogger: something is logged before open() and attach()");
  const std::lock_guard lock(mutex_);
  if (!queue_) {
    const fs::path file = Journal::file_of(folder_, run_.rank);
    const bool continues = fs::exists(file);
    queue_ = std::make_unique<mlflow::UploadQueue>(file, header(), mlflow::tracking_uri(options_.tracking_uri));
    if (continues && run_.rank == 0) queue_->add(Value::Map{{"status", "RUNNING"}});
  }
  return *queue_;
}

void MLflowLogger::add_row(const MetricRow& row, const char* count_name, std::int64_t count, const std::string& suffix) {
  // The server stores equal values of a step once if their times are equal, too.
  const std::int64_t now = milliseconds_now();
  last_time_ = std::exchange(last_step_, row.step) == row.step ? std::max(now, last_time_ + 1) : now;
  Value metrics(Value::Map{});
  if (!row.values.contains("epoch") && suffix.empty()) metrics["epoch"] = static_cast<double>(row.epoch);
  const std::string prefix = options_.prefix.empty() ? "" : options_.prefix + "-";
  for (const auto& [name, value] : row.values) metrics[mlflow::name_for_server(format("{}{}{}", prefix, name, suffix))] = value;
  Value entry = Value::Map{{count_name, count}, {"step", row.step}, {"time", last_time_}, {"metrics", std::move(metrics)}};
  if (earlier_) earlier_->remove_known(entry);
  queue().add(entry);
}

void MLflowLogger::log_metrics(const MetricRow& row) { add_row(row, "row", rows_.rows++, ""); }

void MLflowLogger::log_rank_metrics(const MetricRow& row) {
  if (!is_rank_row_due(row, options_.every_n_steps)) return;
  add_row(row, "rank_row", rows_.rank_rows++, format("/rank_{}", run_.rank));
}

void MLflowLogger::add_file(const fs::path& file, const std::string& artifact, const char* mark) {
  const fs::path below = file.lexically_relative(folder_);
  const bool is_below = !below.empty() && !leaves_folder(below);
  Value entry = Value::Map{{"artifact", artifact}, {"file", (is_below ? below : fs::absolute(file)).string()}};
  if (mark != nullptr) entry[mark] = true;
  queue().add(entry);
}

bool MLflowLogger::log_item(const LoggedItem& item) {
  queue();
  const auto* const table = std::get_if<Table>(&item.content);
  const fs::path file = table != nullptr ? media_->write(item, ".json", table_json(*table)) : media_->write(item);
  std::string artifact = file.lexically_relative(folder_ / "media").string();
  // The server refuses names with a meaning in addresses.
  std::ranges::replace_if(
      artifact, [](char one) { return one == '#' || one == '%'; }, '_');
  add_file(file, artifact, table != nullptr ? "table" : nullptr);
  return true;
}

void MLflowLogger::log_hyperparams(const Value& hyperparams) {
  if (hyperparams.size() > 0) queue().add(Value::Map{{"params", mlflow::parameters_of(hyperparams)}});
}

void MLflowLogger::after_save_checkpoint(const fs::path& file) {
  if (options_.log_model == Value("all")) {
    // A hard link until it is sent: ModelCheckpoint may remove the file before.
    const fs::path content = local_copy(file);
    const fs::path held = folder_ / "mlflow" / "checkpoints" / format("{}_{}", milliseconds_now(), file.filename());
    std::error_code error;
    fs::create_directories(held.parent_path(), error);
    if (!error) fs::create_hard_link(fs::canonical(content, error), held, error);
    if (!error) note_written(held);
    add_checkpoint(file, error ? content : held);
  } else if (options_.log_model == Value(true) && std::ranges::find(checkpoints_, file) == checkpoints_.end()) {
    checkpoints_.push_back(file);
  }
}

void MLflowLogger::add_checkpoint(const fs::path& file, const fs::path& content) {
  const std::string artifact = format("model/checkpoints/{}/{}", file.stem(), file.filename());
  add_file(content, artifact, content == file ? nullptr : "held");
}

RowCounts MLflowLogger::rows_written() const {
  return {run_.rank == 0 ? rows_.rows : -1, options_.per_rank ? rows_.rank_rows : -1};
}

void MLflowLogger::save() {
  // A run that is set up appears in MLflow, also if it has logged nothing yet.
  if (run_.rank == 0) queue();
}

void MLflowLogger::log_outcome(const RunOutcome& outcome) { outcome_ = outcome; }

void MLflowLogger::finalize(const std::string& status) {
  if (!queue_) {
    // A start that failed leaves no version behind.
    if (run_.rank == 0) remove_unused_folder(std::exchange(folder_, {}));
    return;
  }
  if (run_.rank == 0) {
    for (const fs::path& file : std::exchange(checkpoints_, {})) {
      if (is_there(file)) add_checkpoint(file, local_copy(file));
    }
    Value tags(Value::Map{});
    if (!outcome_.failure.empty()) tags["failure"] = mlflow::tag_text(outcome_.failure);
    if (!outcome_.stop_reason.empty()) tags["stop_reason"] = mlflow::tag_text(outcome_.stop_reason);
    if (tags.size() > 0) queue_->add(Value::Map{{"tags", std::move(tags)}});
    queue_->add(Value::Map{{"status", status_for_server(status)}, {"time", milliseconds_now()}});
  }
  const std::string rest = queue_->finish(std::chrono::duration<double>(options_.end_timeout));
  queue_.reset();
  if (rest.empty()) return;
  Console::instance().warn(
      format("MLflow lacks {} of this run, stored in {}. When it is back, `levin runs sync {}` sends them.", rest,
             as_typed(folder_ / "mlflow"), as_typed(folder_)));
}

std::string MLflowLogger::sync(const fs::path& run_folder) { return mlflow::sync_journals(run_folder); }

bool MLflowLogger::has_journal(const fs::path& run_folder) { return !Journal::files_in(run_folder).empty(); }

}  // namespace levin
