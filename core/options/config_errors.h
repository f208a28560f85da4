#pragma once

#include <functional>
#include <vector>

#include "levin/core/error.h"

namespace levin {

/// Several wrong things in one configuration, reported together; what() has a line for each.
class ConfigErrors final : public ConfigError {
 public:
  /// `errors` has at least one; those that are ConfigErrors themselves are not taken apart.
  explicit ConfigErrors(std::vector<ConfigError> errors);
  ~ConfigErrors() override;
  const std::vector<ConfigError>& errors() const { return errors_; }

 private:
  std::vector<ConfigError> errors_;
};

/// The single errors that an error consists of: those of a ConfigErrors, else the error itself.
std::vector<ConfigError> single_errors(const ConfigError& error);

/// Gathers the errors of independent steps, so that a user sees all of them at once.
class ErrorCollector {
 public:
  /// Runs a step; a ConfigError from it is kept.
  void run(const std::function<void()>& step);
  void add(const ConfigError& error);
  /// Throws what was kept: the error itself when it is one, ConfigErrors when they are several.
  void throw_if_any() const;

 private:
  std::vector<ConfigError> errors_;
};

}  // namespace levin
