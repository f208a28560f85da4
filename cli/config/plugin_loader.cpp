#include "levin/cli/config/plugin_loader.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <system_error>
#include <vector>

#include "levin/cli/config/class_catalog.h"
#include "levin/cli/config/installation.h"
#include "levin/cli/config/shell_words.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/core/files/descriptor.h"
#include "levin/core/headers_hash.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

std::size_t class_count() {
  std::size_t count = 0;
  for (const ClassKind& kind : class_catalog()) count += kind.classes().size();
  return count;
}

constexpr std::string_view kOwnStamp = LEVIN_STAMP(LEVIN_ABI_VERSION, LEVIN_HEADERS_HASH, LEVIN_TORCH_VERSION);
constexpr std::size_t kLongestStamp = 500;
/// Registry<…> as it stands in the names of a library's symbols.
constexpr std::string_view kRegistrySymbol = "5levin8RegistryI";

/// The compilers' number of the C++ ABI, whose thousands count: the rest are corrections of rare cases.
std::string_view generation(std::string_view number) { return number.substr(0, number.size() > 3 ? number.size() - 3 : 0); }

std::string misfit_of(std::string_view stamp) {
  std::vector<std::string> differences;
  const auto compare = [&](std::string_view what, std::string_view theirs, std::string_view ours) {
    if (theirs != ours) differences.push_back(format("{} {} instead of {}", what, theirs, ours));
  };
  compare("levin", stamp_field(stamp, "levin"), stamp_field(kOwnStamp, "levin"));
  if (differences.empty() && stamp_field(stamp, "headers") != stamp_field(kOwnStamp, "headers"))
    differences.push_back(format("other headers of levin {}", LEVIN_ABI_VERSION));
  // One that includes no header of LibTorch does not depend on its version.
  if (const std::string_view torch = stamp_field(stamp, "torch"); !torch.empty())
    compare("LibTorch", torch, stamp_field(kOwnStamp, "torch"));
  compare("_GLIBCXX_USE_CXX11_ABI", stamp_field(stamp, "cxx11_abi"), stamp_field(kOwnStamp, "cxx11_abi"));
  if (generation(stamp_field(stamp, "cxx_abi")) != generation(stamp_field(kOwnStamp, "cxx_abi")))
    compare("C++ ABI", stamp_field(stamp, "cxx_abi"), stamp_field(kOwnStamp, "cxx_abi"));
  if (differences.empty()) return "";
  return format(
      "was built with {} (by {}); rebuild it with the headers of this levin {}, LibTorch {} and a compiler compatible with {}",
      join(differences), stamp_field(stamp, "compiler"), LEVIN_ABI_VERSION, LEVIN_TORCH_VERSION, LEVIN_COMPILER);
}

/// What to type where a plug-in is built in a project that has not been built; "" where there is no such project.
std::string how_to_build(const Value& name, const fs::path& written) {
  std::error_code ignored;
  const fs::path project = fs::path(name.mark().file).parent_path();
  const bool is_of_project =
      written.is_relative() && written.has_parent_path() && fs::exists(project / "CMakeLists.txt", ignored);
  if (!is_of_project) return "";
  const std::string build = shell_quoted((project / written).parent_path().string());
  const std::string source = project.empty() ? "" : format(" -S {}", shell_quoted(project.string()));
  return format(". It is built with:\n\n  cmake{} -B {} -Dlevin_DIR={}\n  cmake --build {}\n", source, build,
                shell_quoted(cmake_folder().string()), build);
}

}  // namespace

std::string_view own_stamp() { return kOwnStamp; }

std::string_view stamp_field(std::string_view stamp, std::string_view name) {
  const std::string key = std::string(name) + "=";
  const std::size_t begin = stamp.find(key);
  if (begin == std::string_view::npos) return {};
  const std::string_view rest = stamp.substr(begin + key.size());
  return rest.substr(0, rest.find_first_of(";}"));
}

