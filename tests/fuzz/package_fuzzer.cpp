// A package of levin_train.export(): zip archive, description, and weights.
#include "fuzz/fuzz.h"
#include "levin/core/base/error.h"
#include "levin/core/formats/package_archive.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return levin::fuzz::run<levin::IoError>(data, size, [](std::string_view input) {
    levin::is_package(input);
    const levin::PackageFile package = levin::read_package(input);
    for (const levin::PackageFile::Weight& weight : package.weights) FUZZ_CHECK(weight.tensor.defined(), weight.name);
    for (const levin::PackageEntry& entry : package.entries) {
      for (const auto& input : entry.inputs) FUZZ_CHECK(input.sizes.size() == input.dimensions.size(), input.name);
    }
  });
}
