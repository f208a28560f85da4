#include "levin/exported/compiled_entry.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <algorithm>
#include <exception>
#include <map>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {
namespace {

using Kind = PackageEntry::Input::Kind;

std::string shape_text(const at::Tensor& tensor) {
  return format("[{}]", join(tensor.sizes(), ", ", [](std::int64_t size) { return std::to_string(size); }));
}

std::string wanted_shape(const PackageEntry::Input& input) {
  std::vector<std::string> sizes;
  for (std::size_t axis = 0; axis < input.sizes.size(); ++axis) {
    sizes.push_back(input.sizes[axis] < 0 ? input.dimensions[axis] : std::to_string(input.sizes[axis]));
  }
  return format("{} [{}]", c10::getDtypeNames(input.dtype).first, join(sizes));
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// What a step was exported for, where it failed before the conditions could be checked.
std::string conditions_text(const PackageEntry& entry) {
  std::vector<std::string> places;
  for (const PackageEntry::Output& output : entry.outputs) {
    if (output.kind == PackageEntry::Output::Kind::kCondition) places.push_back(output.where);
  }
  if (places.empty()) return "";
  return format(" It holds where the condition at {} is as it was for the batch with which it was exported.", join(places));
}

}  // namespace

CompiledEntry::CompiledEntry(const PackageFile& package, const PackageEntry& entry)
    : file_(package.path.filename()), entry_(entry) {
  package.check_fits();
  try {
    loader_ = std::make_unique<torch::inductor::AOTIModelPackageLoader>(package.path, entry.name);
  } catch (const std::exception& error) {
    throw IoError(format("Cannot load {} of '{}': {}", entry.name, package.path, error.what()));
  }
}

CompiledEntry::~CompiledEntry() = default;

std::vector<at::Tensor> CompiledEntry::run(std::vector<at::Tensor> inputs) const {
  const at::NoGradGuard no_grad;
  // The code was compiled for tensors whose elements lie one after another.
  for (at::Tensor& input : inputs) {
    if (!input.is_contiguous()) input = input.contiguous();
  }
  std::vector<at::Tensor> outputs;
  try {
    outputs = loader_->boxed_run(std::move(inputs));
  } catch (const std::exception& error) {  // a c10::Error of the package's own
    throw MisuseError(
        format("{} of '{}' failed: {}.{}", entry_.name, file_, first_line(error.what()), conditions_text(entry_)));
  }
  if (outputs.size() != entry_.outputs.size()) {
    throw IoError(format("{} of '{}' gives {} tensors, and its levin.json describes {}.", entry_.name, file_, outputs.size(),
                         entry_.outputs.size()));
  }
  for (std::size_t index = 0; index < outputs.size(); ++index) {
    const PackageEntry::Output& output = entry_.outputs[index];
    if (output.kind != PackageEntry::Output::Kind::kCondition || outputs[index].item<bool>() == output.taken) continue;
    throw MisuseError(format(
        "{} of '{}' decides at {} on values, and this batch goes the other way ({}) than the one with which it was exported. "
        "Write both ways with torch.where, and export it again.",
        entry_.name, file_, output.where, output.taken ? "false" : "true"));
  }
  return outputs;
}

const at::Tensor& CompiledEntry::find(const Batch& batch, const PackageEntry::Input& input, bool by_name) const {
  if (by_name) return batch[input.name];
  std::size_t position = 0;
  for (const PackageEntry::Input& other : entry_.inputs) {
    if (&other == &input) break;
    if (other.kind == Kind::kBatch) ++position;
  }
  if (position >= batch.size()) {
    throw MisuseError(
        format("{} of '{}' takes {}, and the batch has {} tensors.", entry_.name, file_, input.name, batch.size()));
  }
  return batch[position];
}

std::vector<at::Tensor> CompiledEntry::batch_inputs(const Batch& batch) const {
  const bool by_name = std::ranges::all_of(entry_.inputs, [&](const PackageEntry::Input& input) {
    return input.kind != Kind::kBatch || batch.contains(input.name);
  });
  std::vector<at::Tensor> found;
  std::map<std::string_view, std::int64_t> sizes;
  for (const PackageEntry::Input& input : entry_.inputs) {
    if (input.kind != Kind::kBatch) continue;
    const at::Tensor& tensor = find(batch, input, by_name);
    bool fits =
        tensor.scalar_type() == input.dtype && tensor.is_cpu() && tensor.dim() == static_cast<std::int64_t>(input.sizes.size());
    for (std::size_t axis = 0; fits && axis < input.sizes.size(); ++axis) {
      const std::int64_t size = tensor.size(static_cast<std::int64_t>(axis));
      if (input.sizes[axis] >= 0) {
        fits = size == input.sizes[axis];
      } else {
        fits = sizes.emplace(input.dimensions[axis], size).first->second == size;
      }
    }
    if (!fits) {
      throw MisuseError(format("{} of '{}' takes \"{}\" as {}, and the batch has {} {} on {}.", entry_.name, file_, input.name,
                               wanted_shape(input), c10::getDtypeNames(tensor.scalar_type()).first, shape_text(tensor),
                               tensor.device().str()));
    }
    found.push_back(tensor);
  }
  for (const auto& [dimension, smallest] : entry_.smallest) {
    if (const auto size = sizes.find(dimension); size != sizes.end() && size->second < smallest) {
      throw MisuseError(format("{} of '{}' takes a {} of {} or more, and this one has {}.", entry_.name, file_, dimension,
                               smallest, size->second));
    }
  }
  return found;
}

}  // namespace levin
