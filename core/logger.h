#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/component.h"
#include "levin/core/config/value.h"
#include "levin/core/logged_item.h"
#include "levin/core/protocol/metrics.h"

namespace levin {

/// Rows that a logger has received since its run began, with those before a resume; -1: not counted.
struct LEVIN_API RowCounts {
  std::int64_t rows = -1;       ///< log_metrics(), on rank 0
  std::int64_t rank_rows = -1;  ///< log_rank_metrics(), on this rank
};

/// What a logger gets when a run starts.
struct LEVIN_API RunInfo {
  int rank = 0;
  int world_size = 1;
  std::filesystem::path default_root_dir = {};
  bool resuming = false;         ///< fit() continues a run from a checkpoint (false when only its weights are used)
  std::int64_t resume_step = 0;  ///< its global step: rows from this step on will be logged again
  std::filesystem::path resume_checkpoint = {};  ///< the checkpoint's file
  /// rows_written() when the checkpoint was written: later rows will be logged again. -1: unknown, see resume_step.
  RowCounts resume_rows = {};
  /// The result of this logger's open() in an earlier, failed attempt of this run, which continues there. Rows after the
  /// checkpoint are logged again; without a checkpoint all are. Empty in a first attempt.
  std::string earlier_token = {};
  /// The non-empty log_dir() of each logger of the run that is already open, so that this one can share a folder.
  std::vector<std::filesystem::path> open_folders = {};
};

/// How a run ended.
struct LEVIN_API RunOutcome {
  std::string status;                      ///< "success", "failed" or "interrupted"
  std::string stop_reason = {};            ///< why a fit ended; empty: it is not a fit, or it has failed
  std::string failure = {};                ///< the error, with the rank and the hook where it happened; empty: none
  std::vector<std::string> warnings = {};  ///< of rank 0 during the run, the first 20 at most
};

/// Writes metrics and hyper-parameters somewhere. Derive, override what you need, register the class. Methods run on the
/// training thread, except log_item(); none may communicate. An exception ends the run on all ranks. Example:
/// loggers/csv_logger.h.
class LEVIN_API Logger {
 public:
  virtual ~Logger();

  /// Called: on rank 0 only, once before the others. Chooses where to write, such as a version folder, and returns a text from
  /// which attach() on every rank finds it.
  virtual std::string open(const RunInfo&) { return {}; }
  /// Called: on every rank, with the text that rank 0's open() gave.
  virtual void attach(const RunInfo&, const std::string& /*token*/) {}

  /// The folders of this logger's earlier runs of the same experiment, newest first, in which `ckpt_path: best` and `last` look
  /// for `checkpoints`. Called: on rank 0, before open(). Default: log_dir(), when it is known without a run.
  virtual std::vector<std::filesystem::path> earlier_runs(const RunInfo&) const;

  /// Called: on rank 0, for each row.
  virtual void log_metrics(const MetricRow&) {}
  /// True: log_rank_metrics on every rank gets that rank's unreduced values of each training step and epoch, without
  /// communication.
  virtual bool wants_rank_metrics() const { return false; }
  virtual void log_rank_metrics(const MetricRow&) {}
  /// True: log_all_ranks is called on rank 0 with every rank's unreduced values (index is the rank) for each row.
  virtual bool wants_all_ranks() const { return false; }
  virtual void log_all_ranks(const MetricRow&, const std::vector<MetricMap>& /*by_rank*/) {}

  /// Takes an item that a module has logged: an image, a histogram, a text, a table, a file or a figure. False: this logger
  /// does not show that kind, which is reported once. Called: on the rank that logged it, between attach() and finalize().
  /// Threading: a thread of levin, one item at a time, while other methods run on the training thread: shared data needs a
  /// lock. An exception ends the run at the next logged item, or at its end.
  virtual bool log_item(const LoggedItem&) { return false; }

  /// Called: on rank 0, once at the start. Hyper-parameters of the module under `model`, of the data module under `data`.
  virtual void log_hyperparams(const Value&) {}
  /// Called: on rank 0 after ModelCheckpoint wrote a file.
  virtual void after_save_checkpoint(const std::filesystem::path&) {}
  /// The row counts that a checkpoint stores, so that a resumed run removes later rows. Called: on every rank, often. Default:
  /// rows are not counted.
  virtual RowCounts rows_written() const { return {}; }
  /// Writes buffered rows to disk. Called: on every rank after each epoch, before each checkpoint and at the end.
  virtual void save() {}
  /// Called: on rank 0 at the end of a run, before finalize().
  virtual void log_outcome(const RunOutcome&) {}
  /// Called: on every rank at the end of a run. status is "success", "failed" or "interrupted".
  virtual void finalize(const std::string& /*status*/) {}

  /// The options that this logger was made with; ranks compare them before a run starts. Default: null.
  virtual Value settings() const { return {}; }
  virtual std::string name() const { return "logs"; }           ///< the experiment's folder, "logs" by default
  virtual std::string version() const { return {}; }            ///< "version_0"; "": none
  virtual std::filesystem::path log_dir() const { return {}; }  ///< the folder of this run's files; empty: it writes none
};

/// `true` (the default logger), `false` (none), one logger or several.
class LEVIN_API Loggers {
 public:
  Loggers() = default;
  Loggers(bool enabled) : enabled_(enabled), is_asked_for_(enabled) {}
  template <class Derived>
  requires std::is_convertible_v<std::shared_ptr<Derived>, std::shared_ptr<Logger>> Loggers(std::shared_ptr<Derived> logger)
      : is_asked_for_(true), list_{std::move(logger)} {}
  template <class Derived>
  requires std::derived_from<Derived, Logger> Loggers(Derived&& logger)
      : is_asked_for_(true), list_{Component<Logger>(std::forward<Derived>(logger))} {}
  Loggers(Component<Logger> logger) : is_asked_for_(true), list_{std::move(logger)} {}
  Loggers(std::vector<Component<Logger>> list) : is_asked_for_(!list.empty()), list_(std::move(list)) {}
  Loggers(std::initializer_list<Component<Logger>> list) : is_asked_for_(list.size() > 0), list_(list) {}
  bool enabled() const { return enabled_; }
  /// Loggers or `true` were given explicitly; the default, too, means `true`.
  bool is_asked_for() const { return is_asked_for_; }
  bool is_default() const { return enabled_ && list_.empty(); }
  const std::vector<Component<Logger>>& list() const { return list_; }

 private:
  bool enabled_ = true;
  bool is_asked_for_ = false;
  std::vector<Component<Logger>> list_;
};

template <>
struct LEVIN_API OptionType<Loggers> {
  static Loggers read(const Value& value);
  static void check(const Loggers& loggers) { OptionType<std::vector<Component<Logger>>>::check(loggers.list()); }
  static Value write(const Loggers& loggers);
  static std::string name() { return "bool, class_path and init_args, or a list of these"; }
  static Value schema();
};

}  // namespace levin
