#include "levin/core/error.h"

#include <cstring>

namespace levin {

std::string Mark::str() const {
  if (line <= 0) return file;
  std::string text = file + ":" + std::to_string(line);
  if (column > 0) text += ":" + std::to_string(column);
  return text;
}

namespace {
std::string with_mark(const Mark& mark, const std::string& message) {
  const std::string place = mark.str();
  return place.empty() ? message : place + ": " + message;
}

std::string joined(const std::vector<ConfigError>& errors) {
  std::string text;
  for (const ConfigError& error : errors) text += (text.empty() ? "" : "\n") + std::string(error.what());
  return text;
}
}  // namespace

ConfigError::ConfigError(const Mark& mark, const std::string& message)
    : Error(with_mark(mark, message), 2), mark_(mark), message_(message) {}

ConfigErrors::ConfigErrors(std::vector<ConfigError> errors) : ConfigError(joined(errors)), errors_(std::move(errors)) {}

std::vector<ConfigError> single_errors(const ConfigError& error) {
  if (const auto* several = dynamic_cast<const ConfigErrors*>(&error)) return several->errors();
  return {error};
}

Interrupted::Interrupted(int signal, const std::string& where)
    : Error(std::string("Stopped by signal ") + std::to_string(signal) + " (" + strsignal(signal) + ") " + where + ".",
            128 + signal),
      signal_(signal) {}

Error::~Error() = default;
ConfigError::~ConfigError() = default;
ConfigErrors::~ConfigErrors() = default;
MisuseError::~MisuseError() = default;
DesyncError::~DesyncError() = default;
IoError::~IoError() = default;
Interrupted::~Interrupted() = default;

}  // namespace levin
