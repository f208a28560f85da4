#include "levin/cli/config_file.h"

#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#include "levin/cli/annotated_yaml.h"
#include "levin/cli/help_text.h"
#include "levin/cli/interpolation.h"
#include "levin/cli/version.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/yaml/to_yaml.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

std::string present_content(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream content;
  content << stream.rdbuf();
  return content.str();
}

[[noreturn]] void throw_not_written(const fs::path& file, const std::string& reason) {
  throw IoError(format("cannot write '{}': {}", file, reason));
}

/// Keeps the configuration of an earlier run as config_1.yaml, config_2.yaml, …, the highest number the latest.
void set_aside(const fs::path& file) {
  for (int number = 1;; ++number) {
    const fs::path aside = file.parent_path() / format("config_{}.yaml", number);
    if (fs::exists(fs::symlink_status(aside))) continue;
    std::error_code error;
    fs::rename(file, aside, error);
    if (error) throw_not_written(aside, error.message());
    return;
  }
}

}  // namespace

std::string printed_config(const Value& config) { return annotated_yaml(escaped(config), config_comments(config)); }

fs::path save_config(const Value& config, const fs::path& folder) {
  const std::string text = format("# {}\n{}", version_text(), to_yaml(escaped(config)));
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw_not_written(folder, error.message());
  const fs::path file = folder / "config.yaml";
  if (fs::exists(file, error)) {
    if (present_content(file) == text) return file;
    set_aside(file);
  }
  AtomicFile output(file);
  output.write(text);
  output.commit();
  return file;
}

}  // namespace levin::cli
