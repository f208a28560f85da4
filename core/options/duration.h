#pragma once

#include <string>

#include "levin/core/options/options.h"

namespace levin::detail {

/// Seconds of a duration written as "DD:HH:MM:SS". Throws ConfigError, naming `option`, on anything else.
double parse_duration(const std::string& text, const std::string& option);

/// JSON Schema of a duration.
Value duration_schema();

/// Throws ConfigError with the value's mark when it is neither a duration nor null.
void check_duration(const Value& value);

/// Makes the option that was added last, a text or null, a duration: checked when it is read, not only when somebody parses it,
/// and described so in the schema.
template <class T>
void last_is_duration(OptionList<T>& options) {
  typename OptionList<T>::Entry& entry = *options.entries().back();
  entry.info.schema = any_of({duration_schema(), schema_of_type("null")});
  entry.read = [&info = entry.info, read = entry.read](T& target, const Value& value) {
    read_option(info, value, check_duration);
    read(target, value);
  };
}

}  // namespace levin::detail
