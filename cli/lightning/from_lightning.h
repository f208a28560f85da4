#pragma once

#include <string>
#include <vector>

#include "levin/core/config/option_type.h"
#include "levin/core/config/value.h"

namespace levin::cli {

/// A file, or the value of a section, as levin's own are built, before it is merged with others:
/// - `dict_kwargs` of a class goes into its init_args;
/// - Hydra's `_target_` becomes class_path, with what is next to it under init_args; callbacks and loggers under names
/// become
///   lists, and a trainer that is named as a class is has its flags alone;
/// - a section that has the arguments of its class alone, as LightningCLI writes where it was made for one class, has them
///   under init_args, so that a class may be given elsewhere (--model=Net).
Value with_levin_shape(Value config);
/// The same of what is given for one key, such as `model`.
Value with_levin_shape(const std::string& key, Value value);

/// Translates Lightning's names and values into levin's, in a merged configuration:
/// - class paths become levin's names, DDPStrategy and the like too;
/// - arguments and flags that levin does not have are removed where they need nothing; else an error says what replaces them.
///   The result lists those of which no value has an effect here, with their positions;
/// - values become those that levin writes, as `timeout: '0:30:00'` of ddp; `monitor` of a scheduler goes next to its
///   class_path.
///
/// Wrong values go to `errors`, and are removed from the configuration.
std::vector<std::string> translate_lightning(Value& config, ErrorCollector& errors);

}  // namespace levin::cli
