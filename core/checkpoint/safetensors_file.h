#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/fwd.h"
#include "levin/core/config/value.h"

namespace levin {

/// One tensor of a safetensors file, as the file's header describes it.
struct SafetensorsEntry {
  std::string dtype;                ///< "F32", "BF16", "I64", "BOOL", …
  std::vector<std::int64_t> shape;  ///< empty for a scalar
  std::uint64_t begin = 0;          ///< first byte of the data, from the start of the data section
  std::uint64_t end = 0;            ///< one past the last byte
};

/// The header of a safetensors file: 8 bytes of length, JSON, then the data.
struct SafetensorsHeader {
  std::map<std::string, SafetensorsEntry> tensors;
  std::map<std::string, std::string> metadata;  ///< `__metadata__`
  std::uint64_t data_offset = 0;                ///< where the data section begins in the file
  std::uint64_t data_size = 0;
};

/// The longest header that is read or written: the limit of the format's reference implementation.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

/// A type of elements, and what it is called.
struct ElementType {
  std::string_view safetensors;  ///< "F32"; empty: safetensors files do not have it
  std::uint64_t size;            ///< in bytes
  std::string_view torch;        ///< "float32"
  std::string_view storage;      ///< "FloatStorage", as torch.save() calls memory of it; empty: without a type
};
/// The type that one of its names is of: `element_type(&ElementType::torch, "float32")`; nullptr for none.
const ElementType* element_type(std::string_view ElementType::*name, std::string_view wanted);

/// Reads the header of a file whose bytes are `file`. Trusts nothing: throws IoError, saying what is wrong, on a length beyond
/// the file or the limit, JSON that is not strict, an unknown field or dtype, a negative or overflowing shape, a byte range
/// that does not fit its shape, lies outside of the file, overlaps another, or leaves a hole, and on bytes after the last
/// tensor.
SafetensorsHeader parse_safetensors(std::string_view file);

/// The first bytes of a file: length and JSON, padded so that the data section begins at a multiple of 64 bytes, and not before
/// `least_size`. Throws IoError when the header would be longer than the limit.
std::string write_safetensors_header(const SafetensorsHeader& header, std::size_t least_size = 0);

/// Whether a file may be Hugging Face's index of a model in several safetensors files: a JSON map.
bool looks_like_safetensors_index(std::string_view bytes);

/// The tensors of each file in an index. The files are in its folder. Throws IoError for anything else, such as a file
/// elsewhere.
std::map<std::string, std::vector<std::string>> parse_safetensors_index(std::string_view text);

struct ChecksumReport;
/// The checksums of a safetensors file's bytes: only levin's checkpoints have some. Throws IoError when it is not a whole
/// safetensors file.
std::vector<ChecksumReport> safetensors_checks(std::string_view file);

/// A safetensors file, and the names of its tensors in its order. Throws IoError, without the file's name.
Checkpoint read_safetensors(const std::filesystem::path& file, std::vector<std::string>& names);

/// Throws IoError: "Cannot load '<file>': <error>.", with the newest whole checkpoint of the same folder if there is one.
[[noreturn]] void throw_unreadable(const std::filesystem::path& file, const IoError& error);
/// What `step` gives; an IoError becomes one of throw_unreadable().
template <class Step>
auto naming_file(const std::filesystem::path& file, const Step& step) {
  try {
    return step();
  } catch (const IoError& error) {
    throw_unreadable(file, error);
  }
}

/// Writes tensors as any program reads them. With a manifest it is a checkpoint of levin's. Throws IoError.
void save_safetensors(const std::filesystem::path& file, const std::map<std::string, at::Tensor>& tensors,
                      const Value* manifest = nullptr);

}  // namespace levin
