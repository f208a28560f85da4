#include "levin/cli/commands/manual_files.h"

#include <cstddef>

#include "levin/cli/embedded_file.h"
#include "levin/core/base/text.h"

namespace levin::cli {
namespace {

/// The variables, a line each, and the page, without what is declared in C++.
constexpr EmbeddedFile kPages[] = {
#include "manual_page.inc"
};

}  // namespace

std::string_view manual_file(std::string_view name) { return embedded_text(kPages, name); }

std::vector<std::pair<std::string, std::string>> environment_variables() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (const std::string& line : split(manual_file("environment.txt"), "\n")) {
    const std::size_t blank = line.find(' ');
    if (blank != std::string::npos) variables.emplace_back(line.substr(0, blank), line.substr(blank + 1));
  }
  return variables;
}

}  // namespace levin::cli
