#pragma once

#include <string_view>
#include <vector>

namespace levin::cli {

/// A file of a project's template. In its text @NAME@ and @CLASS@ are the user's, @LEVIN@ and @LEVIN_DIR@ where levin is.
struct TemplateFile {
  std::string_view project;  ///< the template: the folder below cli/templates; empty: each of them has it
  std::string_view name;
  std::string_view text;
};

/// What stands below cli/templates, compiled in.
const std::vector<TemplateFile>& template_files();

}  // namespace levin::cli
