#include "levin/cli/config_file.h"

#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#include "levin/cli/version.h"
#include "levin/core/base/format.h"
#include "levin/core/error.h"
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

}  // namespace

fs::path save_config(const Value& config, const fs::path& folder) {
  const std::string text = format("# {}\n{}", version_text(), to_yaml(config));
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw_not_written(folder, error.message());
  for (int number = 0;; ++number) {
    const fs::path file = folder / (number == 0 ? "config.yaml" : format("config_{}.yaml", number));
    if (!fs::exists(file, error)) {
      AtomicFile output(file);
      output.write(text);
      output.commit();
      return file;
    }
    if (present_content(file) == text) return file;
  }
}

}  // namespace levin::cli
