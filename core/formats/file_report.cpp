#include "levin/core/formats/file_report.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/checkpoint/safetensors_file.h"
#include "levin/core/formats/lightning_checkpoint.h"
#include "levin/core/formats/package_archive.h"
#include "levin/core/formats/tensor_file.h"
#include "levin/core/formats/torch_file.h"

namespace levin {

namespace fs = std::filesystem;

bool FileReport::is_whole() const {
  return std::all_of(checks.begin(), checks.end(), [](const Check& check) { return check.holds; });
}

FileReport inspect_file(const fs::path& file, const std::string& key) {
  FileReport report;
  for (auto& [what, holds] : TensorFile::checks(file)) report.checks.push_back({std::move(what), holds});
  if (!report.is_whole()) return report;
  const TensorFile opened = TensorFile::open(file, {}, key);
  report.beside = opened.beside;
  report.kind = kind_name(opened.kind);
  if (opened.kind == TensorFileKind::kPackage) report.summary = package_text(PackageFile::open(file));
  if (opened.content.manifest.size() > 0) report.manifest = opened.content.manifest;
  for (const std::string& name : opened.names) {
    const at::Tensor& tensor = opened.content.tensors.at(name);
    const std::string dtype(c10::getDtypeNames(tensor.scalar_type()).first);
    report.tensors.push_back({name, dtype, tensor.sizes().vec(), tensor.nbytes()});
  }
  return report;
}

void export_file(const fs::path& file, const fs::path& output, const ExportOptions& options) {
  std::error_code ignored;
  if (fs::equivalent(file, output, ignored)) {
    throw ConfigError(format("'{}' would be written over itself: give another --output.", output));
  }
  const TensorFile opened = TensorFile::open(file, {}, options.key);
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
  PickleValue* state_dict = nullptr;
  PickleObject* const items = writer.tree.add_ordered_dict(state_dict);
  for (const auto& [name, tensor] : weights) items->items.emplace_back(writer.tree.add(name), writer.add(tensor));
  if (options.format == ExportFormat::kLightning)
    state_dict = lightning_checkpoint(opened.content, state_dict, trained, writer);
  writer.write(*state_dict, output);
}

}  // namespace levin
