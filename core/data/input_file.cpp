#include "levin/core/data/input_file.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>

#include "levin/core/error.h"

namespace levin {

std::string read_input_file(const std::filesystem::path& path) {
  const auto fail = [&path](const std::string& reason) { throw IoError(path.string() + ": cannot be read: " + reason); };
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) fail("it is a folder");
  errno = 0;
  const auto close = [](gzFile_s* file) { gzclose_r(file); };
  const std::unique_ptr<gzFile_s, decltype(close)> file(gzopen(path.c_str(), "rb"), close);
  if (!file) fail(errno != 0 ? std::strerror(errno) : "not enough memory");
  // gzread passes a file that is not compressed on as it is.
  constexpr unsigned kChunk = 1u << 20;
  std::string content;
  while (true) {
    const std::size_t size = content.size();
    content.resize(size + kChunk);
    const int read = gzread(file.get(), content.data() + size, kChunk);
    content.resize(size + static_cast<std::size_t>(std::max(read, 0)));
    if (read > 0) continue;
    int code = Z_OK;
    const char* reason = gzerror(file.get(), &code);
    if (code == Z_BUF_ERROR) fail("the compressed data ends too early");
    if (read < 0 || code != Z_OK) fail(code == Z_ERRNO ? std::strerror(errno) : reason);
    return content;
  }
}

namespace detail {

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

}  // namespace detail

}  // namespace levin
