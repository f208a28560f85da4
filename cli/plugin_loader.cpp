#include "levin/cli/plugin_loader.h"

#include <dlfcn.h>

#include <algorithm>
#include <set>
#include <system_error>

#include "levin/cli/class_catalog.h"
#include "levin/cli/plugin_stamp_check.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

fs::path installed_plugins() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  return program.parent_path().parent_path() / "lib/levin/plugins";
}

std::size_t class_count() {
  std::size_t count = 0;
  for (const ClassKind& kind : class_catalog()) count += kind.classes.size();
  return count;
}

// Registration errors are kept aside while libraries load; they are the plug-in's fault when they appear with it.
std::string registration_errors() { return join(detail::take_registration_errors(), "; "); }

}  // namespace

fs::path find_plugin(const Value& name) {
  const fs::path written = OptionType<fs::path>::read(name);
  if (written.empty()) throw ConfigError(name.mark(), "the name of a plug-in is empty");
  std::vector<fs::path> candidates = {written};
  if (written.is_relative()) {
    // A configuration brings its own library; what lies in the folder where it is run may be anything.
    candidates.insert(candidates.begin(), fs::path(name.mark().file).parent_path() / written);
    candidates.push_back(installed_plugins() / written);
    if (!written.has_parent_path()) candidates.push_back(installed_plugins() / format("lib{}.so", written));
  }
  std::vector<std::string> tried;
  for (const fs::path& candidate : candidates) {
    std::error_code ignored;
    const fs::path absolute = fs::absolute(candidate).lexically_normal();
    if (fs::is_regular_file(absolute, ignored)) return absolute;
    if (std::find(tried.begin(), tried.end(), absolute) == tried.end()) tried.push_back(absolute);
  }
  throw ConfigError(name.mark(), format("there is no plug-in '{}': looked for {}", written, quoted_list(tried)));
}

void load_plugin(const fs::path& file, const Mark& mark) {
  static std::set<fs::path> loaded;
  std::error_code ignored;
  const fs::path canonical = fs::canonical(file, ignored);
  if (loaded.contains(canonical)) return;
  const StampCheck stamp = check_stamps(file);
  if (!stamp.misfit.empty()) throw ConfigError(mark, "the plug-in '" + file.string() + "' " + stamp.misfit);
  if (stamp.registers && !stamp.stamped)
    throw ConfigError(mark, format("the plug-in '{}' does not say which levin it was built for; rebuild it with the headers of "
                                   "this levin",
                                   file));
  const std::size_t before = class_count();
  if (::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    const char* reason = ::dlerror();
    throw ConfigError(mark, format("cannot load the plug-in '{}': {}", file, reason != nullptr ? reason : "unknown reason"));
  }
  if (const std::string errors = registration_errors(); !errors.empty())
    throw ConfigError(mark, format("the plug-in '{}': {}", file, errors));
  if (stamp.stamped && class_count() == before)
    throw ConfigError(mark, format("the plug-in '{}' registers no class; it needs LEVIN_REGISTER_MODULE or its like, and to be "
                                   "linked with this levin",
                                   file));
  loaded.insert(canonical);
}

}  // namespace levin::cli
