#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace levin::cli {

/// What the stamps in a library's file (core/plugin_stamp.h) say of it. The file is only read; none of its code runs.
struct StampCheck {
  bool optimized = true;   ///< false: a part of it was compiled without optimization
  bool stamped = false;    ///< it was compiled with levin's headers
  bool registers = false;  ///< it asks for levin's registries; without a stamp: those of a levin from before stamps
  std::string misfit;      ///< empty: it fits this levin; else what differs, and what to rebuild it with
};

/// Compares levin's ABI version, LibTorch's version and the ABI of the standard library with those of this levin. A library of
/// another compiler fits when these are equal. A file that cannot be read has no stamp.
StampCheck check_stamps(const std::filesystem::path& file);

/// The same for the content of a file.
StampCheck check_stamps_in(std::string_view content);

}  // namespace levin::cli
