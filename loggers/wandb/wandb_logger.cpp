#include "levin/loggers/wandb/wandb_logger.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "levin/core/base/environment.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/core/config/value_json.h"
#include "levin/core/console/console.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/file_bytes.h"
#include "levin/core/files/paths.h"
#include "levin/core/files/remote_file.h"
#include "levin/core/files/written_files.h"
#include "levin/loggers/rank_rows.h"
#include "levin/loggers/version_folder.h"
#include "levin/loggers/wandb/account.h"
#include "levin/loggers/wandb/run.h"
#include "wandb/messages.pb.h"

namespace levin {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIdFile = "wandb_run.txt";

std::string first_of(const std::string& option, const char* variable, const std::string& fallback = {}) {
  if (!option.empty()) return option;
  const std::string value = environment(variable);
  return value.empty() ? fallback : value;
}

/// As W&B makes them.
std::string new_id() {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device random;
  std::string id;
  while (id.size() < 8) id += kLetters[std::uniform_int_distribution<std::size_t>(0, kLetters.size() - 1)(random)];
  return id;
}

std::string id_in(const fs::path& folder) {
  std::ifstream stream = open_plain_stream(folder / kIdFile);
  std::string id;
  stream >> id;
  return id;
}

constexpr const char* kValidIds =
    "an id has at most 64 characters, no space and none of / \\ # ? % :, and does not begin with '.'";
bool is_valid_id(const std::string& id) {
  return id.size() <= 64 && id.find_first_of("/\\#?%: \n") == std::string::npos && !id.starts_with('.');
}

}  // namespace

LEVIN_REGISTER_(Logger, WandbLogger, "WandbLogger", "Logs to Weights & Biases, or writes runs that `wandb sync` uploads");

void WandbLoggerOptions::declare(OptionList<WandbLoggerOptions>& options) {
  using O = WandbLoggerOptions;
  options.add(&O::project, "Project; empty: WANDB_PROJECT, else levin_logs");
  options.add(&O::name, "Name of the run; empty: WANDB_NAME, else W&B chooses one");
  options.add(&O::entity, "User or team; empty: WANDB_ENTITY, else the user's default");
  options.add(&O::group, "Group of runs; empty: WANDB_RUN_GROUP");
  options.add(&O::job_type, "What kind of run it is; empty: WANDB_JOB_TYPE");
  options.add(&O::notes, "Notes on the run; empty: WANDB_NOTES");
  options.add(&O::tags, "Tags of the run; none: WANDB_TAGS, with commas between them");
  options.add(&O::id, "The run's id; empty: WANDB_RUN_ID, else that of the run that is resumed, or a new one");
  options.add(&O::save_dir, "Folder in which `wandb` is; null: WANDB_DIR, else the Trainer's default_root_dir");
  options.add(&O::offline, "Only write the folder that `wandb sync` uploads, as with WANDB_MODE=offline");
  options.add(&O::log_model, "true: upload checkpoints at the end of the run; all: each when it is saved; false: none");
  options.add(&O::prefix, "Put before each metric's name, with a '-'");
  options.add(&O::core,
              "The program wandb-core; empty: WANDB_CORE, else the one on PATH, or of the package whose `wandb` is on PATH");
  options.add(&O::per_rank, "Each rank's unreduced values are a separate run of the group");
  options.add(&O::every_n_steps, "With per_rank: steps between step values").min(1);
  options.add(&O::end_timeout, "Seconds for which the run's end waits for W&B without progress").min(1);
  options.rule({"log_model"}, [](const O& logger) {
    const bool has_meaning = logger.log_model.is_bool() || logger.log_model == Value("all");
    return has_meaning ? "" : "log_model is true, false or all";
  });
  options.rule({"id"}, [](const O& logger) { return is_valid_id(logger.id) ? "" : kValidIds; });
}

WandbLogger::WandbLogger(Options options) : options_(checked("WandbLogger", std::move(options))) {}
WandbLogger::~WandbLogger() = default;

