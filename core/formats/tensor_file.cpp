#include "levin/core/formats/tensor_file.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/mapped_file.h"
#include "levin/core/checkpoint/module_state.h"
#include "levin/core/checkpoint/safetensors_file.h"
#include "levin/core/formats/lightning_checkpoint.h"
#include "levin/core/formats/package_archive.h"
#include "levin/core/formats/torch_file.h"

namespace levin {

namespace fs = std::filesystem;

namespace {

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kWhole = "model.safetensors";
/// The files of weights in a folder of Hugging Face's, older names last.
constexpr std::array kNamesInFolder = {kIndex, kWhole, "pytorch_model.bin.index.json", "pytorch_model.bin"};

TensorFile open_safetensors(const fs::path& file, std::string_view, const std::string&) {
  TensorFile opened;
  opened.content = read_safetensors(file, opened.names);
  opened.kind = opened.content.manifest.size() == 0 ? TensorFileKind::kSafetensors : TensorFileKind::kLevin;
  return opened;
}

/// Does a step with each of the files that an index names. These are files with tensors: not another index, or itself.
template <class Step>
void for_each_shard(const fs::path& index, std::string_view text, const Step& step) {
  for (const auto& [shard, names] : parse_safetensors_index(text)) {
    try {
      step(index.parent_path() / shard, names);
    } catch (const IoError& error) {
      throw IoError(format("its {}: {}", quoted_text(shard), error.what()));
    }
  }
}

TensorFile open_index(const fs::path& file, std::string_view text, const std::string&) {
  TensorFile opened;
  opened.kind = TensorFileKind::kSafetensorsIndex;
  for_each_shard(file, text, [&](const fs::path& shard, const std::vector<std::string>& names) {
    const TensorFile part =
        is_torch_file(MappedFile(shard).bytes()) ? open_torch_file(shard, {}) : open_safetensors(shard, {}, {});
    for (const std::string& name : names) {
      const auto tensor = part.content.tensors.find(name);
      if (tensor == part.content.tensors.end()) throw IoError(format("it lacks {}, which the index names", quoted_text(name)));
      opened.content.tensors[name] = tensor->second;
      opened.names.push_back(name);
    }
  });
  return opened;
}

std::vector<ChecksumReport> index_checks(const fs::path& file, std::string_view text) {
  std::vector<ChecksumReport> checks;
  for_each_shard(file, text, [&](const fs::path& shard, const std::vector<std::string>&) {
    const MappedFile mapping(shard);
    const bool is_torch = is_torch_file(mapping.bytes());
    for (const ChecksumReport& check : is_torch ? torch_file_checks(mapping.bytes()) : safetensors_checks(mapping.bytes()))
      checks.push_back({format("{} of {}", check.what, shard.filename()), check.holds});
  });
  return checks;
}

/// How files of one format are read: a new one is two files and a line in the list below. All throw IoError, without the file's
/// name.
struct FormatReader {
  /// A file with these bytes is of this format.
  bool (*reads)(std::string_view bytes);
  /// `key`: which of several dicts of tensors. Only some formats have several.
  TensorFile (*open)(const fs::path& file, std::string_view bytes, const std::string& key);
  std::vector<ChecksumReport> (*checks)(const fs::path& file, std::string_view bytes);
  bool has_keys = false;
};

constexpr std::array kReaders = {
    FormatReader{is_package, [](const fs::path&, std::string_view bytes, const std::string&) { return open_package(bytes); },
                 [](const fs::path&, std::string_view bytes) { return package_checks(bytes); }},
    FormatReader{is_torch_file,
                 [](const fs::path& file, std::string_view, const std::string& key) { return open_torch_file(file, key); },
                 [](const fs::path&, std::string_view bytes) { return torch_file_checks(bytes); },
                 /*has_keys=*/true},
    FormatReader{looks_like_safetensors_index, open_index, index_checks},
    // The reader of last resort.
    FormatReader{[](std::string_view) { return true; }, open_safetensors,
                 [](const fs::path&, std::string_view bytes) { return safetensors_checks(bytes); }},
};

const FormatReader& reader_of(std::string_view bytes) {
  const auto& found = *std::ranges::find_if(kReaders, [&](const FormatReader& reader) { return reader.reads(bytes); });
  if (&found == &kReaders.back()) refuse_other_formats(bytes);
  return found;
}

TensorFile open_any(const fs::path& file, std::string_view bytes, const std::string& key) {
  const FormatReader& reader = reader_of(bytes);
  if (!key.empty() && !reader.has_keys) {
    throw IoError(format("key: {}: only files of torch.save() and torch::save() have keys", quoted_text(key)));
  }
  return reader.open(file, bytes, key);
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
        format("map_location: '{}' is not a device of this machine: {}", map_location, error.what_without_backtrace()));
  }
}

}  // namespace

