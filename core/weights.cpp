#include "levin/core/weights.h"

#include <torch/nn/module.h>

#include <algorithm>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/module_state.h"
#include "levin/core/config/masked_value.h"
#include "levin/core/console/console.h"
#include "levin/core/files/paths.h"
#include "levin/core/files/remote_file.h"
#include "levin/core/formats/tensor_file.h"
#include "levin/core/state/checkpoint_choice.h"

namespace levin {
namespace {

std::string renamed(const std::string& name, const std::map<std::string, std::string>& beginnings) {
  const std::pair<const std::string, std::string>* longest = nullptr;
  for (const auto& entry : beginnings) {
    // The map is sorted: of two matching prefixes, the longer one comes later.
    if (name.starts_with(entry.first)) longest = &entry;
  }
  return longest == nullptr ? name : longest->second + name.substr(longest->first.size());
}

std::map<std::string, at::Tensor> weights_for_module(const std::filesystem::path& file, const WeightsOptions& options) {
  std::map<std::string, at::Tensor> weights;
  std::map<std::string, std::string> names_in_file;
  for (const auto& [name, tensor] : saved_weights(TensorFile::open_weights(file, options.map_location, options.key).content)) {
    if (!name.starts_with(options.prefix)) continue;
    const std::string own_name = renamed(name.substr(options.prefix.size()), options.rename);
    const auto [first, is_new] = names_in_file.emplace(own_name, name);
    if (!is_new) {
      throw ConfigError(format("The weights '{}' and '{}' in '{}' would both be renamed to '{}'.", first->second, name, file,
                               printable(own_name)));
    }
    weights[own_name] = tensor;
  }
  return weights;
}

/// Options that would make names match; they have the same names in C++ and in YAML's init_from.
std::string advice(const WeightsMatch& match, const WeightsOptions& options) {
  const std::map<std::string, std::string> renaming = match.renaming();
  if (renaming.empty()) return options.strict ? "\nSet strict to false to load what fits." : "";
  if (const auto& [before, after] = *renaming.begin(); renaming.size() == 1 && after.empty()) {
    return format("\nNames of the file begin with '{}': set prefix to \"{}\".", printable(before),
                  printable(options.prefix + before));
  }
  const auto pair = [](const auto& entry) { return format("\"{}\": \"{}\"", printable(entry.first), printable(entry.second)); };
  const std::string where = renaming.contains("") ? format("Names of the module begin with '{}'", renaming.at(""))
                                                  : "Names of the file have a part that the module's lack";
  return format("\n{}: set rename to {{{}}}.", where, join(renaming, ", ", pair));
}

[[noreturn]] void throw_mismatch(const std::filesystem::path& file, const WeightsMatch& match, const WeightsOptions& options) {
  const WeightsReport& names = match.names();
  const bool is_empty = names.loaded.empty() && names.unexpected.empty() && names.misshaped.empty();
  const std::string message = is_empty && !options.prefix.empty()
                                  ? format("No weight in '{}' has a name that begins with '{}'.", file, options.prefix)
                              : is_empty             ? format("There are no weights in '{}'.", file)
                              : names.loaded.empty() ? format("No weight in '{}' fits the module:", file)
                                                     : format("The weights in '{}' do not fit the module:", file);
  throw ConfigError(message + match.differences() + (is_empty ? "" : advice(match, options)));
}

/// "; 9 missing from the file (a, b, c, d, …)"; "" for no names.
std::string shortened(const std::vector<std::string>& names, const char* what) {
  constexpr std::size_t kShown = 4;
  if (names.empty()) return "";
  const std::vector<std::string> first(names.begin(), names.begin() + static_cast<int>(std::min(names.size(), kShown)));
  return format("; {} {} ({}{})", names.size(), what, printable(join(first)), names.size() > kShown ? ", …" : "");
}

/// Marks a value, and its elements, as written in this file.
void set_file(Value& value, const std::filesystem::path& file) {
  value.set_mark({.file = file.string()});
  if (value.is_list()) {
    for (Value& element : value.as_list()) set_file(element, file);
  } else if (value.is_map()) {
    for (auto& [key, element] : value.as_map()) set_file(element, file);
  }
}

}  // namespace

std::filesystem::path checkpoint_at(const std::filesystem::path& given) {
  const std::filesystem::path path = expand_home(given);
  const bool names_one = path.native().ends_with(":best") || path.native().ends_with(":last");
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  if (!names_one && !is_folder && !is_remote(path.native())) return path;
  const CheckpointChoice choice = read_checkpoint_choice(path.string());
  if (choice.which.empty()) return choice.place;
  const std::vector<std::filesystem::path> folders = checkpoint_folders_of(choice.place);
  const auto has_none = [](const std::filesystem::path& folder) { return newest_files_at(folder, ".ckpt").empty(); };
  if (is_folder && std::ranges::all_of(folders, has_none)) return path;
  return find_checkpoint(folders, choice.which);
}

WeightsReport load_weights(torch::nn::Module& module, const std::filesystem::path& given, const WeightsOptions& options) {
  const std::filesystem::path file = checkpoint_at(given);
  const std::map<std::string, at::Tensor> weights = weights_for_module(file, options);
  const WeightsMatch match = [&] {
    try {
      return WeightsMatch(module, weights);
    } catch (const ConfigError& error) {
      throw ConfigError(format("The weights in '{}' do not fit the module: {}", file, error.what()));
    }
  }();
  const WeightsReport& names = match.names();
  if (!match.is_whole() && (options.strict || names.loaded.empty())) throw_mismatch(file, match, options);
  match.copy();
  rank_zero_info(format("Weights from '{}': {} loaded", file, names.loaded.size()),
                 shortened(names.missing, "missing from the file"), shortened(names.unexpected, "not in the module"),
                 shortened(names.misshaped, "of another shape"));
  return names;
}

void freeze(torch::nn::Module& module) {
  for (const at::Tensor& parameter : module.parameters()) parameter.requires_grad_(false);
  module.eval();
}

void unfreeze(torch::nn::Module& module) {
  for (const at::Tensor& parameter : module.parameters()) {
    if (parameter.is_floating_point() || parameter.is_complex()) parameter.requires_grad_(true);
  }
  module.train();
}

namespace detail {

Value saved_hyperparameters(const std::filesystem::path& file, const std::vector<OptionInfo>& names, const Value& overrides) {
  const TensorFile opened = TensorFile::open(file);
  const Value* const saved = opened.content.manifest.find("hyper_parameters");
  Value hyperparameters(Value::Map{});
  for (const OptionInfo& option : names) {
    const Value* const value = saved == nullptr ? nullptr : saved->find(option.name);
    if (value != nullptr) hyperparameters[option.name] = *value;
  }
  const bool is_checkpoint = opened.kind == TensorFileKind::kLevin || opened.kind == TensorFileKind::kLightning;
  if (!is_checkpoint && !names.empty()) {
    throw ConfigError(format(
        "'{}' is a {}, not a checkpoint, and has no hyper-parameters: make the module yourself, and call load_weights().", file,
        kind_name(opened.kind)));
  }
  if (hyperparameters.size() == 0 && !names.empty()) {
    throw ConfigError(
        format("'{}' has no hyper-parameters of the module: the program that wrote it did not call save_hyperparameters(), or "
               "trained another module. Make the module yourself, and call load_weights().",
               file));
  }
  set_file(hyperparameters, file);
  for (const auto& [name, value] : overrides.as_map()) hyperparameters[name] = value;
  refuse_masked(hyperparameters);
  return hyperparameters;
}

void warn_of_prepared_data(const std::filesystem::path& file) {
  const TensorFile opened = TensorFile::open(file);
  const Value* const prepares = opened.content.manifest.find(kPreparations);
  if (prepares == nullptr || prepares->size() == 0) return;
  const std::string all = join(OptionType<std::vector<std::string>>::read(*prepares), "; ");
  rank_zero_warn(format(
      "'{}' was trained on batches that its data module prepared, and load_from_checkpoint() takes nothing of that ({}). "
      "Predict with levin::Predictor, which prepares batches as `levin predict` does, or prepare yours.",
      file, all));
}

}  // namespace detail

}  // namespace levin
