#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/files/paths.h"

namespace levin {

/// "; did you mean 'data/digits.csv'?" for a missing file whose folder has one with a similar name; else "".
inline std::string file_meant(const std::filesystem::path& missing) {
  constexpr std::size_t kMost = 1000;
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder_of(missing), error), end;
       !error && entry != end && names.size() < kMost; entry.increment(error))
    names.push_back(entry->path().filename().string());
  const std::string nearest = nearest_name(missing.filename().string(), names);
  return nearest.empty() ? "" : format("; did you mean {}?", quoted_text((missing.parent_path() / nearest).string()));
}

}  // namespace levin
