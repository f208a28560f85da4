#pragma once

#include <string>

#include "levin/core/base/error.h"
#include "levin/core/base/hook.h"

namespace levin {

/// Why a run failed: which rank, where it was, and its error.
struct FailureRecord {
  int rank = 0;
  Whereabouts where;
  std::string error;
  /// A restart would fail again: the configuration or the program is wrong.
  bool is_final = false;
  /// Its process has ended, and others have noticed: it reports nothing itself.
  bool is_lost = false;

  /// "rank 1 failed in training_step (train, epoch 0, step 3)"
  std::string place() const;
  /// The same with the error: "rank 1 failed in training_step (train, epoch 0, step 3): <error>"
  std::string str() const;
};

/// The position of a rank before its first hook.
inline constexpr Whereabouts kBeforeFirstHook{Stage::kTrain, Hook::kNone, -1, -1};

/// The line of a rank that ends because of another one's failure.
std::string consequence(int rank, const Whereabouts& where, const FailureRecord& cause);

/// Writes the failure to the file that $TORCHELASTIC_ERROR_FILE names, in torchrun's JSON format, so that its summary shows the
/// error. Does nothing when the variable is not set; a file that cannot be written is reported on stderr only. Never throws.
void write_error_file(const FailureRecord& failure) noexcept;

/// The same for a rank that ends because of another one's failure: this rank's line, and that failure's error. torchrun calls
/// the earliest failure the root cause and dates ranks without a file by itself, to the second, so this one is dated later.
/// Does nothing in a rank that levin's launcher started: those share one file, which is the failed rank's.
void write_consequence_file(const std::string& consequence, const FailureRecord& cause) noexcept;

/// Passes the text to the message sink, or writes it to stderr in one write, as separate lines.
void print_report(const std::string& text);

/// The line with which a failed run's error begins: "levin: rank 1 failed in …". Not where levin is embedded: there the
/// exception says the same.
void print_failure(const FailureRecord& failure) noexcept;

// Errors of a rank that only report how it noticed another rank's. They are thrown where that is known, so that no code guesses
// it from a text; users see them as DesyncError.

/// A wait has ended, because a failure of the run is recorded; what() is that failure.
class RecordedFailure final : public DesyncError {
 public:
  using DesyncError::DesyncError;
};

/// A connection to other ranks was lost, or not made: the echo of another rank's end, or of a link between hosts.
class ConnectionLost final : public DesyncError {
 public:
  using DesyncError::DesyncError;
};

}  // namespace levin
