#include "levin/cli/config/config_text.h"

#include "levin/cli/config/help_text.h"
#include "levin/cli/config/interpolation.h"
#include "levin/core/base/format.h"
#include "levin/core/config/masked_value.h"
#include "levin/core/config/to_yaml.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/version.h"

namespace levin::cli {

namespace fs = std::filesystem;

std::string printed_config(const Value& config) { return to_yaml(escaped(masked(config)), config_comments(config)); }

fs::path save_config(const Value& config, const fs::path& folder) {
  const fs::path file = folder / "config.yaml";
  write_file_with_backup(file, format("# levin {}\n{}", kVersion, to_yaml(escaped(masked(config)))),
                         [](int number) { return format("config_{}.yaml", number); });
  return file;
}

}  // namespace levin::cli
