#include "levin/core/files/column_file.h"

#include <algorithm>

#include "levin/core/base/text.h"
#include "levin/core/files/paths.h"

namespace levin {
namespace {

std::vector<const ColumnFormat*>& registered_formats() {
  static std::vector<const ColumnFormat*> formats;
  return formats;
}

}  // namespace

void register_column_format(const ColumnFormat& format) { registered_formats().push_back(&format); }

const ColumnFormat* column_format_of(const std::filesystem::path& file) {
  const std::string name = lowercase(without_query(file).filename().string());
  for (const ColumnFormat* format : registered_formats()) {
    const auto ends_so = [&](const std::string& ending) { return name.ends_with(ending); };
    if (std::any_of(format->endings().begin(), format->endings().end(), ends_so)) return format;
  }
  return nullptr;
}

std::vector<std::string> column_file_endings() {
  std::vector<std::string> all;
  for (const ColumnFormat* format : registered_formats())
    all.insert(all.end(), format->endings().begin(), format->endings().end());
  return all;
}

}  // namespace levin
