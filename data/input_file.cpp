#include "levin/data/input_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/files/descriptor.h"
#include "levin/core/files/paths.h"
#include "levin/core/files/remote_file.h"
#include "levin/data/stream_coders.h"

namespace levin {
namespace {

constexpr std::size_t kPiece = 1u << 20;             // bytes that are read at a time
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

const char* ending_of(Compression compression) {
  if (compression == Compression::kNone) return "";
  return compression == Compression::kGzip ? ".gz" : ".zst";
}

std::filesystem::path without_compression_ending(const std::filesystem::path& path) {
  const std::filesystem::path ending = path.extension();
  const bool is_one = ending == ending_of(Compression::kGzip) || ending == ending_of(Compression::kZstd);
  return is_one ? std::filesystem::path(path).replace_extension() : path;
}

InputFile::InputFile(const std::filesystem::path& path, double max_expansion, Pipes pipes)
    : path_(path), max_expansion_(max_expansion), raw_(kPiece) {
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
  descriptor_ = open(copy.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) fail(std::strerror(errno));
}

void InputFile::open_pipe() {
  // Without O_NONBLOCK a pipe that nothing writes to would be waited for without end.
  Descriptor pipe(open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!pipe.is_open()) fail(std::strerror(errno));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  if (!is_ready_by(deadline, pipe.number(), POLLIN) && !has_writer(pipe.number()))
    fail("it is a pipe, and no program writes to it");
  fcntl(pipe.number(), F_SETFL, fcntl(pipe.number(), F_GETFL) & ~O_NONBLOCK);
  descriptor_ = pipe.release();
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool InputFile::append_piece_to(std::string& content) {
  if (underflow() == traits_type::eof()) return false;
  content.append(gptr(), egptr());
  return true;
}

void InputFile::fail(const std::string& reason) const { throw IoError(format("{}: cannot be read: {}", path_, reason)); }

/// Reads more of the file behind what is unread. False at its end.
bool InputFile::fill() {
  std::copy(unread_.begin(), unread_.end(), raw_.begin());
  ssize_t count = 0;
  do {
    count = ::read(descriptor_, raw_.data() + unread_.size(), raw_.size() - unread_.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) fail(std::strerror(errno));
  raw_read_ += static_cast<std::uint64_t>(count);
  unread_ = std::span<const char>(raw_).first(unread_.size() + static_cast<std::size_t>(count));
  return count > 0;
}

/// Reads so much that the compression is known.
void InputFile::begin() {
  has_begun_ = true;
  while (unread_.size() < kCompressionMark && fill()) {
  }
  const Compression compression = compression_of(unread_);
  if (compression == Compression::kNone) return;
  decoder_ = make_decoder(compression);
  buffer_.resize(kPiece);
}

InputFile::int_type InputFile::underflow() {
  if (!has_begun_) begin();
  setg(nullptr, nullptr, nullptr);
  if (!decoder_) {
    if (unread_.empty() && !fill()) return traits_type::eof();
    const std::size_t count = std::exchange(unread_, {}).size();
    setg(raw_.data(), raw_.data(), raw_.data() + count);
    return traits_type::to_int_type(raw_[0]);
  }
  const std::size_t count = decompress();
  if (count == 0) return traits_type::eof();
  setg(buffer_.data(), buffer_.data(), buffer_.data() + count);
  return traits_type::to_int_type(buffer_[0]);
}

/// Fills the buffer with what comes next. 0: that was all.
std::size_t InputFile::decompress() {
  bool has_more = true;
  while (true) {
    CoderStep step;
    try {
      step = decoder_->decode(unread_, buffer_);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      fail(format("the compressed data is damaged before byte {}: {}", raw_read_, error.what()));
    }
    unread_ = unread_.subspan(step.taken);
    if (step.made > 0) {
      read_ += step.made;
      check_expansion();
      return step.made;
    }
    if (step.taken > 0) continue;
    if (!has_more) {
      if (decoder_->is_whole()) return 0;
      fail(format("the compressed data ends too early, after {} bytes", raw_read_));
    }
    has_more = fill();
  }
}

void InputFile::check_expansion() const {
  if (read_ <= kAlwaysAllowed) return;
  // Of what was read so far: a file that was made to fill the memory is known long before it has.
  const std::uint64_t compressed = raw_read_ - unread_.size();
  if (static_cast<double>(read_) <= max_expansion_ * static_cast<double>(compressed)) return;
  fail(
      format("its first {} bytes expand to {}, as those of a file do that was made to fill the memory; if that is right, raise "
             "`max_expansion`, or decompress it",
             compressed, read_));
}

}  // namespace levin
