#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <string_view>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/data/array_bytes.h"
#include "levin/data/data_files.h"

// IDX and NumPy files.
namespace levin {

void to_native_order(std::span<char> data, std::size_t width, bool data_is_big_endian) {
  if (width < 2 || data_is_big_endian == (std::endian::native == std::endian::big)) return;
  for (std::size_t begin = 0; begin + width <= data.size(); begin += width) {
    std::reverse(data.begin() + static_cast<std::ptrdiff_t>(begin), data.begin() + static_cast<std::ptrdiff_t>(begin + width));
  }
}

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

namespace {

[[noreturn]] void throw_bad_npy(const std::string& name, const std::string& reason) {
  throw IoError(format("{}: not a good .npy file: {}", name, reason));
}

struct NpyHeader {
  std::string type;  ///< such as "<f8"
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

/// Reads the header, a Python dict: {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& name) : rest_(text), name_(name) {}

  NpyHeader parse() {
    NpyHeader header;
    int found = 0;
    expect("{");
    while (!accept("}")) {
      const std::string key = text();
      expect(":");
      if (key == "descr") {
        header.type = type();
      } else if (key == "fortran_order") {
        header.fortran_order = truth();
      } else if (key == "shape") {
        header.shape = shape();
      } else {
        throw_bad_npy(name_, "its header has the unknown key " + quoted_text(key, 40));
      }
      ++found;
      if (!accept(",") && !rest_.starts_with('}')) throw_bad_npy(name_, "its header cannot be read");
    }
    if (found != 3 || header.type.empty()) throw_bad_npy(name_, "its header lacks descr, fortran_order or shape");
    return header;
  }

 private:
  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }
  bool accept(std::string_view token) {
    skip_blanks();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    skip_blanks();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) throw_bad_npy(name_, "its header cannot be read");
  }

  std::string text() {
    skip_blanks();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) throw_bad_npy(name_, "its header cannot be read");
    const std::size_t end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) throw_bad_npy(name_, "its header cannot be read");
    std::string content(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    skip_blanks();
    return content;
  }

  std::string type() {
    skip_blanks();
    if (rest_.starts_with('[')) throw_bad_npy(name_, "it holds records of several fields; save one array of numbers");
    return text();
  }

  bool truth() {
    if (accept("True")) return true;
    expect("False");
    return false;
  }

  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> sizes;
    expect("(");
    while (!accept(")")) {
      std::int64_t size = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error != std::errc() || size < 0) throw_bad_npy(name_, "the shape in its header cannot be read");
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      sizes.push_back(size);
      if (sizes.size() > 64) throw_bad_npy(name_, "it has more than 64 dimensions");
      if (!accept(",") && !rest_.starts_with(')')) throw_bad_npy(name_, "the shape in its header cannot be read");
    }
    return sizes;
  }

  std::string_view rest_;
  const std::string& name_;
};

struct NpyType {
  at::ScalarType stored;  ///< of unsigned integers, the signed type of the same width
  at::ScalarType result;
  bool is_unsigned = false;
};

NpyType npy_type(const std::string& descr, const std::string& name) {
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
  if (kind.starts_with('O')) throw_bad_npy(name, "it holds Python objects; save an array of numbers");
  throw_bad_npy(
      name, format("elements of type {} are not supported; save bool, int, float or complex numbers", quoted_text(descr, 40)));
}

/// The numbers of an array whose bit patterns were read as signed.
at::Tensor widen_unsigned(const at::Tensor& stored, const NpyType& type, const std::string& name) {
  if (!type.is_unsigned) return stored;
  if (type.stored == at::kLong) {
    if (stored.lt(0).any().item<bool>()) throw_bad_npy(name, "it holds unsigned numbers above 9223372036854775807");
    return stored;
  }
  const std::int64_t mask = type.stored == at::kShort ? 0xFFFF : 0xFFFFFFFF;
  return stored.to(type.result).bitwise_and(mask);
}

/// Where the header's text lies in the file.
std::pair<std::size_t, std::size_t> header_place(const std::string& data, const std::string& name) {
  constexpr std::string_view kMagic("\x93NUMPY");
  if (!data.starts_with(kMagic) || data.size() < 12) throw_bad_npy(name, "it does not begin as one");
  const auto byte = [&data](std::size_t place) { return static_cast<std::size_t>(static_cast<unsigned char>(data[place])); };
  const std::size_t version = byte(6);
  if (version < 1 || version > 3) throw_bad_npy(name, format("format version {} is not known", version));
  std::size_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  const std::size_t begin = version == 1 ? 10 : 12;
  if (length > data.size() - begin) throw_bad_npy(name, "it ends inside its header");
  return {begin, length};
}

}  // namespace

at::Tensor parse_npy(std::string data, const std::string& name) {
  const auto [begin, length] = header_place(data, name);
  NpyHeader header = HeaderParser(std::string_view(data).substr(begin, length), name).parse();
  const NpyType type = npy_type(header.type, name);
  const std::size_t width = c10::elementSize(type.stored);
  const auto bytes = array_bytes(header.shape, width);
  if (!bytes) throw_bad_npy(name, "the shape in its header is absurd");
  const std::span<char> elements(data.data() + begin + length, data.size() - begin - length);
  if (elements.size() != *bytes) {
    throw_bad_npy(name, format("its header promises {} bytes of data, it has {}", *bytes, elements.size()));
  }
  to_native_order(elements, c10::isComplexType(type.stored) ? width / 2 : width, header.type[0] == '>');
  if (type.stored == at::kBool)
    std::for_each(elements.begin(), elements.end(), [](char& truth) { truth = truth != 0 ? 1 : 0; });

  if (header.fortran_order) std::reverse(header.shape.begin(), header.shape.end());
  at::Tensor stored = at::empty(header.shape, type.stored);
  std::copy(elements.begin(), elements.end(), static_cast<char*>(stored.mutable_data_ptr()));
  if (header.fortran_order && stored.dim() > 1) {
    std::vector<std::int64_t> reversed;
    for (std::int64_t dimension = stored.dim(); dimension > 0; --dimension) reversed.push_back(dimension - 1);
    stored = stored.permute(reversed).contiguous();
  }
  return widen_unsigned(stored, type, name);
}

at::Tensor read_npy(const std::filesystem::path& path, double max_expansion) {
  return parse_npy(read_input_file(path, max_expansion), path.string());
}

}  // namespace levin
