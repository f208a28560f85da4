#include "levin/data/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "levin/core/base/format.h"
#include "levin/core/error.h"
#include "levin/core/files/path_text.h"

namespace levin {

namespace {

constexpr std::uint64_t kAlwaysAllowed = 64u << 20;  // bytes that any file may expand to
constexpr std::size_t kChunk = 1u << 20;

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

}  // namespace

struct InputFile::Stream {
  explicit Stream(gzFile opened) : file(opened) {}
  ~Stream() { gzclose_r(file); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  gzFile file;
};

InputFile::InputFile(const std::filesystem::path& path, double max_expansion) : path_(path), max_expansion_(max_expansion) {
  // A pipe without a writer would be waited for without O_NONBLOCK. On files it has no meaning.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail(std::strerror(errno) + working_folder_of(path));
  struct stat status {};
  const bool known = fstat(descriptor, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    const std::string reason = known ? format("it is {}, not a file", kind_of(status.st_mode)) : std::strerror(errno);
    close(descriptor);
    fail(reason);
  }
  size_on_disk_ = static_cast<std::uint64_t>(status.st_size);
  // Passes a file that is not compressed on as it is.
  const gzFile opened = gzdopen(descriptor, "rb");
  if (opened == nullptr) {
    close(descriptor);
    fail("not enough memory");
  }
  stream_ = std::make_unique<Stream>(opened);
}

InputFile::~InputFile() = default;

void InputFile::fail(const std::string& reason) const { throw IoError(format("{}: cannot be read: {}", path_, reason)); }

std::size_t InputFile::read(char* buffer, std::size_t size) {
  errno = 0;
  const int count = gzread(stream_->file, buffer, static_cast<unsigned>(std::min(size, kChunk)));
  if (count > 0) {
    read_ += static_cast<std::uint64_t>(count);
    if (gzdirect(stream_->file) == 0) check_expansion();
    return static_cast<std::size_t>(count);
  }
  int code = Z_OK;
  const char* reason = gzerror(stream_->file, &code);
  if (code == Z_BUF_ERROR) fail("the compressed data ends too early");
  if (count < 0 || code != Z_OK) fail(code == Z_ERRNO ? std::strerror(errno) : reason);
  return 0;
}

void InputFile::check_expansion() const {
  if (read_ <= kAlwaysAllowed) return;
  // Of what was read so far: a file that was made to fill the memory is known long before it has.
  const auto compressed = static_cast<std::uint64_t>(std::max<z_off_t>(gzoffset(stream_->file), 0));
  if (static_cast<double>(read_) <= max_expansion_ * static_cast<double>(compressed)) return;
  fail(
      format("its first {} bytes expand to {}, as those of a file do that was made to fill the memory; if that is right, raise "
             "`max_expansion`, or decompress it",
             compressed, read_));
}

std::string read_input_file(const std::filesystem::path& path, double max_expansion) {
  InputFile file(path, max_expansion);
  std::string content;
  try {
    content.reserve(file.size_on_disk() + 1);
    while (true) {
      const std::size_t size = content.size();
      const std::size_t room = content.capacity() - size;
      content.resize(size + (room > 0 ? std::min(room, kChunk) : kChunk));
      const std::size_t count = file.read(content.data() + size, content.size() - size);
      content.resize(size + count);
      if (count == 0) return content;
    }
  } catch (const std::bad_alloc&) {
    throw IoError(path.string() + ": cannot be read: there is not enough memory for it");
  }
}

}  // namespace levin