std::string WandbLogger::name() const { return first_of(options_.project, "WANDB_PROJECT", "levin_logs"); }

fs::path WandbLogger::save_dir(const RunInfo& run) const {
  const std::string variable = environment("WANDB_DIR");
  return fs::current_path() /
         expand_home(options_.save_dir.value_or(variable.empty() ? run.default_root_dir : fs::path(variable)));
}

std::vector<fs::path> WandbLogger::earlier_runs(const RunInfo& run) const {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  std::error_code none;
  for (fs::directory_iterator entry(save_dir(run) / name(), none), end; !none && entry != end; entry.increment(none)) {
    const fs::file_time_type written = fs::last_write_time(entry->path() / kIdFile, none);
    if (!none) found.emplace_back(written, entry->path());
    none.clear();
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> folders;
  for (auto& [written, folder] : found) folders.push_back(std::move(folder));
  return folders;
}

std::string WandbLogger::open(const RunInfo& run) {
  if (environment("WANDB_MODE") == "disabled") return {};
  // A second run with the same logger (a test after a fit) continues the same run of W&B.
  resumes_ = run.resuming || !run.earlier_token.empty() || !id_.empty();
  std::string earlier = id_;
  if (!run.earlier_token.empty()) earlier = split(run.earlier_token, "\n").front();
  if (run.resuming && earlier.empty()) earlier = id_in(run.resume_checkpoint.parent_path().parent_path());
  id_ = first_of(options_.id, "WANDB_RUN_ID", earlier.empty() ? new_id() : earlier);
  if (!is_valid_id(id_)) throw ConfigError(format("WandbLogger: {} is not an id of a run: {}", quoted_text(id_), kValidIds));
  folder_ = run.open_folders.empty() ? save_dir(run) / name() / id_ : run.open_folders.front();
  folder_ = folder_.lexically_normal();
  make_folder(folder_);
  list_written_files(folder_);
  write_file(folder_ / kIdFile, id_ + "\n");
  return join(std::vector<std::string>{id_, folder_.string(), resumes_ ? "resumes" : "begins"}, "\n");
}

void WandbLogger::attach(const RunInfo& run, const std::string& token) {
  run_ = run;
  if (token.empty()) return;
  const std::vector<std::string> parts = split(token, "\n");
  id_ = parts.at(0);
  folder_ = parts.at(1);
  list_written_files(folder_);
  resumes_ = parts.at(2) == "resumes";
  if (run.rank == 0) {
    wandb::RunIdentity identity{.id = id_, .name = first_of(options_.name, "WANDB_NAME")};
    identity.job_type = first_of(options_.job_type, "WANDB_JOB_TYPE");
    main_run_ = begin_run(std::move(identity), run.resume_rows.rows);
  }
  if (options_.per_rank) own_run();
}

std::unique_ptr<wandb::Run> WandbLogger::begin_run(wandb::RunIdentity identity, std::int64_t known_rows) const {
  identity.project = name();
  identity.entity = first_of(options_.entity, "WANDB_ENTITY");
  const bool has_others = run_.world_size > 1 || options_.per_rank;
  identity.group = first_of(options_.group, "WANDB_RUN_GROUP", has_others ? id_ : "");
  identity.notes = first_of(options_.notes, "WANDB_NOTES");
  identity.tags = options_.tags;
  const std::string tags = environment("WANDB_TAGS");
  if (identity.tags.empty() && !tags.empty()) identity.tags = split(tags, ",");
  const bool is_offline = options_.offline || environment("WANDB_MODE") == "offline" || environment("WANDB_MODE") == "dryrun";
  const fs::path core = is_offline ? fs::path() : wandb::find_core(options_.core);
  const bool is_known_attempt = !run_.earlier_token.empty();
  auto begun = std::make_unique<wandb::Run>(wandb::Run::Start{.identity = std::move(identity),
                                                              .wandb = save_dir(run_) / "wandb",
                                                              .core = core,
                                                              .resumes = resumes_,
                                                              .logs_again = run_.resuming || is_known_attempt,
                                                              .first_row = run_.resuming ? known_rows : 0,
                                                              .first_step = run_.resume_step});
  if (!is_offline && core.empty() && run_.rank == 0) {
    Console::instance().warn(format(
        "WandbLogger: wandb-core is not installed (it comes with `pip install wandb`; WANDB_CORE says where it is), so the "
        "run is offline. Upload it with: wandb sync {}",
        as_typed(begun->folder())));
  }
  return begun;
}

wandb::Run& WandbLogger::own_run() {
  const std::lock_guard lock(own_run_mutex_);
  if (!own_run_) {
    const std::string end = format("-rank_{}", run_.rank);
    wandb::RunIdentity identity{.id = id_ + end, .name = first_of(options_.name, "WANDB_NAME", id_) + end, .job_type = "rank"};
    own_run_ = begin_run(std::move(identity), run_.resume_rows.rank_rows);
  }
  return *own_run_;
}

RowCounts WandbLogger::rows_written() const {
  // Without per_rank, another thread may be creating the rank's own run.
  return {main_run_ ? main_run_->rows() : -1, options_.per_rank && own_run_ ? own_run_->rows() : -1};
}

void WandbLogger::log_metrics(const MetricRow& row) {
  if (main_run_) main_run_->log(row, options_.prefix);
}

void WandbLogger::log_rank_metrics(const MetricRow& row) {
  if (is_disabled() || !is_rank_row_due(row, options_.every_n_steps)) return;
  own_run().log(row, options_.prefix);
}

bool WandbLogger::log_item(const LoggedItem& item) {
  if (!is_disabled()) (item.rank == 0 ? *main_run_ : own_run()).log(item);
  return true;
}

void WandbLogger::log_hyperparams(const Value& hyperparams) {
  if (main_run_ && hyperparams.size() > 0) main_run_->log_config(hyperparams);
}

void WandbLogger::after_save_checkpoint(const fs::path& file) {
  checkpoints_.insert(file);
  if (main_run_ && options_.log_model == Value("all")) main_run_->log_file(local_copy(file), "checkpoints" / file.filename());
}

void WandbLogger::save() {
  if (main_run_) main_run_->save();
  const std::lock_guard lock(own_run_mutex_);
  if (own_run_) own_run_->save();
}

void WandbLogger::log_outcome(const RunOutcome& outcome) {
  wandb::Fields fields;
  if (!outcome.stop_reason.empty()) fields.emplace_back("stop_reason", to_json(Value(outcome.stop_reason)));
  if (!outcome.failure.empty()) fields.emplace_back("failure", to_json(Value(outcome.failure)));
  if (main_run_ && !fields.empty()) main_run_->log_summary(fields);
}

void WandbLogger::finalize(const std::string& status) {
  const int exit_code = status == "success" ? 0 : status == "interrupted" ? 255 : 1;
  // A start that failed leaves nothing behind.
  if (main_run_ && exit_code != 0 && main_run_->is_unused()) {
    main_run_->discard();
    main_run_.reset();
    std::error_code ignored;
    fs::remove(folder_ / kIdFile, ignored);
    if (remove_unused_folder(folder_)) fs::remove(folder_.parent_path(), ignored);
    id_.clear();
    folder_.clear();
  }
  if (main_run_ && options_.log_model == Value(true)) {
    for (const fs::path& file : checkpoints_) {
      if (is_there(file)) main_run_->log_file(local_copy(file), "checkpoints" / file.filename());
    }
  }
  const std::chrono::duration<double> patience(options_.end_timeout);
  if (own_run_) own_run_->finish(exit_code, patience);
  if (main_run_) main_run_->finish(exit_code, patience);
  own_run_.reset();
  main_run_.reset();
}

}  // namespace levin
