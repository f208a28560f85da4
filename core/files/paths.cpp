#include "levin/core/files/paths.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <random>

#include "levin/core/base/format.h"

namespace levin {
namespace {

constexpr std::string_view kPrefix = ".levin-";
constexpr std::string_view kSuffix = ".tmp";
constexpr std::size_t kMaxHost = 64;

// Takes a number and the '-' behind it, which may be missing at the end.
bool take_number(std::string_view& text) {
  const std::size_t end = text.find_first_not_of("0123456789");
  if (text.empty() || end == 0) return false;
  text.remove_prefix(std::min(end, text.size()));
  if (text.empty()) return true;
  if (text.front() != '-') return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::string temporary_host() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  std::string host(name.data());
  host.resize(std::min(host.size(), kMaxHost));
  std::replace_if(
      host.begin(), host.end(), [](unsigned char character) { return std::isalnum(character) == 0 && character != '-'; }, '_');
  return host.empty() ? "unknown" : host;
}

// Not derived from the file's own name, which may be as long as a name can be.
std::filesystem::path temporary_in(const std::filesystem::path& folder) {
  std::random_device random;
  return folder / format("{}{}-{}-{}{}", kPrefix, getpid(), random(), temporary_host(), kSuffix);
}

std::optional<std::string> host_of_temporary(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) || name.size() < kPrefix.size() + kSuffix.size()) {
    return std::nullopt;
  }
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  if (!take_number(name) || !take_number(name)) return std::nullopt;
  return std::string(name);
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

}  // namespace levin
