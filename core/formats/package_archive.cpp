#include "levin/core/formats/package_archive.h"

#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <array>
#include <set>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/mapped_file.h"
#include "levin/core/checkpoint/safetensors_file.h"
#include "levin/core/config/option_type.h"
#include "levin/core/config/value_json.h"
#include "levin/core/formats/torch_archive.h"

namespace levin {

using Input = PackageEntry::Input;
using Output = PackageEntry::Output;
template <>
inline constexpr std::array kChoices<Input::Kind> = {
    Choice{Input::Kind::kParameter, "parameter"}, Choice{Input::Kind::kBuffer, "buffer"}, Choice{Input::Kind::kBatch, "batch"},
    Choice{Input::Kind::kNumber, "number"}};
template <>
inline constexpr std::array kChoices<Output::Kind> = {
    Choice{Output::Kind::kLoss, "loss"},     Choice{Output::Kind::kLog, "log"},
    Choice{Output::Kind::kMetric, "metric"}, Choice{Output::Kind::kWeight, "weight"},
    Choice{Output::Kind::kExtra, "extra"},   Choice{Output::Kind::kCondition, "condition"},
    Choice{Output::Kind::kBuffer, "buffer"}, Choice{Output::Kind::kGradient, "gradient"}};

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kNewestFormat = 1;
constexpr std::string_view kDescription = "/extra/levin.json";
constexpr std::string_view kWeights = "/data/levin/weights.safetensors";
constexpr std::string_view kLibraries = "/data/aotinductor/";

const ZipEntry* entry_ending(const ZipArchive& zip, std::string_view end) {
  const auto& entries = zip.entries();
  const auto found = std::ranges::find_if(entries, [&](const ZipEntry& entry) { return entry.name.ends_with(end); });
  return found == entries.end() ? nullptr : &*found;
}

/// The loader of LibTorch unpacks files by their names: none may lead out of its folder.
void check_names(const ZipArchive& zip) {
  std::set<std::string> seen;
  for (const ZipEntry& entry : zip.entries()) {
    const fs::path name = entry.name;
    const bool climbs = std::ranges::any_of(name, [](const fs::path& part) { return part == ".."; });
    if (name.empty() || name.is_absolute() || climbs || entry.name.find('\\') != std::string::npos ||
        entry.name.find('\0') != std::string::npos || !seen.insert(entry.name).second) {
      throw IoError(format("it has a file named {}, which does not belong to a package", quoted_text(entry.name)));
    }
  }
}

template <class E>
E kind_of(const Value& value) {
  const std::optional<E> kind = choice_of<E>(value.at("kind").as_string());
  if (!kind) throw ConfigError(format("its kind '{}' is not known", value.at("kind").as_string()));
  return *kind;
}

std::optional<bool> optional_bool(const Value& map, std::string_view key) {
  const Value* const value = map.find(key);
  return value == nullptr || value->is_null() ? std::nullopt : std::optional(value->as_bool());
}

at::ScalarType type_named(std::string_view name) {
  const auto& types = c10::getStringToDtypeMap();
  const auto type = types.find(std::string(name));
  if (type == types.end()) throw ConfigError(format("the dtype {} is not known", quoted_text(name)));
  return type->second;
}

Input input_of(const Value& value) {
  Input input{.kind = kind_of<Input::Kind>(value), .name = value.at("name").as_string(), .sizes = {}, .dimensions = {}};
  if (input.kind != Input::Kind::kBatch) return input;
  input.dtype = type_named(value.at("dtype").as_string());
  for (const Value& size : value.at("shape").as_list()) {
    input.sizes.push_back(size.is_string() ? -1 : size.as_int());
    input.dimensions.push_back(size.is_string() ? size.as_string() : std::string());
  }
  return input;
}

LogOptions log_options_of(const Value& value) {
  LogOptions options;
  options.on_step = optional_bool(value, "on_step");
  options.on_epoch = optional_bool(value, "on_epoch");
  options.prog_bar = value.at("prog_bar").as_bool();
  options.logger = value.at("logger").as_bool();
  options.sync_dist = optional_bool(value, "sync_dist");
  options.rank_zero_only = value.at("rank_zero_only").as_bool();
  options.add_dataloader_idx = value.at("add_dataloader_idx").as_bool();
  const std::string& reduce = value.at("reduce").as_string();
  for (std::size_t index = 0; index < kReductions; ++index) {
    if (reduce == reduce_name(static_cast<Reduce>(index))) options.reduce = static_cast<Reduce>(index);
  }
  return options;
}

Output output_of(const Value& value) {
  Output output{.kind = kind_of<Output::Kind>(value), .name = {}};
  if (const Value* name = value.find("name")) output.name = name->as_string();
  if (const Value* options = value.find("options")) output.options = log_options_of(*options);
  if (const Value* metric = value.find("metric")) output.metric = *metric;
  if (const Value* taken = value.find("taken")) output.taken = taken->as_bool();
  if (const Value* where = value.find("where")) output.where = where->as_string();
  return output;
}

PackageEntry entry_of(const std::string& name, const Value& value) {
  PackageEntry entry{.name = name, .inputs = {}, .outputs = {}, .smallest = {}};
  for (const Value& input : value.at("inputs").as_list()) entry.inputs.push_back(input_of(input));
  for (const Value& output : value.at("outputs").as_list()) entry.outputs.push_back(output_of(output));
  const auto keep_smallest = [&](const std::string& dimension, const Value& size) {
    if (size.as_int() > 1) entry.smallest[dimension] = size.as_int();
  };
  if (const Value* smallest = value.find("smallest_batch")) keep_smallest("batch", *smallest);
  if (const Value* sizes = value.find("smallest_sizes")) {
    for (const auto& [dimension, size] : sizes->as_map()) keep_smallest(dimension, size);
  }
  return entry;
}

at::Tensor tensor_of(std::string_view file, const SafetensorsHeader& header, const std::string& name) {
  const auto found = header.tensors.find(name);
  if (found == header.tensors.end()) throw IoError(format("its weight {} is missing", quoted_text(name)));
  const at::ScalarType dtype = type_named(element_type(&ElementType::safetensors, found->second.dtype)->torch);
  const std::string_view bytes = file.substr(header.data_offset + found->second.begin, found->second.end - found->second.begin);
  at::Tensor tensor = at::empty(found->second.shape, dtype);
  std::ranges::copy(bytes, static_cast<char*>(tensor.mutable_data_ptr()));
  return tensor;
}

void read_weights(PackageFile& package, std::string_view file) {
  const SafetensorsHeader header = parse_safetensors(file);
  for (const Value& value : package.description.at("weights").as_list()) {
    PackageFile::Weight weight{.name = value.at("name").as_string(), .aliases = {}, .tensor = {}};
    for (const Value& alias : value.at("aliases").as_list()) weight.aliases.push_back(alias.as_string());
    weight.tensor = tensor_of(file, header, weight.name);
    weight.is_parameter = value.at("kind").as_string() == "parameter";
    weight.is_trained = value.at("trained").as_bool();
    weight.is_saved = value.at("saved").as_bool();
    package.weights.push_back(std::move(weight));
  }
}

/// What an entry reads and changes must be among the weights, and the size of a batch follows what is logged with it.
void check_entry(const PackageFile& package, const PackageEntry& entry) {
  const auto has_weight = [&](const std::string& name) {
    return std::ranges::find(package.weights, name, &PackageFile::Weight::name) != package.weights.end();
  };
  for (const Input& input : entry.inputs) {
    const bool is_weight = input.kind == Input::Kind::kParameter || input.kind == Input::Kind::kBuffer;
    if (is_weight && !has_weight(input.name))
      throw ConfigError(format("its {} reads {}, which is not a weight", entry.name, input.name));
  }
  bool is_logged = false;
  for (const Output& output : entry.outputs) {
    const bool is_weight = output.kind == Output::Kind::kBuffer || output.kind == Output::Kind::kGradient;
    if ((is_weight && !has_weight(output.name)) || (output.kind == Output::Kind::kWeight && !is_logged)) {
      throw ConfigError(format("its {} returns {}, which has no target", entry.name, output.name));
    }
    is_logged = output.kind == Output::Kind::kLog || output.kind == Output::Kind::kMetric;
  }
}

}  // namespace

