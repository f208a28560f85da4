#include "levin/core/logger.h"

namespace levin {

Logger::~Logger() = default;

Loggers OptionType<Loggers>::read(const Value& value) {
  if (value.is_bool()) return Loggers(value.as_bool());
  if (value.is_list()) {
    std::vector<Component<Logger>> list = OptionType<std::vector<Component<Logger>>>::read(value);
    return list.empty() ? Loggers(false) : Loggers(std::move(list));
  }
  return Loggers(OptionType<Component<Logger>>::read(value));
}

Value OptionType<Loggers>::write(const Loggers& loggers) {
  if (!loggers.enabled()) return false;
  if (loggers.is_default()) return loggers.is_asked_for() ? Value(true) : Value();
  if (loggers.list().size() == 1) return OptionType<Component<Logger>>::write(loggers.list().front());
  return OptionType<std::vector<Component<Logger>>>::write(loggers.list());
}

Value OptionType<Loggers>::schema() {
  const Value one = OptionType<Component<Logger>>::schema();
  Value list = detail::schema_of_type("array");
  list["items"] = one;
  return detail::any_of({detail::schema_of_type("boolean"), one, list});
}

std::vector<std::filesystem::path> Logger::earlier_runs(const RunInfo&) const {
  const std::filesystem::path folder = log_dir();
  return folder.empty() ? std::vector<std::filesystem::path>() : std::vector{folder};
}

}  // namespace levin
