#include "levin/core/checkpoint/safetensors_file.h"

#include <algorithm>
#include <array>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/value_json.h"

namespace levin {

namespace {

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kMaxDimensions = 64;  // LibTorch's

constexpr std::array<ElementType, 20> kElementTypes = {{
    {"BOOL", 1, "bool", "BoolStorage"},
    {"U8", 1, "uint8", "ByteStorage"},
    {"I8", 1, "int8", "CharStorage"},
    {"F8_E4M3", 1, "float8_e4m3fn", ""},
    {"F8_E5M2", 1, "float8_e5m2", ""},
    {"F8_E8M0", 1, "float8_e8m0fnu", ""},
    {"F8_E4M3FNUZ", 1, "float8_e4m3fnuz", ""},
    {"F8_E5M2FNUZ", 1, "float8_e5m2fnuz", ""},
    {"U16", 2, "uint16", ""},
    {"I16", 2, "int16", "ShortStorage"},
    {"F16", 2, "float16", "HalfStorage"},
    {"BF16", 2, "bfloat16", "BFloat16Storage"},
    {"U32", 4, "uint32", ""},
    {"I32", 4, "int32", "IntStorage"},
    {"F32", 4, "float32", "FloatStorage"},
    {"U64", 8, "uint64", ""},
    {"I64", 8, "int64", "LongStorage"},
    {"F64", 8, "float64", "DoubleStorage"},
    {"C64", 8, "complex64", "ComplexFloatStorage"},
    {"", 16, "complex128", "ComplexDoubleStorage"},
}};

[[noreturn]] void fail(const std::string& problem) { throw IoError("not a whole safetensors file: " + problem); }

std::uint64_t read_length(std::string_view file) {
  if (file.size() < kLengthBytes) fail(format("it has only {} bytes", file.size()));
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) length = length << 8 | static_cast<unsigned char>(file[i]);
  if (length > kMaxSafetensorsHeader) fail("its first 8 bytes are not the length of a header");
  if (length > file.size() - kLengthBytes) fail("it ends within its header");
  return length;
}

std::uint64_t unsigned_number(const Value& value, const std::string& where) {
  if (!value.is_int() || value.as_int() < 0) fail(where + " is not a whole number that is at least 0");
  return static_cast<std::uint64_t>(value.as_int());
}

SafetensorsEntry read_entry(const Value& tensor, const std::string& where) {
  const auto check = [&](bool holds) {
    if (!holds) fail(where + " is not described by dtype, shape and data_offsets");
  };
  check(tensor.is_map() && tensor.size() == 3);
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!tensor.contains(key)) fail(format("{} has no {}", where, key));
  }
  const Value& dtype = tensor.at("dtype");
  const Value& shape = tensor.at("shape");
  const Value& offsets = tensor.at("data_offsets");
  check(dtype.is_string() && shape.is_list() && offsets.is_list() && offsets.size() == 2);
  SafetensorsEntry entry;
  entry.dtype = dtype.as_string();
  const ElementType* const type = element_type(&ElementType::safetensors, entry.dtype);
  if (type == nullptr) throw IoError(format("its dtype {} is unknown", quoted_text(entry.dtype)));
  std::uint64_t bytes = type->size;
  for (const Value& size : shape.as_list()) {
    const std::uint64_t extent = unsigned_number(size, where + ": its shape");
    if (__builtin_mul_overflow(bytes, extent, &bytes)) fail(where + " is larger than any file");
    entry.shape.push_back(static_cast<std::int64_t>(extent));
  }
  entry.begin = unsigned_number(offsets.as_list()[0], where + ": its offset");
  entry.end = unsigned_number(offsets.as_list()[1], where + ": its offset");
  if (entry.end < entry.begin || entry.end - entry.begin != bytes) {
    fail(where + " has data_offsets that do not fit its dtype and shape");
  }
  return entry;
}

std::map<std::string, std::string> read_metadata(const Value& value) {
  if (!value.is_map()) fail("__metadata__ is not a map");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.as_map()) {
    if (!text.is_string()) fail(format("__metadata__ {} is not a text", quoted_text(key)));
    metadata[key] = text.as_string();
  }
  return metadata;
}

