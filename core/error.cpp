#include "levin/core/error.h"

#include "levin/core/base/format.h"

namespace levin {

std::string Mark::str() const {
  if (line <= 0) return file;
  return column > 0 ? format("{}:{}:{}", file, line, column) : format("{}:{}", file, line);
}

namespace {
std::string with_mark(const Mark& mark, const std::string& message) {
  const std::string place = mark.str();
  return place.empty() ? message : place + ": " + message;
}
}  // namespace

ConfigError::ConfigError(const Mark& mark, const std::string& message)
    : Error(with_mark(mark, message), 2), mark_(mark), message_(message) {}

Error::~Error() = default;
ConfigError::~ConfigError() = default;
MisuseError::~MisuseError() = default;
DesyncError::~DesyncError() = default;
IoError::~IoError() = default;

}  // namespace levin
