#include "levin/data/input_file.h"

#include <fcntl.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/files/descriptor.h"
#include "levin/core/files/paths.h"
#include "levin/core/files/remote_file.h"

namespace levin {
namespace {

constexpr std::uint64_t kAlwaysAllowed = 64u << 20;  // bytes that any file may expand to

const char* kind_of(std::filesystem::file_type type) {
  using Type = std::filesystem::file_type;
  if (type == Type::directory) return "a folder";
  if (type == Type::fifo) return "a pipe";
  return type == Type::socket ? "a socket" : "a device";
}

/// True where a program has the other end of a pipe open. Reads nothing from it.
bool has_writer(int pipe) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return true;
  const Descriptor first(ends[0]);
  const Descriptor second(ends[1]);
  // Copies a byte; 0 says that there is none, and no writer.
  return tee(pipe, second.number(), 1, SPLICE_F_NONBLOCK) != 0;
}

}  // namespace

InputFile::InputFile(const std::filesystem::path& path, double max_expansion, Pipes pipes)
    : path_(path), max_expansion_(max_expansion), buffer_(1u << 20) {
  const std::filesystem::path copy = local_copy(path.string());
  std::error_code error;
  const std::filesystem::file_type type = std::filesystem::status(copy, error).type();
  if (error) fail(error.message() + working_folder_of(path));
  if (type == std::filesystem::file_type::fifo && pipes == Pipes::kRead) {
    open_pipe();
    return;
  }
  // A pipe without a writer would be waited for.
  if (type != std::filesystem::file_type::regular) fail(format("it is {}, not a file", kind_of(type)));
  size_on_disk_ = std::filesystem::file_size(copy, error);
  // Passes an uncompressed file on unchanged.
  errno = ENOMEM;
  file_ = gzopen(copy.c_str(), "rbe");
  if (file_ == nullptr) fail(std::strerror(errno));
}

void InputFile::open_pipe() {
  // Without O_NONBLOCK a pipe that nothing writes to would be waited for without end.
  Descriptor pipe(open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!pipe.is_open()) fail(std::strerror(errno));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  if (!is_ready_by(deadline, pipe.number(), POLLIN) && !has_writer(pipe.number()))
    fail("it is a pipe, and no program writes to it");
  fcntl(pipe.number(), F_SETFL, fcntl(pipe.number(), F_GETFL) & ~O_NONBLOCK);
  errno = ENOMEM;
  file_ = gzdopen(pipe.number(), "rb");
  if (file_ == nullptr) fail(std::strerror(errno));
  pipe.release();
}

InputFile::~InputFile() { gzclose_r(file_); }

bool InputFile::append_piece_to(std::string& content) {
  if (underflow() == traits_type::eof()) return false;
  content.append(gptr(), egptr());
  return true;
}

void InputFile::fail(const std::string& reason) const { throw IoError(format("{}: cannot be read: {}", path_, reason)); }

InputFile::int_type InputFile::underflow() {
  errno = 0;
  const int count = gzread(file_, buffer_.data(), static_cast<unsigned>(buffer_.size()));
  if (count > 0) {
    read_ += static_cast<std::uint64_t>(count);
    if (gzdirect(file_) == 0) check_expansion();
    setg(buffer_.data(), buffer_.data(), buffer_.data() + count);
    return traits_type::to_int_type(buffer_[0]);
  }
  int code = Z_OK;
  const char* reason = gzerror(file_, &code);
  if (code == Z_BUF_ERROR) fail("the compressed data ends too early");
  if (count < 0 || code != Z_OK) fail(code == Z_ERRNO ? std::strerror(errno) : reason);
  return traits_type::eof();
}

void InputFile::check_expansion() const {
  if (read_ <= kAlwaysAllowed) return;
  // Of what was read so far: a file that was made to fill the memory is known long before it has.
  const auto compressed = static_cast<std::uint64_t>(std::max<z_off_t>(gzoffset(file_), 0));
  if (static_cast<double>(read_) <= max_expansion_ * static_cast<double>(compressed)) return;
  fail(
      format("its first {} bytes expand to {}, as those of a file do that was made to fill the memory; if that is right, raise "
             "`max_expansion`, or decompress it",
             compressed, read_));
}

}  // namespace levin
