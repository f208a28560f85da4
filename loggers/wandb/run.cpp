#include "levin/loggers/wandb/run.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/files/paths.h"
#include "levin/loggers/version_folder.h"
#include "levin/loggers/wall_clock.h"
#include "levin/loggers/wandb/account.h"
#include "wandb/messages.pb.h"

namespace levin::wandb {
namespace {

namespace fs = std::filesystem;

/// So many jobs may wait: a thread that logs more waits.
constexpr std::size_t kMostWaiting = 100'000;

std::string file_name(const std::string& id) { return format("run-{}.wandb", id); }

/// As W&B does; skipped on a disk without links.
void link_newest(const fs::path& folder) {
  std::error_code no_links;
  fs::remove(folder.parent_path() / "latest-run", no_links);
  fs::create_directory_symlink(folder.filename(), folder.parent_path() / "latest-run", no_links);
}

/// Creates `run-DATE_TIME-ID` or `offline-run-DATE_TIME-ID`, with `files` and `logs`.
fs::path make_run_folder(const fs::path& wandb, const std::string& id, bool is_online) {
  const fs::path first = wandb / format("{}run-{}-{}", is_online ? "" : "offline-", local_time("%Y%m%d_%H%M%S"), id);
  make_folder(wandb);
  fs::path folder = first;
  std::error_code error;
  for (int again = 1; !fs::create_directory(folder, error) && !error; ++again) folder = first.string() + format("-{}", again);
  make_folder(folder / "files");
  make_folder(folder / "logs");
  link_newest(folder);
  return folder;
}

/// Calls with each record of the run's earlier parts, the oldest first.
void each_record(const fs::path& wandb, const std::string& id, const std::function<void(const Record&)>& call) {
  std::vector<std::pair<std::string, fs::path>> files;
  std::error_code none;
  for (fs::directory_iterator entry(wandb, none), end; !none && entry != end; entry.increment(none)) {
    const std::string name = entry->path().filename().string();
    const std::size_t date = name.find("run-");
    std::error_code ignored;
    const bool is_run = (date == 0 || name.starts_with("offline-run-")) && fs::exists(entry->path() / file_name(id), ignored);
    if (is_run) files.emplace_back(name.substr(date), entry->path() / file_name(id));
  }
  std::ranges::sort(files);
  for (const auto& [name, file] : files) {
    RecordReader reader(file);
    Record record;
    for (std::string bytes; reader.next(bytes);) {
      if (record.ParseFromString(bytes)) call(record);
    }
  }
}

/// The value of a name in a row of the run file; empty: none.
std::string value_in(const HistoryRecord& row, std::string_view name) {
  const auto found = std::ranges::find_if(row.item(), [&](const Item& item) { return item.key() == name; });
  return found == row.item().end() ? "" : found->value_json();
}

}  // namespace

EarlierRows read_earlier(const fs::path& wandb, const std::string& id) {
  EarlierRows earlier;
  each_record(wandb, id, [&](const Record& record) {
    for (const Item& item : record.summary().update()) earlier.summary[item.key()] = item.value_json();
    if (!record.has_history()) return;
    const HistoryRecord& row = record.history();
    earlier.rows = std::max(earlier.rows, row.step().num() + 1);
    earlier.runtime = std::max(earlier.runtime, std::atof(value_in(row, "_runtime").c_str()));
    const std::int64_t step = std::atoll(value_in(row, kStepName).c_str());
    if (!value_in(row, "epoch").empty()) return earlier.steps.push_back(step);
    if (row.item_size() > 0) ++earlier.items[{row.item(0).key(), step}];
  });
  return earlier;
}

Run::Run(Start start)
    : id_(start.identity.id),
      earlier_(start.resumes ? read_earlier(start.wandb, id_) : EarlierRows()),
      folder_(make_run_folder(start.wandb, id_, !start.core.empty())),
      media_(folder_ / "files"),
      next_row_(std::max(earlier_.rows, start.first_row)),
      metric_rows_(std::ssize(earlier_.steps)),
      worker_(kMostWaiting) {
  if (start.logs_again) {
    skipped_until_ = metric_rows_;
    const auto is_known = [&](std::int64_t step) { return step < start.first_step; };
    metric_rows_ = start.first_row >= 0 ? start.first_row : std::ranges::count_if(earlier_.steps, is_known);
  } else {
    earlier_.items.clear();
  }
  if (!start.core.empty()) connect(start);
  file_.emplace(folder_ / file_name(id_));
  add(header_record());
  add(run_record(start.identity, start_time_, start.resumes, earlier_.runtime));
  add(environment_record(start_time_));
  // W&B shows the summary and the x axes of a run's last part.
  if (!earlier_.summary.empty()) add(summary_record({earlier_.summary.begin(), earlier_.summary.end()}));
  for (const auto& [name, json] : earlier_.summary) {
    if (!name.starts_with('_') && defined_.insert(name).second) add(metric_record(name));
  }
}

Run::~Run() = default;

void Run::connect(const Start& start) {
  const Account account = Account::of_user();
  std::string problem = "there is no API key: neither in WANDB_API_KEY nor in ~/.netrc";
  try {
    if (!account.api_key.empty()) {
      const Record record = run_record(start.identity, start_time_, start.resumes, earlier_.runtime);
      core_ = std::make_unique<CoreConnection>(
          start.core, account, CoreConnection::Run{start.identity, folder_, start_time_, start.resumes}, record);
      Console::instance().info(format("W&B: {}", account.page_of(core_->entity(), core_->project(), id_)));
      // Records that an earlier part has written, and its wandb-core has not uploaded.
      each_record(start.wandb, id_, [&](const Record& earlier) {
        if (start.resumes && earlier.has_history() && earlier.history().step().num() >= core_->first_row())
          core_->send(earlier);
      });
      next_row_ = std::max(next_row_, core_->first_row());
      return;
    }
  } catch (const IoError& error) {
    problem = split(error.what(), "\n").front();
  }
  move_offline();
  media_ = MediaFolder(folder_ / "files");
  Console::instance().warn(
      format("WandbLogger: the run is offline: {}. Upload it with: wandb sync {}", problem, as_typed(folder_)));
}

void Run::move_offline() {
  const fs::path offline = folder_.parent_path() / format("offline-{}", folder_.filename());
  fs::rename(folder_, offline);
  folder_ = offline;
  link_newest(folder_);
}

std::int64_t Run::rows() const { return metric_rows_; }
double Run::runtime() const { return earlier_.runtime + seconds_now() - start_time_; }

void Run::add(Record record) {
  {
    const std::lock_guard lock(mutex_);
    added_.push_back(std::move(record));
  }
  worker_.add([this] { write_added(); });
}

void Run::write_added() {
  std::unique_lock lock(mutex_);
  while (!added_.empty()) {
    Record& record = added_.front();
    lock.unlock();
    record.set_num(record_ + 1);
    record.mutable_info()->set_stream_id(id_);
    file_->add(record.SerializeAsString());  // if it throws, the next job retries
    ++record_;
    if (core_ && !record.has_run() && !record.has_exit()) core_->send(record);
    lock.lock();
    added_.pop_front();
  }
  lock.unlock();
  warn_of_core();
}

void Run::warn_of_core() {
  if (!core_ || warned_of_core_ || core_->failure().empty()) return;
  warned_of_core_ = true;
  Console::instance().warn(
      format("WandbLogger: wandb-core fails: {}. All that is logged is in {}", core_->failure(), as_typed(folder_)));
}

void Run::save() {
  worker_.add([this] { write_added(); });
  worker_.wait();
}

void Run::add_row(Fields fields, std::int64_t step) {
  for (const auto& [name, json] : fields) {
    if (defined_.insert(name).second) add(metric_record(name));
  }
  if (defined_.insert(std::string(kStepName)).second) add(metric_record(std::string(kStepName)));
  fields.emplace_back(kStepName, std::to_string(step));
  fields.emplace_back("_timestamp", json_of(seconds_now()));
  fields.emplace_back("_runtime", json_of(runtime()));
  fields.emplace_back("_step", std::to_string(next_row_));
  add(history_record(next_row_++, fields));
  fields.emplace_back("_wandb", format("{{\"runtime\":{}}}", static_cast<std::int64_t>(runtime())));
  add(summary_record(fields));
}

void Run::log(const MetricRow& row, const std::string& prefix) {
  const std::lock_guard lock(log_mutex_);
  if (metric_rows_++ < skipped_until_) return;
  Fields fields;
  for (const auto& [name, value] : row.values)
    fields.emplace_back(prefix.empty() ? name : format("{}-{}", prefix, name), json_of(value));
  fields.emplace_back("epoch", std::to_string(row.epoch));
  add_row(std::move(fields), row.step);
}

void Run::log(const LoggedItem& item) {
  const std::lock_guard lock(log_mutex_);
  const auto sent = earlier_.items.find({item.name, item.step});
  if (sent != earlier_.items.end() && sent->second-- > 0) return;
  const ShownItem shown = show(item, media_, folder_ / "files");
  if (!shown.path.empty()) add(file_record(shown.path));
  if (!shown.json.empty()) add_row({{item.name, shown.json}}, item.step);
}

void Run::log_config(const Value& hyperparams) { add(config_record(hyperparams)); }
void Run::log_summary(const Fields& fields) { add(summary_record(fields)); }

void Run::log_file(const fs::path& file, const std::string& name) {
  const fs::path copy = folder_ / "files" / name;
  make_folder(copy.parent_path());
  std::error_code error;
  fs::remove(copy, error);
  fs::create_hard_link(fs::canonical(file, error), copy, error);
  if (error) fs::copy_file(file, copy, fs::copy_options::overwrite_existing, error);
  if (error) throw IoError(format("WandbLogger: cannot copy {} to {}: {}", file, copy, error.message()));
  add(file_record(name));
}

void Run::finish(int exit_code, std::chrono::duration<double> patience) {
  const Record exit = exit_record(exit_code, runtime());
  add(exit);
  save();
  if (core_) {
    core_->finish(exit, patience,
                  format("WandbLogger: waiting for W&B to take the rest of the run, which is in {}", as_typed(folder_)));
    warn_of_core();
    core_.reset();
    if (!warned_of_core_) return;
    move_offline();  // `wandb sync` takes other folders for uploaded
  }
  Console::instance().info(format("W&B: upload the run with: wandb sync {}", as_typed(folder_)));
}

void Run::discard() {
  save();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
  fs::remove(folder_.parent_path() / "latest-run", ignored);
  fs::remove(folder_.parent_path(), ignored);
}

}  // namespace levin::wandb
