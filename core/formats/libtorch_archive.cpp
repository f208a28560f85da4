#include "levin/core/formats/libtorch_archive.h"

#include <algorithm>
#include <string_view>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/value_json.h"

namespace levin {
namespace {

constexpr std::size_t kMostNamed = 20;  ///< of what is not read

/// "__torch__.Module" or "__torch__.___torch_mangle_3.Module": what torch::serialize::OutputArchive calls its classes.
bool is_archive_class(std::string_view name) {
  constexpr std::string_view kNamespace = "__torch__.";
  constexpr std::string_view kMangled = "___torch_mangle_";
  if (!name.starts_with(kNamespace)) return false;
  name.remove_prefix(kNamespace.size());
  if (name.starts_with(kMangled)) {
    name.remove_prefix(kMangled.size());
    name.remove_prefix(std::min(name.find_first_not_of("0123456789"), name.size()));
    if (!name.starts_with('.')) return false;
    name.remove_prefix(1);
  }
  return name == "Module";
}

const PickleObject* archive_of(const PickleValue& value) {
  const auto* const object = value.as<PickleObject>();
  return object != nullptr && is_archive_class(object->class_name) ? object : nullptr;
}

bool is_optimizer(const PickleObject& archive) {
  const auto has = [&](std::string_view key) {
    return std::ranges::any_of(archive.items, [&](const auto& item) { return key_text(*item.first) == key; });
  };
  return has("pytorch_version") && has("state") && has("param_groups");
}

/// Adds the tensors of an archive and of nested ones. Other contents go to `not_read`.
void add_tensors(TorchFile& file, const PickleObject& archive, const std::string& prefix, std::size_t depth,
                 TensorFile& opened) {
  if (depth > kMaxJsonDepth) throw IoError(format("its modules are nested deeper than {} levels", kMaxJsonDepth));
  for (const auto& [key, value] : archive.items) {
    const std::string name = prefix + key_text(*key);
    file.plain().charge(1, name.size());
    if (const PickleObject* const below = archive_of(*value)) {
      add_tensors(file, *below, name + ".", depth + 1, opened);
    } else if (const auto* const described = value->as<PickleTensor>()) {
      if (opened.content.tensors.emplace(name, file.tensor(*described)).second) opened.names.push_back(name);
    } else if (const std::string problem = foreign_tensor(*value); !problem.empty()) {
      throw IoError(format("{} in it is {}", quoted_text(name), problem));
    } else if (opened.not_read.size() < kMostNamed) {
      opened.not_read.push_back(format("{} ({})", quoted_text(name), foreign_text(*value)));
    }
  }
}

}  // namespace

bool is_libtorch_archive(const PickleValue& root) {
  const PickleObject* const archive = archive_of(root);
  // A program stores whether it trains; an archive has tensors and what a user's save() has written.
  return archive != nullptr && root.find("training") == nullptr;
}

TensorFile open_libtorch_archive(TorchFile& file, const std::string& key) {
  const PickleValue& found = key.empty() ? file.root() : value_at_key(file.root(), key);
  TensorFile opened;
  opened.kind = TensorFileKind::kLibTorch;
  if (const auto* const tensor = found.as<PickleTensor>()) {
    opened.content.tensors[key] = file.tensor(*tensor);
    opened.names = {key};
    return opened;
  }
  const PickleObject* const archive = archive_of(found);
  if (archive == nullptr) throw IoError(format("its {} holds no tensors, but {}", quoted_text(key), foreign_text(found)));
  add_tensors(file, *archive, "", 0, opened);
  if (is_optimizer(*archive)) {
    opened.kind = TensorFileKind::kOptimizer;
    opened.content.manifest = file.plain().of(found);
    opened.not_read.clear();  // the manifest has it
  }
  return opened;
}

}  // namespace levin
