#include "levin/core/options/config_errors.h"

#include "levin/core/base/join.h"
#include "levin/core/options/error_limit.h"

namespace levin {

ConfigErrors::ConfigErrors(std::vector<ConfigError> errors)
    : ConfigError(join(errors, "\n", &ConfigError::what)), errors_(std::move(errors)) {}

ConfigErrors::~ConfigErrors() = default;

std::vector<ConfigError> single_errors(const ConfigError& error) {
  if (const auto* several = dynamic_cast<const ConfigErrors*>(&error)) return several->errors();
  return {error};
}

void ErrorCollector::run(const std::function<void()>& step) {
  if (errors_.size() >= kMostConfigErrors) return;
  try {
    step();
  } catch (const ConfigError& error) {
    add(error);
  }
}

void ErrorCollector::add(const ConfigError& error) {
  for (ConfigError& single : single_errors(error)) {
    if (errors_.size() < kMostConfigErrors) errors_.push_back(std::move(single));
  }
}

void ErrorCollector::throw_if_any() const {
  if (errors_.size() == 1) throw errors_.front();
  if (!errors_.empty()) throw ConfigErrors(errors_);
}

}  // namespace levin
