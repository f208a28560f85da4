#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"

namespace levin {

/// A position in a user's text: a YAML file, or the command line. Lines and columns count from 1; 0 means unknown.
struct LEVIN_API Mark {
  std::string file;
  int line = 0;
  int column = 0;

  /// "run.yaml:3:7", "run.yaml", or "" when nothing is known.
  std::string str() const;
};

/// The position of a call in the user's code: std::source_location, which clang 14 lacks. As a default argument,
/// `SourceLocation where = SourceLocation::current()`, it is the call's line.
class LEVIN_API SourceLocation {
 public:
  static constexpr SourceLocation current(const char* file = __builtin_FILE(), std::uint32_t line = __builtin_LINE()) {
    return SourceLocation(file, line);
  }
  constexpr const char* file_name() const { return file_; }
  constexpr std::uint32_t line() const { return line_; }

 private:
  constexpr SourceLocation(const char* file, std::uint32_t line) : file_(file), line_(line) {}

  const char* file_;
  std::uint32_t line_;
};

/// Base of every exception that levin throws on purpose. what() says what went wrong, where, and what to do. Entry points such
/// as fit() put where the run was before it, unless the error names its own position: "failed in training_step (train, epoch 0,
/// step 3): …", with several ranks "rank 1 failed in …".
class LEVIN_API Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, int exit_code = 1) : std::runtime_error(message), exit_code_(exit_code) {}
  Error(const Error&) = default;
  Error& operator=(const Error&) = default;
  ~Error() override;
  const char* what() const noexcept override { return located_ ? located_->c_str() : std::runtime_error::what(); }
  /// Puts `place` before what() says, once.
  void set_place(const std::string& place);
  /// The exit status of a program that does not catch the error.
  int exit_code() const { return exit_code_; }
  /// True: every rank throws this error here, from values that all share. Then fit() on each rank ends with it, not with a
  /// DesyncError about the first. See of_all_ranks().
  bool is_of_all_ranks() const { return is_of_all_ranks_; }
  void set_of_all_ranks() { is_of_all_ranks_ = true; }

 private:
  int exit_code_;
  bool is_of_all_ranks_ = false;
  std::shared_ptr<const std::string> located_;  ///< what() with its place
};

/// The user's configuration is wrong: YAML, command line, options, environment variables. Exit code 2.
class LEVIN_API ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& message) : ConfigError(Mark{}, message) {}
  ConfigError(const Mark& mark, const std::string& message);
  ~ConfigError() override;
  /// The position of the wrong text; empty: unknown. what() begins with it.
  const Mark& mark() const { return mark_; }
  /// what() without the mark.
  const std::string& message() const { return message_; }

 private:
  Mark mark_;
  std::string message_;
};

/// Marks an error for `throw` that all ranks have derived from shared values: Error::is_of_all_ranks().
template <class AnyError>
AnyError of_all_ranks(AnyError error) {
  error.set_of_all_ranks();
  return error;
}

/// Several errors in one configuration, reported together; what() has a line for each.
class LEVIN_API ConfigErrors final : public ConfigError {
 public:
  /// `errors` has at least one; elements that are ConfigErrors themselves are not split.
  explicit ConfigErrors(std::vector<ConfigError> errors);
  ~ConfigErrors() override;
  const std::vector<ConfigError>& errors() const { return errors_; }

 private:
  std::vector<ConfigError> errors_;
};

/// The errors in a ConfigErrors; else the error itself.
LEVIN_API std::vector<ConfigError> single_errors(const ConfigError& error);

/// The user's code calls levin wrongly, such as log() in a hook that does not permit it.
class LEVIN_API MisuseError : public Error {
 public:
  using Error::Error;
  ~MisuseError() override;
};

/// Ranks are out of step: they reached different boundaries or calls, or one of them is gone.
class LEVIN_API DesyncError : public Error {
 public:
  using Error::Error;
  ~DesyncError() override;
};

/// A file could not be read or written, or is damaged.
class LEVIN_API IoError : public Error {
 public:
  using Error::Error;
  ~IoError() override;
};

/// A signal ended the run, at the same step on all ranks. Exit code 128 + signal.
class LEVIN_API Interrupted : public Error {
 public:
  explicit Interrupted(int signal, const std::string& where);
  ~Interrupted() override;
  int signal() const { return signal_; }

 private:
  int signal_;
};

}  // namespace levin
