#include "levin/core/checkpoint/tensor_file.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "levin/core/base/format.h"
#include "levin/core/base/quoted_text.h"
#include "levin/core/checkpoint/lightning_checkpoint.h"
#include "levin/core/checkpoint/mapped_file.h"
#include "levin/core/checkpoint/module_state.h"
#include "levin/core/checkpoint/safetensors_file.h"
#include "levin/core/checkpoint/safetensors_index.h"
#include "levin/core/checkpoint/torch_file.h"
#include "levin/core/error.h"

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

/// The dict of weights in what torch.save() was given: the whole of it, or what training loops of one's own call it.
const PickleValue& dict_of_weights(const PickleValue& root) {
  const auto has_tensors = [](const PickleValue* value) {
    if (value == nullptr || value->items() == nullptr) return false;
    return std::any_of(value->items()->begin(), value->items()->end(),
                       [](const auto& item) { return item.second->template as<PickleTensor>() != nullptr; });
  };
  if (has_tensors(&root)) return root;
  for (const char* name : {"state_dict", "model_state_dict", "model", "module"}) {
    if (has_tensors(root.find(name))) return *root.find(name);
  }
  if (root.as<PickleObject>() != nullptr) {
    throw IoError(
        format("it holds an object, {}: levin runs no code from files; save its state_dict() in Python", foreign_text(root)));
  }
  throw IoError("it holds no weights: neither it nor a 'state_dict' in it is a dict of tensors");
}

TensorFile open_torch(const fs::path& path) {
  TorchFile file(path);
  TensorFile opened;
  if (is_lightning_checkpoint(file.root())) {
    opened.kind = TensorFileKind::kLightning;
    opened.content = read_lightning_checkpoint(file, opened.names);
    return opened;
  }
  opened.kind = TensorFileKind::kStateDict;
  for (auto& [name, tensor] : file.tensors(dict_of_weights(file.root()))) {
    if (opened.content.tensors.emplace(name, tensor).second) opened.names.push_back(name);
  }
  return opened;
}

TensorFile open_file(const fs::path& file) {
  try {
    const MappedFile mapping(file);
    const std::string_view bytes = mapping.bytes();
    if (TorchArchive::looks_like_one(bytes)) return open_torch(file);
    if (looks_like_safetensors_index(bytes)) return open_index(file, bytes);
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

TensorFile TensorFile::open(const fs::path& path, const std::string& map_location) {
  TensorFile file = open_file(place(path));
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
