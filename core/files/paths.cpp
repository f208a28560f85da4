#include "levin/core/files/paths.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <random>
#include <regex>

#include "levin/core/base/format.h"
#include "levin/core/base/process.h"

namespace levin {

std::string temporary_host() {
  constexpr std::size_t kMaxHost = 64;
  std::string host = host_name().substr(0, kMaxHost);
  const auto is_other = [](unsigned char character) { return std::isalnum(character) == 0 && character != '-'; };
  std::replace_if(host.begin(), host.end(), is_other, '_');
  return host;
}

// Not derived from the file's own name, which may be as long as a name can be.
std::filesystem::path temporary_in(const std::filesystem::path& folder) {
  std::random_device random;
  return folder / format(".levin-{}-{}-{}.tmp", getpid(), random(), temporary_host());
}

std::optional<std::string> host_of_temporary(const std::string& name) {
  // Never destroyed: files may be written when static objects have gone.
  static const auto& form = *new std::regex(R"(\.levin-\d+-\d+(?:-(.*))?\.tmp)");
  std::smatch parts;
  return std::regex_match(name, parts, form) ? std::optional(parts[1].str()) : std::nullopt;
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

}  // namespace levin
