#include "levin/data/array_files.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/mapped_file.h"
#include "levin/data/npy_bytes.h"
#include "levin/data/read_file.h"

// IDX and NumPy files.
namespace levin {
namespace {

/// A file, in messages.
struct File {
  const char* kind;
  const std::string& name;
  [[noreturn]] void fail(const std::string& reason) const {
    throw IoError(format("{}: not a good {} file: {}", name, kind, reason));
  }
};

/// Turns each element of `width` bytes around, when the data's byte order is not the machine's.
void to_native_order(std::span<char> data, std::size_t width, bool data_is_big_endian) {
  if (width < 2 || data_is_big_endian == (std::endian::native == std::endian::big)) return;
  for (std::size_t begin = 0; begin + width <= data.size(); begin += width) {
    std::reverse(data.begin() + static_cast<std::ptrdiff_t>(begin), data.begin() + static_cast<std::ptrdiff_t>(begin + width));
  }
}

/// Bytes of an array of this shape; nullopt when its sizes, except those of 0, have no meaningful product.
std::optional<std::size_t> array_bytes(std::span<const std::int64_t> shape, std::size_t width) {
  auto bytes = static_cast<std::int64_t>(width);
  bool is_empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) return std::nullopt;
    is_empty = is_empty || size == 0;
    if (size != 0 && __builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return is_empty ? 0 : static_cast<std::size_t>(bytes);
}

/// A tensor of these elements, which `owner` keeps. A truth value may be any byte that is not 0.
at::Tensor tensor_of(std::span<char> elements, const std::vector<std::int64_t>& shape, at::ScalarType type, bool is_big_endian,
                     const File& file, const std::shared_ptr<const void>& owner) {
  const std::size_t width = c10::elementSize(type);
  const auto bytes = array_bytes(shape, width);
  if (!bytes) file.fail("the shape in its header is absurd");
  if (elements.size() != *bytes) {
    file.fail(format("its header promises {} bytes of data, it has {}", *bytes, elements.size()));
  }
  to_native_order(elements, c10::isComplexType(type) ? width / 2 : width, is_big_endian);
  if (type == at::kBool) {
    for (char& truth : elements)
      if (truth != 0 && truth != 1) truth = 1;
  }
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(elements.data()) % width == 0;
  if (is_aligned && !elements.empty())
    return at::from_blob(
        elements.data(), shape, [owner](void*) {}, type);
  const at::Tensor tensor = at::empty(shape, type);
  std::copy(elements.begin(), elements.end(), static_cast<char*>(tensor.mutable_data_ptr()));
  return tensor;
}

at::ScalarType scalar_type(unsigned char code, const File& file) {
  static const std::map<unsigned char, at::ScalarType> types{{0x08, at::kByte}, {0x09, at::kChar},  {0x0B, at::kShort},
                                                             {0x0C, at::kInt},  {0x0D, at::kFloat}, {0x0E, at::kDouble}};
  const auto found = types.find(code);
  if (found == types.end()) file.fail(format("unknown type of element {}", code));
  return found->second;
}

}  // namespace

at::Tensor parse_idx(std::string data, const std::string& name) {
  const File file{"IDX", name};
  const auto byte = [&data](std::size_t place) { return static_cast<unsigned char>(data[place]); };
  if (data.size() < 4 || byte(0) != 0 || byte(1) != 0) file.fail("it does not begin with two zero bytes and a type");
  const at::ScalarType type = scalar_type(byte(2), file);
  const std::size_t dimensions = byte(3);
  const std::size_t header = 4 + 4 * dimensions;
  if (dimensions == 0 || dimensions > 64) file.fail(format("it claims to have {} dimensions", dimensions));
  if (data.size() < header) file.fail("it ends inside its header");

  std::vector<std::int64_t> shape;
  for (std::size_t place = 4; place < header; place += 4) {
    shape.push_back(std::int64_t{byte(place)} << 24 | byte(place + 1) << 16 | byte(place + 2) << 8 | byte(place + 3));
  }
  const auto owner = std::make_shared<std::string>(std::move(data));
  return tensor_of(std::span(*owner).subspan(header), shape, type, true, file, owner);
}

at::Tensor read_idx(const std::filesystem::path& path, double max_expansion) {
  return parse_idx(read_input_file(path, max_expansion), path.string());
}

namespace {

struct NpyHeader {
  std::string type;  ///< such as "<f8"
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

/// Reads the header, a Python dict: {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }. It is JSON but for quotes,
/// parentheses, the case of truth values, and the comma after the last element.
NpyHeader parse_header(std::string_view dict, const File& file) {
  constexpr std::string_view kPython = "()TF", kJson = "[]tf";
  std::string text;
  bool quoted = false;
  for (const char letter : dict) {
    if (letter == '\'') quoted = !quoted;
    if (!quoted && (letter == ')' || letter == '}')) {
      const std::size_t last = text.find_last_not_of(" \t\r\n");
      if (last != std::string::npos && text[last] == ',') text.erase(last);
    }
    const std::size_t place = quoted ? std::string_view::npos : kPython.find(letter);
    text += letter == '\'' ? '"' : place == std::string_view::npos ? letter : kJson[place];
    if (!quoted && letter == '}') break;  // what follows only fills the header
  }
  const auto parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) file.fail("its header cannot be read");
  NpyHeader header;
  for (const auto& [key, value] : parsed.items()) {
    if (key == "descr") {
      if (value.is_array()) file.fail("it holds records of several fields; save one array of numbers");
      header.type = value.is_string() ? value.get<std::string>() : "";
    } else if (key == "fortran_order") {
      if (!value.is_boolean()) file.fail("its header cannot be read");
      header.fortran_order = value.get<bool>();
    } else if (key == "shape") {
      if (!value.is_array()) file.fail("the shape in its header cannot be read");
      if (value.size() > 64) file.fail("it has more than 64 dimensions");
      for (const auto& size : value) {
        if (!size.is_number_unsigned()) file.fail("the shape in its header cannot be read");
        header.shape.push_back(size.get<std::int64_t>());
      }
    } else {
      file.fail("its header has the unknown key " + quoted_text(key, 40));
    }
  }
  if (parsed.size() != 3 || header.type.empty()) file.fail("its header lacks descr, fortran_order or shape");
  return header;
}

struct NpyType {
  at::ScalarType stored;  ///< of unsigned integers, the signed type of the same width
  at::ScalarType result;
  bool is_unsigned = false;
};

NpyType npy_type(const std::string& descr, const File& file) {
  static const std::vector<std::pair<std::string_view, NpyType>> types{
      {"b1", {at::kBool, at::kBool}},
      {"i1", {at::kChar, at::kChar}},
      {"i2", {at::kShort, at::kShort}},
      {"i4", {at::kInt, at::kInt}},
      {"i8", {at::kLong, at::kLong}},
      {"u1", {at::kByte, at::kByte}},
      {"u2", {at::kShort, at::kInt, true}},
      {"u4", {at::kInt, at::kLong, true}},
      {"u8", {at::kLong, at::kLong, true}},
      {"f2", {at::kHalf, at::kHalf}},
      {"f4", {at::kFloat, at::kFloat}},
      {"f8", {at::kDouble, at::kDouble}},
      {"c8", {at::kComplexFloat, at::kComplexFloat}},
      {"c16", {at::kComplexDouble, at::kComplexDouble}},
  };
  const bool has_order = !descr.empty() && std::string_view("<>|=").find(descr[0]) != std::string_view::npos;
  const std::string_view kind = std::string_view(descr).substr(has_order ? 1 : 0);
  for (const auto& [known, type] : types) {
    if (kind == known) return type;
  }
  if (kind.starts_with('O')) file.fail("it holds Python objects; save an array of numbers");
  file.fail(format("elements of type {} are not supported; save bool, int, float or complex numbers", quoted_text(descr, 40)));
}

/// The numbers of an array whose bit patterns were read as signed.
at::Tensor widen_unsigned(const at::Tensor& stored, const NpyType& type, const File& file) {
  if (!type.is_unsigned) return stored;
  if (type.stored == at::kLong) {
    if (stored.lt(0).any().item<bool>()) file.fail("it holds unsigned numbers above 9223372036854775807");
    return stored;
  }
  const std::int64_t mask = type.stored == at::kShort ? 0xFFFF : 0xFFFFFFFF;
  return stored.to(type.result).bitwise_and(mask);
}

/// Where the header's text lies in the file.
std::pair<std::size_t, std::size_t> header_place(std::string_view data, const File& file) {
  constexpr std::string_view kMagic("\x93NUMPY");
  if (!data.starts_with(kMagic) || data.size() < 12) file.fail("it does not begin as one");
  const auto byte = [&data](std::size_t place) { return static_cast<std::size_t>(static_cast<unsigned char>(data[place])); };
  const std::size_t version = byte(6);
  if (version < 1 || version > 3) file.fail(format("format version {} is not known", version));
  std::size_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  const std::size_t begin = version == 1 ? 10 : 12;
  if (length > data.size() - begin) file.fail("it ends inside its header");
  constexpr std::size_t kLongest = 1 << 16;  // of a header of three short values; what it says takes memory
  if (length > kLongest) file.fail(format("its header of {} bytes is too long for an array of numbers", length));
  return {begin, length};
}

}  // namespace

at::Tensor detail::npy_of(std::span<char> bytes, const std::string& name, const std::shared_ptr<const void>& owner) {
  const File file{".npy", name};
  const std::string_view data(bytes.data(), bytes.size());
  const auto [begin, length] = header_place(data, file);
  NpyHeader header = parse_header(data.substr(begin, length), file);
  const NpyType type = npy_type(header.type, file);
  if (header.fortran_order) std::reverse(header.shape.begin(), header.shape.end());
  at::Tensor stored = tensor_of(bytes.subspan(begin + length), header.shape, type.stored, header.type[0] == '>', file, owner);
  if (header.fortran_order && stored.dim() > 1) {
    std::vector<std::int64_t> reversed;
    for (std::int64_t dimension = stored.dim(); dimension > 0; --dimension) reversed.push_back(dimension - 1);
    stored = stored.permute(reversed);
  }
  return widen_unsigned(stored, type, file);
}

at::Tensor parse_npy(std::string data, const std::string& name) {
  const auto owner = std::make_shared<std::string>(std::move(data));
  return detail::npy_of(*owner, name, owner).contiguous();
}

at::Tensor read_npy(const std::filesystem::path& path, double max_expansion) {
  return parse_npy(read_input_file(path, max_expansion), path.string());
}

at::Tensor map_npy(const std::filesystem::path& path) {
  const auto file = detail::map_data_file(path);
  return detail::npy_of({file->data(), file->bytes().size()}, path.string(), file);
}

std::shared_ptr<MappedFile> detail::map_data_file(const std::filesystem::path& path) {
  try {
    return std::make_shared<MappedFile>(path);
  } catch (const IoError& error) {
    throw IoError(format("{}: cannot be read: {}", path, error.what()));
  }
}

}  // namespace levin