const char* file_ending(ExportFormat format) {
  constexpr std::array kEndings = {".safetensors", ".pt", ".lightning.ckpt"};
  return kEndings.at(static_cast<std::size_t>(format));
}

const char* kind_name(TensorFileKind kind) {
  constexpr std::array kNames = {"levin checkpoint",         "safetensors file",
                                 "weights in several files", "state_dict of torch.save()",
                                 "Lightning checkpoint",     "package of levin_train.export()",
                                 "archive of torch::save()", "optimizer's state of torch::save()"};
  return kNames.at(static_cast<std::size_t>(kind));
}

fs::path TensorFile::place(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  for (const char* name : kNamesInFolder) {
    if (fs::exists(path / name, ignored)) return path / name;
  }
  if (fs::exists(path / ".metadata", ignored)) {
    throw IoError(
        format("Cannot load '{}': it is a sharded checkpoint of torch.distributed.checkpoint or FSDP; convert it to one file: "
               "python -m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER FILE.",
               path));
  }
  throw IoError(format("Cannot load '{}': it is a folder without {} or {}.", path, kIndex, kWhole));
}

TensorFile TensorFile::open(const fs::path& path, const std::string& map_location, const std::string& key) {
  const fs::path file = place(path);
  TensorFile opened = naming_file(file, [&] {
    const MappedFile mapping(file);
    return open_any(file, mapping.bytes(), key);
  });
  if (!map_location.empty()) move_to(map_location, opened.content.tensors);
  return opened;
}

std::vector<ChecksumReport> TensorFile::checks(const fs::path& path) {
  const fs::path file = place(path);
  try {
    const MappedFile mapping(file);
    return reader_of(mapping.bytes()).checks(file, mapping.bytes());
  } catch (const IoError& error) {
    throw IoError(format("Cannot load '{}': {}.", file, error.what()));
  }
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

TensorFile TensorFile::open_weights(const fs::path& path, const std::string& map_location, const std::string& key) {
  TensorFile opened = open(path, map_location, key);
  if (opened.kind != TensorFileKind::kOptimizer) return opened;
  throw ConfigError(format("'{}' holds the state of an optimizer, not weights: torch::load(optimizer, file) reads it.", path));
}

bool TensorFile::is_model_folder(const fs::path& folder) {
  std::error_code ignored;
  return std::ranges::any_of(kNamesInFolder, [&](const char* name) { return fs::exists(folder / name, ignored); });
}

void export_file(const fs::path& file, const fs::path& output, const ExportOptions& options) {
  std::error_code ignored;
  if (fs::equivalent(file, output, ignored)) {
    throw ConfigError(format("'{}' would overwrite itself: give another --output.", output));
  }
  const TensorFile opened = TensorFile::open_weights(file, {}, options.key);
  NamedTensors weights;
  NamedTensors trained;  // where others are evaluated
  for (const auto& [name, tensor] : opened.weights()) {
    if (!name.starts_with(options.prefix)) continue;
    weights.emplace_back(options.add_prefix + name.substr(options.prefix.size()), tensor);
    const auto other = opened.content.tensors.find(std::string(kTrainedWeightsPrefix) + name);
    if (other != opened.content.tensors.end()) trained.emplace_back(weights.back().first, other->second);
  }
  if (weights.empty()) {
    throw ConfigError(options.prefix.empty()
                          ? format("There are no weights in '{}'.", file)
                          : format("No weight in '{}' has a name that begins with '{}'.", file, options.prefix));
  }
  if (options.format == ExportFormat::kSafetensors) {
    save_safetensors(output, {weights.begin(), weights.end()});
    return;
  }
  TorchWriter writer;
  PickleItems items;
  for (const auto& [name, tensor] : weights) items.emplace_back(writer.tree.add(name), writer.add(tensor));
  if (options.format == ExportFormat::kStateDict) {
    // LibTorch's pickle_load() fills no OrderedDict, which Python's state_dict() is.
    writer.write(*writer.tree.add(PickleDict{std::move(items)}), output);
    return;
  }
  PickleValue* state_dict = nullptr;
  writer.tree.add_ordered_dict(state_dict)->items = std::move(items);
  writer.write(*lightning_checkpoint(opened.content, state_dict, trained, writer), output);
}

}  // namespace levin
