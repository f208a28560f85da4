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

/// Puts what Lightning says otherwise into levin's words, in a configuration that has been merged:
/// - class paths become levin's names, DDPStrategy and the like too;
/// - arguments and flags that levin does not have are taken out where they ask for nothing; where they do, an error says what
///   has their place. Those of which no value has an effect here are named in what is given back, with their places;
/// - values become those that levin writes, as `timeout: '0:30:00'` of ddp; `monitor` of a scheduler goes next to its
///   class_path.
///
/// What was wrong goes to `errors`, and out of the configuration.
std::vector<std::string> translate_lightning(Value& config, ErrorCollector& errors);

}  // namespace levin::cli
