#include "levin/data/data_files.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/data/array_bytes.h"

namespace levin {

namespace {

[[noreturn]] void throw_bad_idx(const std::string& name, const std::string& reason) {
  throw IoError(format("{}: not a good IDX file: {}", name, reason));
}

at::ScalarType scalar_type(unsigned char code, const std::string& name) {
  switch (code) {
    case 0x08:
      return at::kByte;
    case 0x09:
      return at::kChar;
    case 0x0B:
      return at::kShort;
    case 0x0C:
      return at::kInt;
    case 0x0D:
      return at::kFloat;
    case 0x0E:
      return at::kDouble;
    default:
      throw_bad_idx(name, format("unknown type of element {}", code));
  }
}

}  // namespace

at::Tensor parse_idx(std::string data, const std::string& name) {
  const auto byte = [&data](std::size_t place) { return static_cast<unsigned char>(data[place]); };
  if (data.size() < 4 || byte(0) != 0 || byte(1) != 0) throw_bad_idx(name, "it does not begin with two zero bytes and a type");
  const at::ScalarType type = scalar_type(byte(2), name);
  const std::size_t dimensions = byte(3);
  const std::size_t header = 4 + 4 * dimensions;
  if (dimensions == 0 || dimensions > 64) throw_bad_idx(name, format("it claims to have {} dimensions", dimensions));
  if (data.size() < header) throw_bad_idx(name, "it ends inside its header");

  const std::size_t width = c10::elementSize(type);
  std::vector<std::int64_t> shape;
  for (std::size_t place = 4; place < header; place += 4) {
    shape.push_back(std::int64_t{byte(place)} << 24 | byte(place + 1) << 16 | byte(place + 2) << 8 | byte(place + 3));
  }
  const auto bytes = array_bytes(shape, width);
  if (!bytes) throw_bad_idx(name, "the size in its header is absurd");
  if (data.size() - header != *bytes) {
    throw_bad_idx(name, format("its header promises {} bytes of data, it has {}", *bytes, data.size() - header));
  }
  const std::span<char> elements(data.data() + header, *bytes);
  to_native_order(elements, width, true);
  const at::Tensor tensor = at::empty(shape, type);
  std::copy(elements.begin(), elements.end(), static_cast<char*>(tensor.mutable_data_ptr()));
  return tensor;
}

at::Tensor read_idx(const std::filesystem::path& path, double max_expansion) {
  return parse_idx(read_input_file(path, max_expansion), path.string());
}

}  // namespace levin
