#pragma once

#include "levin/core/base/error.h"
#include "levin/core/config/option_type.h"
#include "levin/core/config/value.h"

namespace levin::cli {

/// The configuration with `${key}` for each option of a class that is not given and is linked to that key
/// (OptionList::Builder::linked_to), where the key leads somewhere.
Value with_links(const Value& config);

/// `value` with every `${…}` in its texts replaced:
/// - `${data.batch_size}`: the value at that key of `config`, given or the option's default; a whole list or map, too, where
///   the text is nothing else;
/// - `${env:NAME}`, `${env:NAME,default}` (or `oc.env:`, as in OmegaConf): an environment variable, read as YAML.
///
/// Within a longer text the value's text is put in. `\${` stands for the characters `${`. Throws ConfigError at the text's
/// place for a key that leads nowhere, a variable that is not set and has no default, keys that refer to one another in a
/// circle, and for what unfolds to more than ConfigSize permits. With `errors` each is added there, and null replaces it.
Value interpolated(const Value& value, const Value& config, ErrorCollector* errors = nullptr);

/// `value` with a backslash before each `${` in its texts, so that interpolated() gives back `value`: for what is written.
Value escaped(Value value);

}  // namespace levin::cli