// The data of all tensors must lie one after the other, and fill the file.
void check_layout(const SafetensorsHeader& header) {
  std::vector<std::pair<const SafetensorsEntry*, const std::string*>> by_place;
  for (const auto& [name, entry] : header.tensors) by_place.emplace_back(&entry, &name);
  std::sort(by_place.begin(), by_place.end(), [](const auto& left, const auto& right) {
    return std::pair(left.first->begin, left.first->end) < std::pair(right.first->begin, right.first->end);
  });
  std::uint64_t place = 0;
  for (const auto& [entry, name] : by_place) {
    if (entry->begin != place) {
      fail("tensor " + quoted_text(*name, 200) + (entry->begin < place ? " overlaps another one" : " has a hole before it"));
    }
    place = entry->end;
    if (place > header.data_size) fail("it ends within tensor " + quoted_text(*name, 200));
  }
  if (place != header.data_size) {
    fail(format("it has {} bytes after its last tensor", header.data_size - place));
  }
}

}  // namespace

const ElementType* element_type(std::string_view ElementType::*name, std::string_view wanted) {
  const auto found =
      std::find_if(kElementTypes.begin(), kElementTypes.end(), [&](const ElementType& type) { return type.*name == wanted; });
  return found == kElementTypes.end() || wanted.empty() ? nullptr : &*found;
}

SafetensorsHeader parse_safetensors(std::string_view file) {
  const std::uint64_t length = read_length(file);
  Value json;
  try {
    // A tensor is a map of a text and two lists of numbers.
    json = parse_json(file.substr(kLengthBytes, length), {.depth = 3, .list_size = kMaxDimensions});
  } catch (const IoError& error) {
    fail(format("its header is wrong: {}", error.what()));
  }
  if (!json.is_map()) fail("its header is not a map");
  SafetensorsHeader header;
  header.data_offset = kLengthBytes + length;
  header.data_size = file.size() - header.data_offset;
  for (const auto& [name, value] : json.as_map()) {
    if (name == kMetadataKey) {
      header.metadata = read_metadata(value);
    } else {
      header.tensors[name] = read_entry(value, "tensor " + quoted_text(name, 200));
    }
  }
  check_layout(header);
  return header;
}

std::string write_safetensors_header(const SafetensorsHeader& header, std::size_t least_size) {
  Value json(Value::Map{});
  Value::Map& members = json.as_map();
  Value metadata(Value::Map{});
  for (const auto& [key, text] : header.metadata) metadata[key] = text;
  if (!header.metadata.empty()) members.emplace_back(kMetadataKey, std::move(metadata));
  for (const auto& [name, entry] : header.tensors) {
    const Value::List offsets = {static_cast<std::int64_t>(entry.begin), static_cast<std::int64_t>(entry.end)};
    members.emplace_back(name, Value::Map{{"dtype", entry.dtype},
                                          {"shape", Value::List(entry.shape.begin(), entry.shape.end())},
                                          {"data_offsets", offsets}});
  }
  std::string text = to_json(json);
  text.append((kAlignment - (kLengthBytes + text.size()) % kAlignment) % kAlignment, ' ');
  if (kLengthBytes + text.size() < least_size) text.resize(least_size - kLengthBytes, ' ');
  if (text.size() > kMaxSafetensorsHeader) {
    throw IoError(
        format("the checkpoint's header would have {} bytes, more than a safetensors file may have: does a callback or the "
               "hyperparameters hold data that should be a tensor?",
               text.size()));
  }
  std::string bytes;
  for (std::size_t i = 0; i < kLengthBytes; ++i) bytes += static_cast<char>(text.size() >> (8 * i) & 0xff);
  return bytes + text;
}

bool looks_like_safetensors_index(std::string_view bytes) {
  constexpr std::size_t kLengthBytes = 8;  // of a safetensors file's header, of which some are always zero
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  return first < kLengthBytes && bytes[first] == '{' && bytes.substr(0, kLengthBytes).find('\0') == std::string_view::npos;
}

std::map<std::string, std::vector<std::string>> parse_safetensors_index(std::string_view text) {
  const Value json = parse_json(text);
  const Value* const places = json.find("weight_map");
  if (places == nullptr || !places->is_map())
    throw IoError("it is JSON, but not an index of safetensors files: it has no weight_map");
  std::map<std::string, std::vector<std::string>> files;
  for (const auto& [name, file] : places->as_map()) {
    const bool is_plain = file.is_string() && !file.as_string().empty() && file.as_string().find('/') == std::string::npos;
    if (!is_plain) throw IoError(format("its weight_map names no file of its folder for {}", quoted_text(name)));
    files[file.as_string()].push_back(name);
  }
  return files;
}

}  // namespace levin
