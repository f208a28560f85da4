#include "levin/core/base/format.h"
#include "levin/core/checkpoint/file_report.h"
#include "levin/core/checkpoint/lightning_checkpoint.h"
#include "levin/core/checkpoint/safetensors_checks.h"
#include "levin/core/checkpoint/tensor_file.h"
#include "levin/core/checkpoint/torch_writer.h"
#include "levin/core/error.h"

namespace levin {
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
