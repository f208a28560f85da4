#include "levin/core/formats/file_report.h"

#include <c10/core/ScalarType.h>

#include <algorithm>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/mapped_file.h"
#include "levin/core/checkpoint/safetensors_file.h"
#include "levin/core/formats/lightning_checkpoint.h"
#include "levin/core/formats/tensor_file.h"
#include "levin/core/formats/torch_file.h"
#include "levin/core/formats/zip_archive.h"

namespace levin {
namespace {

namespace fs = std::filesystem;

std::vector<FileReport::Check> zip_checks(std::string_view bytes) {
  std::vector<FileReport::Check> checks;
  const ZipArchive zip(bytes);
  for (const ZipEntry& entry : zip.entries()) {
    if (entry.crc32 != 0) checks.push_back({entry.name, zip.is_whole(entry)});
  }
  return checks;
}

std::vector<FileReport::Check> reported(const std::vector<ChecksumReport>& checksums) {
  std::vector<FileReport::Check> checks;
  for (const ChecksumReport& checksum : checksums) checks.push_back({checksum.what, checksum.holds});
  return checks;
}

std::vector<FileReport::Check> index_checks(const fs::path& folder, std::string_view index) {
  std::vector<FileReport::Check> checks;
  for (const auto& [name, tensors] : parse_safetensors_index(index)) {
    try {
      // Whatever an index names is a safetensors file: not another index, or itself.
      for (const ChecksumReport& check : safetensors_checks(MappedFile(folder / name).bytes())) {
        checks.push_back({format("{} of {}", check.what, name), check.holds});
      }
    } catch (const IoError& error) {
      throw IoError(format("its {}: {}", quoted_text(name), error.what()));
    }
  }
  return checks;
}

std::vector<FileReport::Check> checks_of(const fs::path& file) {
  try {
    const MappedFile mapping(file);
    switch (file_content(mapping.bytes())) {
      case FileContent::kTorch:
        return zip_checks(mapping.bytes());
      case FileContent::kIndex:
        return index_checks(file.parent_path(), mapping.bytes());
      case FileContent::kSafetensors:
        break;
    }
    return reported(safetensors_checks(mapping.bytes()));
  } catch (const IoError& error) {
    throw IoError(format("Cannot load '{}': {}.", file, error.what()));
  }
}

}  // namespace

bool FileReport::is_whole() const {
  return std::all_of(checks.begin(), checks.end(), [](const Check& check) { return check.holds; });
}

FileReport inspect_file(const fs::path& file, const std::string& key) {
  FileReport report;
  report.checks = checks_of(TensorFile::place(file));
  if (!report.is_whole()) return report;
  const TensorFile opened = TensorFile::open(file, {}, key);
  report.beside = opened.beside;
  report.kind = kind_name(opened.kind);
  if (opened.content.manifest.size() > 0) report.manifest = opened.content.manifest;
  for (const std::string& name : opened.names) {
    const at::Tensor& tensor = opened.content.tensors.at(name);
    const std::string dtype(c10::getDtypeNames(tensor.scalar_type()).first);
    report.tensors.push_back({name, dtype, tensor.sizes().vec(), tensor.nbytes()});
  }
  return report;
}

namespace {

using Weights = std::vector<std::pair<std::string, at::Tensor>>;

Weights renamed_weights(const TensorFile& file, const std::filesystem::path& place, const ExportOptions& options) {
  Weights weights;
  for (const auto& [name, tensor] : file.weights()) {
    if (name.starts_with(options.prefix)) weights.emplace_back(options.add_prefix + name.substr(options.prefix.size()), tensor);
  }
  if (weights.empty()) {
    throw ConfigError(options.prefix.empty()
                          ? format("There are no weights in '{}'.", place)
                          : format("No weight in '{}' has a name that begins with '{}'.", place, options.prefix));
  }
  return weights;
}

}  // namespace

void export_file(const std::filesystem::path& file, const std::filesystem::path& output, const ExportOptions& options) {
  std::error_code ignored;
  if (std::filesystem::equivalent(file, output, ignored)) {
    throw ConfigError(format("'{}' would be written over itself: give another --output.", output));
  }
  const TensorFile opened = TensorFile::open(file, {}, options.key);
  const Weights weights = renamed_weights(opened, file, options);
  if (options.format == ExportFormat::kSafetensors) {
    save_safetensors(output, {weights.begin(), weights.end()});
    return;
  }
  TorchWriter writer;
  PickleValue* state_dict = nullptr;
  PickleObject* const items = writer.tree.add_ordered_dict(state_dict);
  for (const auto& [name, tensor] : weights) items->items.emplace_back(writer.tree.add(name), writer.add(tensor));
  if (options.format == ExportFormat::kLightning) state_dict = lightning_checkpoint(opened.content, state_dict, writer);
  writer.write(*state_dict, output);
}

}  // namespace levin
