#pragma once

#include <string>

#include "levin/core/options/value.h"

namespace levin::cli {

/// What a key of a configuration stands for, written as an override writes it ("model.lr", "trainer.callbacks.0.patience"):
/// what is given, else the option's default. Throws ConfigError with `mark` when the key leads nowhere, or to an option without
/// a default that is not given.
Value value_at(const Value& config, const std::string& key, const Mark& mark);

/// The configuration with `${key}` in place of each option of a class that is not given and is linked to that key
/// (OptionList::Builder::linked_to), where the key leads somewhere.
Value with_links(const Value& config);

}  // namespace levin::cli
