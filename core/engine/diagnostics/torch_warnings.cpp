#include "levin/core/engine/diagnostics/torch_warnings.h"

#include <filesystem>

#include "levin/core/base/format.h"
#include "levin/core/console/console.h"
#include "levin/core/engine/diagnostics/torch_error_hints.h"

namespace levin {

void TorchWarnings::process(const c10::Warning& warning) {
  const c10::SourceLocation& place = warning.source_location();
  const std::string file = std::filesystem::path(place.file).filename().string();
  const std::string hint = hint_for_torch_warning(warning.msg());
  Console::instance().warn_once(format("{} (LibTorch, {}:{}){}", warning.msg(), file, place.line, hint));
}

}  // namespace levin
