#include "levin/core/formats/package_file.h"

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <vector>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {
namespace {

using Input = PackageEntry::Input;
using Output = PackageEntry::Output;

std::string input_text(const Input& input) {
  if (input.kind == Input::Kind::kNumber) return input.name;
  std::vector<std::string> sizes;
  for (std::size_t axis = 0; axis < input.sizes.size(); ++axis) {
    sizes.push_back(input.sizes[axis] < 0 ? input.dimensions[axis] : std::to_string(input.sizes[axis]));
  }
  return format("{} {}[{}]", input.name, c10::getDtypeNames(input.dtype).first, join(sizes));
}

std::string log_text(const Output& output) {
  std::vector<std::string> options;
  if (output.options.on_step) options.push_back(format("on_step={}", *output.options.on_step));
  if (output.options.on_epoch) options.push_back(format("on_epoch={}", *output.options.on_epoch));
  if (output.options.prog_bar) options.emplace_back("prog_bar");
  if (output.options.reduce != Reduce::kMean) options.emplace_back(reduce_name(output.options.reduce));
  if (output.options.sync_dist) options.emplace_back("sync_dist");
  if (output.options.rank_zero_only) options.emplace_back("rank_zero_only");
  if (output.kind == Output::Kind::kMetric) options.push_back(output.metric.at("class_path").as_string());
  return options.empty() ? output.name : format("{} ({})", output.name, join(options));
}

std::string entry_text(const PackageEntry& entry) {
  std::vector<std::string> takes;
  for (const Input& input : entry.inputs) {
    if (input.kind == Input::Kind::kBatch || input.kind == Input::Kind::kNumber) takes.push_back(input_text(input));
  }
  std::vector<std::string> gives;
  std::vector<std::string> logs;
  std::vector<std::string> conditions;
  std::size_t gradients = 0;
  std::size_t buffers = 0;
  for (const Output& output : entry.outputs) {
    if (output.kind == Output::Kind::kLoss) gives.emplace_back("loss");
    if (output.kind == Output::Kind::kExtra) gives.push_back(output.name.empty() ? "a tensor" : output.name);
    if (output.kind == Output::Kind::kGradient) ++gradients;
    if (output.kind == Output::Kind::kBuffer) ++buffers;
    if (output.kind == Output::Kind::kCondition) conditions.push_back(format("{} {}", output.where, output.taken));
    const bool is_log = output.kind == Output::Kind::kLog || output.kind == Output::Kind::kMetric;
    const std::string text = is_log ? log_text(output) : std::string();
    if (is_log && (logs.empty() || logs.back() != text)) logs.push_back(text);
  }
  if (gradients > 0) gives.push_back(counted(gradients, "gradient"));
  if (buffers > 0) gives.push_back(counted(buffers, "new buffer"));
  std::string text = format("{}\n  takes {}\n", entry.name, join(takes, "; "));
  if (!gives.empty()) text += format("  gives {}\n", join(gives));
  if (!logs.empty()) text += format("  logs {}\n", join(logs));
  if (!conditions.empty()) text += format("  holds where {}\n", join(conditions));
  for (const auto& [dimension, size] : entry.smallest) text += format("  takes {} of {} or more\n", dimension, size);
  return text;
}

}  // namespace

std::string PackageFile::summary() const {
  const auto text = [&](const char* key) { return description.at(key).as_string(); };
  std::vector<std::string> features;
  for (const Value& feature : description.at("processor_features").as_list()) features.push_back(feature.as_string());
  std::string result =
      format("module: {}, precision {}\nfor: torch {} on {}, {} with {}\n", text("module"), precision, text("torch"),
             text("system"), text("machine"), features.empty() ? "nothing more" : join(features));
  if (const Value& kept = description.at("hyper_parameters"); kept.size() > 0) {
    std::vector<std::string> values;
    for (const auto& [name, value] : kept.as_map()) values.push_back(format("{} {}", name, describe(value)));
    result += format("hyper-parameters: {}\n", join(values));
  }
  for (const PackageEntry& entry : entries) result += entry_text(entry);
  return result;
}

}  // namespace levin
