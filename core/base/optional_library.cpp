#include "levin/core/base/optional_library.h"

#include <dlfcn.h>

#include <filesystem>
#include <map>
#include <mutex>

#include "levin/core/base/format.h"

namespace levin {

struct OptionalLibrary::Loaded {
  void* entry = nullptr;
  std::string problem;
};

OptionalLibrary::OptionalLibrary(const Description& description) : description_(description) { made().push_back(this); }

std::vector<const OptionalLibrary*>& OptionalLibrary::made() {
  static std::vector<const OptionalLibrary*> libraries;
  return libraries;
}

const OptionalLibrary::Loaded& OptionalLibrary::loaded() const {
  static std::mutex mutex;
  static std::map<const OptionalLibrary*, Loaded> libraries;
  const std::lock_guard lock(mutex);
  const auto [place, is_new] = libraries.try_emplace(this);
  Loaded& loaded = place->second;
  if (!is_new) return loaded;
  const auto [file, entry, title, contents, build_packages, run_packages, installer] = description_;
  const std::string path = path_beside(reinterpret_cast<const void*>(&path_beside), file);
  if (!std::filesystem::exists(path)) {
    loaded.problem = format("this levin was built without {} ({} is missing): {} {}, and build levin again", title, file,
                            installer, build_packages);
    return loaded;
  }
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    loaded.problem = format("{} cannot be loaded: {}: {} {}", title, dlerror(), installer, run_packages);
    return loaded;
  }
  loaded.entry = dlsym(library, entry);
  if (loaded.entry == nullptr) loaded.problem = path + " is not the library of this levin: install levin again";
  return loaded;
}

void* OptionalLibrary::address() const {
  const Loaded& library = loaded();
  if (library.entry == nullptr) throw ConfigError(library.problem);
  return library.entry;
}

std::string OptionalLibrary::problem() const { return loaded().problem; }

std::string path_beside(const void* code, const char* file) {
  Dl_info info{};
  if (dladdr(code, &info) == 0 || info.dli_fname == nullptr) return file;
  return (std::filesystem::path(info.dli_fname).parent_path() / file).string();
}

}  // namespace levin