bool is_package(std::string_view bytes) {
  if (!bytes.starts_with("PK")) return false;
  try {
    return entry_ending(ZipArchive(bytes), kDescription) != nullptr;
  } catch (const IoError&) {
    return false;
  }
}

PackageFile read_package(std::string_view bytes) {
  const ZipArchive zip(bytes);
  const ZipEntry* const description = entry_ending(zip, kDescription);
  const ZipEntry* const weights = entry_ending(zip, kWeights);
  if (description == nullptr || weights == nullptr) {
    throw IoError("it is not a package of levin_train.export(): it lacks levin.json or the weights");
  }
  check_names(zip);
  for (const ZipEntry& entry : zip.entries()) {
    if (!zip.is_whole(entry)) throw IoError(format("its file {} is damaged", quoted_text(entry.name)));
  }
  PackageFile package;
  try {
    package.description = parse_json(zip.bytes(*description));
    const std::int64_t version = package.description.at("format").as_int();
    if (version > kNewestFormat) {
      throw IoError(format("it is a package of format {}; this levin reads up to {}: update levin", version, kNewestFormat));
    }
    package.precision = package.description.at("precision").as_string();
    for (const auto& [name, entry] : package.description.at("entries").as_map()) {
      package.entries.push_back(entry_of(name, entry));
      const std::string folder = format("{}{}/", kLibraries, name);
      if (std::ranges::none_of(zip.entries(),
                               [&](const ZipEntry& file) { return file.name.find(folder) != std::string::npos; })) {
        throw IoError(format("the library of its {} is missing", name));
      }
    }
    read_weights(package, zip.bytes(*weights));
    for (const PackageEntry& entry : package.entries) check_entry(package, entry);
  } catch (const ConfigError& error) {
    throw IoError(format("its levin.json is damaged: {}", error.what()));
  }
  return package;
}

std::vector<ChecksumReport> package_checks(std::string_view bytes) {
  const ZipArchive zip(bytes);
  std::vector<ChecksumReport> checks;
  for (const ZipEntry& entry : zip.entries()) checks.push_back({entry.name, zip.is_whole(entry)});
  return checks;
}

}  // namespace levin
