#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "levin/core/base/error.h"
#include "levin/core/base/hook.h"

namespace levin {

/// Why a run failed: which rank, where it was, and its error.
struct FailureRecord {
  int rank = 0;
  Whereabouts where;
  std::string error;
  /// Starting again would lead there again: the configuration or the program is wrong.
  bool is_final = false;
  /// Its process has ended, and others have noticed: it does not say anything itself.
  bool is_lost = false;

  /// "rank 1 failed in training_step (train, epoch 0, step 3)"
  std::string place() const;
  /// The same with the error: "rank 1 failed in training_step (train, epoch 0, step 3): <error>"
  std::string str() const;
};

/// Where a rank is that has not come to its first hook yet.
inline constexpr Whereabouts kBeforeFirstHook{Stage::kTrain, Hook::kNone, -1, -1};

/// What a rank says that ends because of another one's failure, in one line.
std::string consequence(int rank, const Whereabouts& where, const FailureRecord& cause);

/// Writes the failure to the file that $TORCHELASTIC_ERROR_FILE names, in torchrun's JSON format, so that its summary shows the
/// error. Does nothing when the variable is not set; a file that cannot be written is reported on stderr only. Never throws.
void write_error_file(const FailureRecord& failure) noexcept;

/// The same for a rank that ends because of another one's failure: what this rank says, and that failure's error. torchrun
/// calls the earliest failure the root cause and dates ranks without a file by itself, to the second, so this one is dated
/// later. Does nothing in a rank that levin's launcher started: those share one file, which is the failed rank's.
void write_consequence_file(const std::string& consequence, const FailureRecord& cause) noexcept;

/// Gives the text to the sink of messages, or writes it to stderr in one write, as lines of its own.
void print_report(const std::string& text);

/// The line with which a failed run's error begins: "levin: rank 1 failed in …". Not where levin is embedded: what is thrown
/// there says the same.
void print_failure(const FailureRecord& failure) noexcept;

// Errors of a rank that only tell how it noticed another one's. They are thrown where that is known, so that nobody has to
// guess it from a text; users see them as DesyncError.

/// A wait has ended, since a failure of the run is written down; what() is that failure.
class RecordedFailure final : public DesyncError {
 public:
  using DesyncError::DesyncError;
};

/// A connection to other ranks was lost, or not made: the echo of another rank's end, or of a link between hosts.
class ConnectionLost final : public DesyncError {
 public:
  using DesyncError::DesyncError;
};

/// A rank's wait for others that has not ended.
struct RankWait {
  std::string what;  ///< "the gradient reduction", or a call of the control group
  double seconds = 0;
  bool in_reduction = false;  ///< which cannot be interrupted; other waits end by themselves
};

/// What ranks tell one another outside of any exchange: where each is, and that one has failed. Nothing here waits for another
/// rank. Threading: any thread may read; one thread of a rank writes.
class StatusBoard {
 public:
  virtual ~StatusBoard();

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Where this rank is. Costs nanoseconds: called at every hook.
  virtual void post_whereabouts(const Whereabouts& where) noexcept = 0;
  virtual Whereabouts own_whereabouts() const = 0;
  /// This rank begins to wait for the others in `what`; no longer when `what` is null.
  virtual void post_waiting(const char* what) noexcept = 0;
  /// This rank is inside an entry point: ending now is a failure, also with status 0.
  virtual void post_busy(bool busy) noexcept = 0;
  /// What this rank is going to say of its end, once it has cleaned up. Whoever ends it before that says it in its place.
  void keep_explanation(const std::string& text) {
    const std::lock_guard lock(mutex_);
    explanation_ = text;
  }
  std::optional<std::string> explanation() const {
    const std::lock_guard lock(mutex_);
    return explanation_;
  }
  /// This rank says itself, in one line, why it ends, and does so now: nobody else needs to.
  virtual void post_explained() noexcept { explained_ = true; }
  bool has_explained() const noexcept { return explained_; }
  /// This rank has failed with the very error of the rank that was first.
  virtual void post_failed_alike() noexcept {}
  /// This rank begins a gradient reduction, which ends only when all ranks have begun it. Ends are cheap and may repeat.
  virtual void begin_reduction() noexcept = 0;
  virtual void end_reduction() noexcept = 0;

