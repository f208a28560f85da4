#include "levin/core/checkpoint/file_content.h"

#include <algorithm>
#include <array>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/checkpoint/safetensors_index.h"

namespace levin {
namespace {

// How files begin that hold tensors, and are not read.
constexpr std::array<std::pair<std::string_view, const char*>, 7> kOthers = {{
    // The pickle of a number.
    {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19",
     "it is in the format of torch before version 1.6, which is not read; convert it in Python: torch.save(torch.load(FILE), "
     "NEW_FILE)"},
    {"\x93NUMPY", "it is an array of NumPy's; write it with safetensors.numpy.save_file() in Python"},
    {"GGUF", "it is a GGUF file, as llama.cpp takes; take the model's safetensors files"},
    {"\x89HDF\r\n", "it is an HDF5 file, as Keras writes; write its weights with safetensors.numpy.save_file() in Python"},
    {"\x1f\x8b", "it is compressed with gzip; unpack it first"},
    {"version https://git-lfs", "it is Git LFS's pointer to the file; get the file itself with `git lfs pull`"},
    {"<!DOCTYPE", "it is a web page; was the download refused?"},
}};

/// Pickles of protocol 2 and later, as pickle.dump() writes them.
bool is_pickle(std::string_view bytes) {
  return bytes.size() > 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5 && bytes.back() == '.';
}

bool is_text(std::string_view bytes) {
  constexpr std::size_t kLookedAt = 1024;
  return std::none_of(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(std::min(bytes.size(), kLookedAt)),
                      [](char c) { return static_cast<unsigned char>(c) < ' ' && c != '\t' && c != '\n' && c != '\r'; });
}

}  // namespace

FileContent file_content(std::string_view bytes) {
  if (bytes.empty()) throw IoError("it is empty");
  if (bytes.starts_with("PK\x03\x04")) return FileContent::kTorch;
  for (const auto& [beginning, what] : kOthers) {
    if (bytes.starts_with(beginning)) throw IoError(what);
  }
  if (looks_like_safetensors_index(bytes)) return FileContent::kIndex;
  // After the length of its header a safetensors file has a map.
  const bool has_header = bytes.size() > 8 && bytes[8] == '{';
  if (!has_header && is_pickle(bytes)) {
    throw IoError(
        "it is a pickle that torch.save() has not written; load it and write its tensors with torch.save() in Python");
  }
  if (is_text(bytes)) throw IoError("it is a text, as a configuration is, and holds no tensors");
  return FileContent::kSafetensors;
}

}  // namespace levin
