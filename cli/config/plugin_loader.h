#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "levin/core/config/value.h"

namespace levin::cli {

/// This levin's own stamp, and what a stamp says under a name: "2.13.0" of "…;torch=2.13.0;…". See core/config/registry.h.
std::string_view own_stamp();
std::string_view stamp_field(std::string_view stamp, std::string_view name);

/// What the stamps in a library's file (core/config/registry.h) say of it. The file is only read; none of its code runs.
struct StampCheck {
  bool optimized = true;   ///< false: a part of it was compiled without optimization
  bool stamped = false;    ///< it was compiled with levin's headers
  bool registers = false;  ///< it uses levin's registries; without a stamp: those of a levin from before stamps
  std::string misfit;      ///< empty: it fits this levin; else what differs, and what to rebuild it with
};

/// Compares levin's ABI version, LibTorch's version and the ABI of the standard library with those of this levin. A library of
/// another compiler fits when these are equal. A file that cannot be read has no stamp.
StampCheck check_stamps(const std::filesystem::path& file);

/// The same for the content of a file.
StampCheck check_stamps_in(std::string_view content);

/// The file that a plug-in's name stands for: tried next to the YAML file that names it, as written, and in
/// `../lib/levin/plugins` of the program's folder; there "digits" also stands for "libdigits.so".
/// Throws ConfigError with the value's mark and the files that were tried when there is none.
std::filesystem::path find_plugin(const Value& name);

/// Loads a plug-in, whose classes register themselves; a second time does nothing. It stays loaded until the program ends.
/// A library that has nothing to do with levin, such as one of operators of LibTorch, may be one too.
/// Throws ConfigError with `mark` when it was built for another levin or LibTorch (none of its code has run then), is no
/// library, misses symbols, registers a name that is taken, or has levin's headers and registers nothing. Threading: one
/// thread.
void load_plugin(const std::filesystem::path& file, const Mark& mark);

}  // namespace levin::cli
