#pragma once

#include <string_view>
#include <vector>

namespace levin::cli {

/// A file of a project's template. Its text has @NAME@ and @CLASS@ for what the user's own is called, and @LEVIN@ and
/// @LEVIN_DIR@ for where levin is.
struct TemplateFile {
  std::string_view project;  ///< the template: the folder below cli/templates; empty: each of them has it
  std::string_view name;
  std::string_view text;
};

/// What stands below cli/templates, compiled in.
const std::vector<TemplateFile>& template_files();

}  // namespace levin::cli