  /// One line a rank: process, place, since when, what it waits in. Read while ranks run on.
  virtual std::string table() const = 0;
  /// True for one caller in `seconds`: several ranks notice a stall, one prints it.
  virtual bool claim_stall_report(double seconds) noexcept = 0;
  /// What this rank waits in for the others; nothing while it does not.
  virtual std::optional<RankWait> waiting() const = 0;

  /// A rank that is in a gradient reduction which this rank has not begun: that reduction cannot end while this rank waits for
  /// something else. What is told may be old by a moment, and is true all the same.
  virtual std::optional<int> rank_in_later_reduction() const = 0;

  /// A rank whose process has ended inside an entry point, as far as this can be seen from here.
  virtual std::optional<int> ended_rank() const = 0;

  /// Such a rank when the launcher, which should write it down, is stopped. Costs a look at one process.
  virtual std::optional<int> unattended_rank() const { return std::nullopt; }

  /// Ranks are on several hosts: one that is silent may have lost its link.
  virtual bool spans_hosts() const { return false; }

  /// The rank that keeps the others waiting, as far as this can be seen from here: one that is stopped, or else one that waits
  /// for nobody.
  virtual std::optional<int> stalled_rank() const = 0;

  /// Writes the failure down for all, and prints it before anybody can act on it; the first one stays. Where another rank was
  /// is known better here than by the caller. Never waits for another rank.
  virtual void report_failure(const FailureRecord& failure) noexcept = 0;
  virtual std::optional<FailureRecord> failure() const = 0;
  /// Writes down that a rank keeps this one waiting too long, with the table of where all are. `waited`: "waited 5 s in …".
  void report_stall(const std::string& waited) noexcept;
  /// Sleeps until there is a failure, or for `limit`.
  virtual void wait_for_failure(std::chrono::milliseconds limit) const = 0;

 private:
  std::atomic<bool> explained_{false};
  mutable std::mutex mutex_;
  std::optional<std::string> explanation_;
};

/// What to say when `rank` waits in `what` while `other` is in a gradient reduction at `place`.
std::string different_calls(int rank, const std::string& what, int other, const std::string& place);

/// How long ranks wait for one another.
struct Timeouts {
  double stall_report_seconds = 60;  ///< then the watch of one rank prints where all ranks are
  double timeout_seconds = 1800;     ///< then the run ends with that table as its error
};

/// A thread that ends this process when another rank has failed and this one does not notice by itself: inside a gradient
/// reduction, which cannot be interrupted, or in an endless loop of user code. Before that the rank gets a short grace, in
/// which its waits throw DesyncError and its own clean-up runs. It also prints where all ranks are when this one waits for
/// long, ends a gradient reduction that does not end, and reports, where the launcher is stopped, a rank whose process has
/// ended.
class FailureWatch {
 public:
  struct Settings {
    std::chrono::milliseconds grace{2000};      ///< after the failure of another rank
    std::chrono::milliseconds own_grace{4000};  ///< after this rank's own failure: it may be saving what it can
    Timeouts timeouts{};                        ///< the timeout is of gradient reductions; other waits have their own
    /// Takes the table of where all ranks are.
    std::function<void(const std::string& report)> print = print_report;
    /// Ends the process, and tells the reason, when there is one to tell.
    std::function<void(const std::string& reason)> end_process = [](const std::string& reason) {
      if (!reason.empty()) print_report(reason);
      _exit(1);
    };
  };

  FailureWatch(std::shared_ptr<StatusBoard> board, Settings settings);
  /// Stops watching.
  ~FailureWatch();

 private:
  void run();
  void check_wait();
  /// What is left to say before this process is ended because of another rank's failure.
  std::string last_word_on(const FailureRecord& failure);
  /// True when the watch was stopped meanwhile.
  bool stopped_within(std::chrono::milliseconds time);

  std::shared_ptr<StatusBoard> board_;
  Settings settings_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace levin
