#pragma once

#include <filesystem>

#include "levin/core/options/value.h"

namespace levin::cli {

/// The file that a plug-in's name stands for: tried beside the YAML file that names it, as written, and in
/// `../lib/levin/plugins` of the program's folder; there "digits" also stands for "libdigits.so".
/// Throws ConfigError with the value's mark and the places looked at when there is none.
std::filesystem::path find_plugin(const Value& name);

/// Loads a plug-in, whose classes register themselves; a second time does nothing. It stays loaded until the program ends.
/// A library that has nothing to do with levin, such as one of operators of LibTorch, may be one too.
/// Throws ConfigError with `mark` when it was built for another levin or LibTorch (none of its code has run then), is no
/// library, misses symbols, registers a name that is taken, or was compiled with levin's headers and registers nothing.
/// Threading: from one thread.
void load_plugin(const std::filesystem::path& file, const Mark& mark);

}  // namespace levin::cli
