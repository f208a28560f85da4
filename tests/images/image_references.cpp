#include "images/image_references.h"

#include <ATen/Version.h>
#include <torch/torch.h>

#include <string_view>

#include "levin/core/checkpoint/safetensors_file.h"
#include "levin/core/config/value_json.h"
#include "support/file_text.h"

namespace levin::test {
namespace {

at::Tensor tensor_in(std::string_view data, const SafetensorsEntry& entry) {
  static const std::map<std::string, at::ScalarType> types = {
      {"U8", at::kByte}, {"I32", at::kInt}, {"F32", at::kFloat}, {"F64", at::kDouble}};
  const at::ScalarType type = types.at(entry.dtype);
  const at::Tensor tensor = torch::empty(entry.shape, type);
  const std::string_view bytes = data.substr(entry.begin, entry.end - entry.begin);
  std::copy(bytes.begin(), bytes.end(), static_cast<char*>(tensor.mutable_data_ptr()));
  return tensor;
}

ImageReferences read_references() {
  const std::string file = read_text(std::string(LEVIN_SOURCE_DIR) + "/tests/images/references.safetensors");
  const SafetensorsHeader header = parse_safetensors(file);
  const std::string_view data = std::string_view(file).substr(header.data_offset);
  const auto tensor = [&](const std::string& name) { return tensor_in(data, header.tensors.at(name)); };
  ImageReferences read;
  for (const auto& [name, entry] : header.tensors) {
    if (name.starts_with("image ")) read.images[name.substr(6)] = tensor_in(data, entry);
  }
  for (const Value& each : parse_json(header.metadata.at("cases")).as_list()) {
    const Value::List& parts = each.as_list();
    read.cases.push_back({parts[0].as_string(), parts[1].as_string(), parts[2], tensor(std::to_string(read.cases.size()))});
  }
  read.magnitudes = parse_json(header.metadata.at("magnitudes"));
  read.sizes = parse_json(header.metadata.at("sizes"));
  read.cpu = parse_json(header.metadata.at("cpu")).as_string();
  return read;
}

}  // namespace

std::map<std::string, at::Tensor> read_tensors(const std::filesystem::path& path) {
  const std::string file = read_text(path);
  const SafetensorsHeader header = parse_safetensors(file);
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, entry] : header.tensors)
    tensors[name] = tensor_in(std::string_view(file).substr(header.data_offset), entry);
  return tensors;
}

std::string ImageCase::title() const { return function + " of '" + image + "' " + to_json(arguments); }

const ImageReferences& image_references() {
  static const ImageReferences references = read_references();
  return references;
}

bool same_image(const at::Tensor& image, const at::Tensor& expected) {
  if (image.scalar_type() != expected.scalar_type() || image.sizes() != expected.sizes()) return false;
  if (image.is_floating_point()) return torch::allclose(image, expected, /*rtol=*/0, /*atol=*/1e-6);
  if (at::get_cpu_capability() == image_references().cpu) return torch::equal(image, expected);
  return torch::allclose(image.to(at::kInt), expected.to(at::kInt), /*rtol=*/0, /*atol=*/1);
}

images::Size size_in(const Value& list) { return {list.as_list().at(0).as_int(), list.as_list().at(1).as_int()}; }

Interpolation interpolation_in(const Value& arguments) {
  return OptionType<Interpolation>::read(arguments.at("interpolation"));
}

}  // namespace levin::test
