#include "levin/core/formats/package_file.h"

#include <sys/utsname.h>
#include <torch/version.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/mapped_file.h"
#include "levin/core/checkpoint/safetensors_file.h"
#include "levin/core/formats/package_archive.h"

namespace levin {

namespace fs = std::filesystem;

namespace {

/// What code may use of this processor.
std::set<std::string> processor_features() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

}  // namespace

TensorFile open_package(std::string_view bytes) {
  const PackageFile package = read_package(bytes);
  TensorFile opened;
  opened.kind = TensorFileKind::kPackage;
  opened.content.manifest = package.description;
  for (const PackageFile::Weight& weight : package.weights) {
    opened.names.push_back(weight.name);
    opened.content.tensors[weight.name] = weight.tensor;
  }
  return opened;
}

PackageFile PackageFile::open(const fs::path& path) {
  return naming_file(path, [&] {
    const MappedFile file(path);
    if (!file.bytes().starts_with("PK")) throw IoError("it is not a package of levin_train.export(), which is a zip archive");
    PackageFile package = read_package(file.bytes());
    package.path = path;
    return package;
  });
}

const PackageEntry* PackageFile::find(std::string_view entry) const {
  const auto found = std::ranges::find(entries, entry, &PackageEntry::name);
  return found == entries.end() ? nullptr : &*found;
}

void PackageFile::check_fits() const {
  const auto refuse = [&](std::string_view what, std::string_view wanted, std::string_view here) {
    throw ConfigError(format("'{}' was compiled for {} {}, but this machine has {}. Export it again for this machine.", path,
                             what, wanted, here));
  };
  utsname host{};
  uname(&host);
  const std::string system = lowercase(host.sysname);
  const auto text = [&](const char* key) { return description.at(key).as_string(); };
  if (text("torch") != TORCH_VERSION) refuse("torch", text("torch"), TORCH_VERSION);
  if (text("system") != system) refuse("the system", text("system"), system);
  if (text("machine") != host.machine) refuse("the processor", text("machine"), host.machine);
  const std::set<std::string> features = processor_features();
  std::vector<std::string> missing;
  for (const Value& feature : description.at("processor_features").as_list()) {
    if (!features.contains(feature.as_string())) missing.push_back(feature.as_string());
  }
  if (missing.empty()) return;
  throw ConfigError(
      format("'{}' was compiled for a processor with {}, and this machine has one without. Export it here, or with "
             "processor=\"x86-64-v3\" for every processor with AVX2, or \"x86-64-v2\" for older ones.",
             path, join(missing, ", ")));
}

}  // namespace levin
