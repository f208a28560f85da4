#include "levin/core/checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/files/descriptor.h"
#include "levin/core/files/paths.h"
#include "levin/core/files/remote_file.h"

namespace levin {

namespace {

[[noreturn]] void throw_unreadable(int error, const std::string& where = "") {
  throw IoError(format("cannot be read ({}){}", std::generic_category().message(error), where));
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& place) {
  const std::filesystem::path file = local_copy(place.string());
  // Not blocking: opening a pipe must not wait for a writer.
  const Descriptor descriptor(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor.is_open()) throw_unreadable(errno, working_folder_of(file));
  struct stat status = {};
  if (fstat(descriptor.number(), &status) != 0 || !S_ISREG(status.st_mode)) {
    throw_unreadable(S_ISDIR(status.st_mode) ? EISDIR : EINVAL);
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;
  void* const mapping = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor.number(), 0);
  if (mapping == MAP_FAILED) throw_unreadable(errno);
  data_ = static_cast<char*>(mapping);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

std::uint32_t checksum_of(std::string_view bytes, std::uint32_t so_far) {
  if (bytes.empty()) return so_far;  // zlib restarts on a null pointer.
  return static_cast<std::uint32_t>(crc32_z(so_far, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

namespace {

// The beginnings of tensor files that levin does not read.
constexpr std::array<std::pair<std::string_view, const char*>, 7> kOthers = {{
    // The pickle of a number.
    {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19",
     "it is in the format of torch before version 1.6, which levin does not read; convert it in Python: "
     "torch.save(torch.load(FILE), "
     "NEW_FILE)"},
    {"\x93NUMPY", "it is a NumPy array; write it with safetensors.numpy.save_file() in Python"},
    {"GGUF", "it is a GGUF file for llama.cpp; use the model's safetensors files"},
    {"\x89HDF\r\n", "it is an HDF5 file, such as Keras writes; write its weights with safetensors.numpy.save_file() in Python"},
    {"\x1f\x8b", "it is compressed with gzip; unpack it first"},
    {"version https://git-lfs", "it is a Git LFS pointer; get the file itself with `git lfs pull`"},
    {"<!DOCTYPE", "it is a web page: the download was refused, or its address is another one"},
}};

bool is_text(std::string_view bytes) {
  constexpr std::size_t kLookedAt = 1024;
  return std::none_of(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(std::min(bytes.size(), kLookedAt)),
                      [](char c) { return static_cast<unsigned char>(c) < ' ' && c != '\t' && c != '\n' && c != '\r'; });
}

}  // namespace

void refuse_other_formats(std::string_view bytes) {
  if (bytes.empty()) throw IoError("it is empty");
  for (const auto& [beginning, what] : kOthers) {
    if (bytes.starts_with(beginning)) throw IoError(what);
  }
  // After the length of its header a safetensors file has a map.
  const bool has_header = bytes.size() > 8 && bytes[8] == '{';
  // As pickle.dump() writes it, of protocol 2 and later.
  const bool is_pickle = bytes.size() > 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5 && bytes.back() == '.';
  if (!has_header && is_pickle) {
    throw IoError(
        "it is a pickle that torch.save() has not written; load it and write its tensors with torch.save() in Python");
  }
  if (is_text(bytes)) throw IoError("it is a text file, such as a configuration, and holds no tensors");
}

}  // namespace levin
