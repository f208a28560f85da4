// A file of torch.save(): zip archive, pickle, and where tensors lie in storages.
#include <functional>
#include <set>

#include "fuzz/fuzz.h"
#include "levin/core/base/error.h"
#include "levin/core/checkpoint/mapped_file.h"
#include "levin/core/formats/pickle.h"
#include "levin/core/formats/torch_archive.h"

namespace {

/// Every tensor that there is lies in its storage, or is refused.
void check_tensors(const levin::TorchArchive& archive, const levin::PickleValue& root) {
  std::set<const levin::PickleValue*> seen;
  std::vector<const levin::PickleValue*> open = {&root};
  while (!open.empty()) {
    const levin::PickleValue* const value = open.back();
    open.pop_back();
    if (!seen.insert(value).second) continue;
    if (value->items() != nullptr) {
      for (const auto& [key, item] : *value->items()) open.push_back(item);
    }
    if (value->elements() != nullptr) open.insert(open.end(), value->elements()->begin(), value->elements()->end());
    const auto* tensor = value->as<levin::PickleTensor>();
    if (tensor == nullptr) continue;
    try {
      const std::string_view bytes = archive.checked_bytes(archive.storage(*tensor, 4));
      FUZZ_CHECK(static_cast<std::uint64_t>(*tensor->end()) * 4 <= bytes.size(), tensor->storage.key);
    } catch (const levin::IoError&) {
    }
  }
}

/// Where the weights are is told, or refused.
void check_weights(const levin::PickleValue& root, const std::string& key) {
  try {
    const levin::PickledWeights weights = levin::find_weights(root, key);
    FUZZ_CHECK(weights.value->items() != nullptr || weights.value->as<levin::PickleTensor>() != nullptr, key);
  } catch (const levin::IoError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return levin::fuzz::run<levin::IoError>(data, size, [](std::string_view input) {
    const std::string_view bytes = input;
    levin::refuse_other_formats(bytes);
    const levin::TorchArchive archive(bytes);
    check_tensors(archive, archive.root());
    for (const char* key : {"", "model", "a.b.c"}) check_weights(archive.root(), key);
    for (const levin::ZipEntry& entry : archive.zip().entries()) archive.zip().is_whole(entry);
  });
}
