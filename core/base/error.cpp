#include "levin/core/base/error.h"

#include <cstring>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {

std::string Mark::str() const {
  if (line <= 0) return file;
  return column > 0 ? format("{}:{}:{}", file, line, column) : format("{}:{}", file, line);
}

ConfigError::ConfigError(const Mark& mark, const std::string& message)
    : Error(mark.str().empty() ? message : format("{}: {}", mark.str(), message), 2), mark_(mark), message_(message) {}

ConfigErrors::ConfigErrors(std::vector<ConfigError> errors)
    : ConfigError(join(errors, "\n", &ConfigError::what)), errors_(std::move(errors)) {}

std::vector<ConfigError> single_errors(const ConfigError& error) {
  if (const auto* several = dynamic_cast<const ConfigErrors*>(&error)) return several->errors();
  return {error};
}

Interrupted::Interrupted(int signal, const std::string& where)
    : Error(format("Stopped by signal {} ({}) {}.", signal, strsignal(signal), where), 128 + signal), signal_(signal) {}

void Error::set_place(const std::string& place) {
  if (!located_) located_ = std::make_shared<const std::string>(format("{}: {}", place, std::runtime_error::what()));
}

Error::~Error() = default;
ConfigError::~ConfigError() = default;
ConfigErrors::~ConfigErrors() = default;
MisuseError::~MisuseError() = default;
DesyncError::~DesyncError() = default;
IoError::~IoError() = default;
Interrupted::~Interrupted() = default;

}  // namespace levin
