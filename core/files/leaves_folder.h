#pragma once

#include <algorithm>
#include <filesystem>

namespace levin {

/// True for a name that, below a folder, may stand for something outside of it: it is absolute, or has "..".
inline bool leaves_folder(const std::filesystem::path& name) {
  return name.is_absolute() || std::find(name.begin(), name.end(), "..") != name.end();
}

}  // namespace levin
