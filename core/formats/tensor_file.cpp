#include "levin/core/formats/tensor_file.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/mapped_file.h"
#include "levin/core/checkpoint/module_state.h"
#include "levin/core/checkpoint/safetensors_file.h"
#include "levin/core/formats/lightning_checkpoint.h"
#include "levin/core/formats/pickled_torch.h"
#include "levin/core/formats/torch_file.h"

namespace levin {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kWhole = "model.safetensors";

std::vector<std::string> names_of(const SafetensorsHeader& header) {
  std::vector<std::pair<std::uint64_t, std::string>> placed;
  for (const auto& [name, entry] : header.tensors) placed.emplace_back(entry.begin, name);
  std::sort(placed.begin(), placed.end());
  std::vector<std::string> names;
  for (auto& [place, name] : placed) names.push_back(std::move(name));
  return names;
}

TensorFile open_safetensors(const fs::path& file) {
  TensorFile opened;
  opened.content = Checkpoint::load_safetensors(file);
  opened.kind = opened.content.manifest.size() == 0 ? TensorFileKind::kSafetensors : TensorFileKind::kLevin;
  opened.names = names_of(parse_safetensors(MappedFile(file).bytes()));
  return opened;
}

TensorFile open_index(const fs::path& file, std::string_view text) {
  TensorFile opened;
  opened.kind = TensorFileKind::kSafetensorsIndex;
  for (const auto& [shard, names] : parse_safetensors_index(text)) {
    const fs::path place = file.parent_path() / shard;
    const Checkpoint part = Checkpoint::load_safetensors(place);
    for (const std::string& name : names) {
      const auto tensor = part.tensors.find(name);
      if (tensor == part.tensors.end()) {
        throw IoError(format("Cannot load '{}': it says that {} is in '{}', which it is not.", file, quoted_text(name), place));
      }
      opened.content.tensors[name] = tensor->second;
      opened.names.push_back(name);
    }
  }
  return opened;
}

TensorFile open_torch(const fs::path& path, const std::string& key) {
  TorchFile file(path);
  TensorFile opened;
  if (key.empty() && is_lightning_checkpoint(file.root())) {
    opened.kind = TensorFileKind::kLightning;
    opened.content = read_lightning_checkpoint(file, opened.names);
    return opened;
  }
  opened.kind = TensorFileKind::kStateDict;
  PickledWeights weights = find_weights(file.root(), key);
  opened.beside = std::move(weights.beside);
  if (const auto* tensor = weights.value->as<PickleTensor>()) {
    opened.content.tensors[weights.name] = file.tensor(*tensor);
    opened.names = {weights.name};
    return opened;
  }
  for (auto& [name, tensor] : file.tensors(*weights.value)) {
    if (opened.content.tensors.emplace(name, tensor).second) opened.names.push_back(name);
  }
  return opened;
}

TensorFile open_file(const fs::path& file, const std::string& key) {
  try {
    const MappedFile mapping(file);
    const FileContent content = file_content(mapping.bytes());
    if (content == FileContent::kTorch) return open_torch(file, key);
    if (!key.empty()) throw IoError(format("key: {}: only files of torch.save() have keys", quoted_text(key)));
    if (content == FileContent::kIndex) return open_index(file, mapping.bytes());
  } catch (const IoError& error) {
    const std::string message = error.what();
    throw IoError(message.starts_with("Cannot load") ? message : format("Cannot load '{}': {}.", file, message));
  }
  return open_safetensors(file);
}

/// Moves each storage once, so that tensors that share one still do.
void move_to(const std::string& map_location, std::map<std::string, at::Tensor>& tensors) {
  try {
    const at::Device device(map_location);
    std::map<const c10::StorageImpl*, at::Tensor> moved;
    for (auto& [name, tensor] : tensors) {
      if (tensor.device() == device) continue;
      const c10::Storage& storage = tensor.storage();
      at::Tensor& bytes = moved[storage.unsafeGetStorageImpl()];
      if (!bytes.defined()) {
        bytes = at::empty({0}, at::kByte).set_(storage, 0, {static_cast<std::int64_t>(storage.nbytes())}, {1}).to(device);
      }
      tensor = at::empty({0}, tensor.options().device(device))
                   .set_(bytes.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
    }
  } catch (const c10::Error& error) {
    throw ConfigError(
        format("map_location: '{}' is no device that there is here: {}", map_location, error.what_without_backtrace()));
  }
}

}  // namespace

const char* kind_name(TensorFileKind kind) {
  switch (kind) {
    case TensorFileKind::kLevin:
      return "levin checkpoint";
    case TensorFileKind::kSafetensors:
      return "safetensors file";
    case TensorFileKind::kSafetensorsIndex:
      return "safetensors in several files";
    case TensorFileKind::kStateDict:
      return "state_dict of torch.save()";
    case TensorFileKind::kLightning:
      return "Lightning checkpoint";
  }
  return "";
}

fs::path TensorFile::place(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  for (const char* name : {kIndex, kWhole}) {
    if (fs::exists(path / name, ignored)) return path / name;
  }
  throw IoError(format("Cannot load '{}': it is a folder without {} or {}.", path, kIndex, kWhole));
}

TensorFile TensorFile::open(const fs::path& path, const std::string& map_location, const std::string& key) {
  TensorFile file = open_file(place(path), key);
  if (!map_location.empty()) move_to(map_location, file.content.tensors);
  return file;
}

std::vector<std::pair<std::string, at::Tensor>> TensorFile::weights() const {
  const std::map<std::string, at::Tensor> by_name = saved_weights(content);
  std::vector<std::pair<std::string, at::Tensor>> ordered;
  for (const std::string& name : names) {
    const auto found = by_name.find(name.starts_with(kWeightsPrefix) ? name.substr(kWeightsPrefix.size()) : name);
    if (found != by_name.end()) ordered.emplace_back(*found);
  }
  return ordered;
}

bool TensorFile::is_model_folder(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / kIndex, ignored) || fs::exists(folder / kWhole, ignored);
}

}  // namespace levin