StampCheck check_stamps_in(std::string_view content) {
  StampCheck check;
  check.registers = content.find(kRegistrySymbol) != std::string_view::npos;
  for (std::size_t at = content.find(LEVIN_STAMP_BEGIN); at != std::string_view::npos && check.misfit.empty();
       at = content.find(LEVIN_STAMP_BEGIN, at + 1)) {
    const std::string_view rest = content.substr(at, kLongestStamp);
    const std::size_t end = rest.find('}');
    if (end == std::string_view::npos) continue;
    check.stamped = true;
    if (stamp_field(rest.substr(0, end + 1), "optimization") == "off") check.optimized = false;
    check.misfit = misfit_of(rest.substr(0, end + 1));
  }
  return check;
}

StampCheck check_stamps(const std::filesystem::path& file) {
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (::fstat(descriptor.number(), &status) != 0) return {};
  const auto size = static_cast<std::size_t>(status.st_size);
  void* const content = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.number(), 0);
  if (content == MAP_FAILED) return {};
  StampCheck check = check_stamps_in(std::string_view(static_cast<const char*>(content), size));
  ::munmap(content, size);
  return check;
}

fs::path find_plugin(const Value& name) {
  const fs::path written = OptionType<fs::path>::read(name);
  if (written.empty()) throw ConfigError(name.mark(), "the name of a plug-in is empty");
  std::vector<fs::path> candidates = {written};
  if (written.is_relative()) {
    // A configuration brings its own library; what lies in the folder where it is run may be anything.
    candidates.insert(candidates.begin(), fs::path(name.mark().file).parent_path() / written);
    candidates.push_back(plugin_folder() / written);
    if (!written.has_parent_path()) candidates.push_back(plugin_folder() / format("lib{}.so", written));
  }
  std::vector<std::string> tried;
  for (const fs::path& candidate : candidates) {
    std::error_code ignored;
    const fs::path absolute = fs::absolute(candidate).lexically_normal();
    if (fs::is_regular_file(absolute, ignored)) return absolute;
    if (std::find(tried.begin(), tried.end(), absolute) == tried.end()) tried.push_back(absolute);
  }
  throw ConfigError(name.mark(), format("there is no plug-in '{}': looked for {}{}", written, quoted_list(tried),
                                        how_to_build(name, written)));
}

void load_plugin(const fs::path& file, const Mark& mark) {
  static std::set<fs::path> loaded;
  // Held for the whole of a loading: what it registers, and its errors, are then of this plug-in.
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  std::error_code ignored;
  const fs::path canonical = fs::canonical(file, ignored);
  if (loaded.contains(canonical)) return;
  const auto refuse = [&](const std::string& why) { throw ConfigError(mark, format("the plug-in '{}' {}", file, why)); };
  const StampCheck stamp = check_stamps(file);
  if (!stamp.misfit.empty()) refuse(stamp.misfit);
  if (stamp.registers && !stamp.stamped)
    refuse("has no stamp of the levin that it was built for; rebuild it with the headers of this levin");
  const std::size_t before = class_count();
  if (::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    const char* reason = ::dlerror();
    throw ConfigError(mark, format("cannot load the plug-in '{}': {}", file, reason != nullptr ? reason : "unknown reason"));
  }
  // Errors are stored while libraries load.
  if (const std::vector<std::string> errors = detail::take_registration_errors(); !errors.empty())
    throw ConfigError(mark, format("the plug-in '{}': {}", file, join(errors, "; ")));
  if (stamp.stamped && class_count() == before)
    refuse("registers no class; it must use LEVIN_REGISTER_MODULE or a similar macro, and link with this levin");
  loaded.insert(canonical);
}

}  // namespace levin::cli

namespace levin {

void load_plugin(const std::filesystem::path& file) { cli::load_plugin(cli::find_plugin(Value(file.string())), Mark{}); }

}  // namespace levin
