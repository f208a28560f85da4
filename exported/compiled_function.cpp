#include "levin/exported/compiled_function.h"

#include <utility>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/exported/compiled_entry.h"

namespace levin {

struct CompiledFunction::State {
  explicit State(const PackageFile& package, const PackageEntry& entry) : compiled(package, entry) {}

  CompiledEntry compiled;
  std::vector<at::Tensor> weights;
};

CompiledFunction::CompiledFunction(const std::filesystem::path& path) {
  const PackageFile package = PackageFile::open(path);
  const PackageEntry* const entry = package.find("function");
  if (entry == nullptr) {
    throw ConfigError(
        format("'{}' has steps of a module: it is for ExportedModule. levin_train.export_function() makes functions.", path));
  }
  state_ = std::make_unique<State>(package, *entry);
  for (const PackageEntry::Input& input : entry->inputs) {
    for (const PackageFile::Weight& weight : package.weights) {
      if (input.kind != PackageEntry::Input::Kind::kBatch && weight.name == input.name)
        state_->weights.push_back(weight.tensor);
    }
  }
}

CompiledFunction::~CompiledFunction() = default;
CompiledFunction::CompiledFunction(CompiledFunction&&) noexcept = default;
CompiledFunction& CompiledFunction::operator=(CompiledFunction&&) noexcept = default;

Batch CompiledFunction::operator()(const Batch& batch) const {
  std::vector<at::Tensor> inputs = state_->weights;
  for (at::Tensor& tensor : state_->compiled.batch_inputs(batch)) inputs.push_back(std::move(tensor));
  std::vector<at::Tensor> outputs = state_->compiled.run(std::move(inputs));
  Batch results;
  for (std::size_t index = 0; index < outputs.size(); ++index) {
    const PackageEntry::Output& output = state_->compiled.entry().outputs[index];
    if (output.kind == PackageEntry::Output::Kind::kExtra) results.set(output.name, std::move(outputs[index]));
  }
  return results;
}

}  // namespace levin
