#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "levin/core/files/descriptor.h"

namespace levin {

/// What to do with a link.
enum class Links { kFollowed, kRefused };

/// Opens a regular file for reading. Anything else is refused, with errno set, without waiting: a FIFO would wait for a writer,
/// and a device may have no end.
Descriptor open_plain_file(const std::filesystem::path& file, Links links = Links::kFollowed);
/// The same as a stream, in a failed state if it did not open.
std::ifstream open_plain_stream(const std::filesystem::path& file);
/// Why it was refused, by its errno: "No such file or directory", "it is not a regular file".
std::string why_not_opened(int error);

/// The content of a regular file; unset when it cannot be read, is something else, or is longer than so many bytes.
std::optional<std::string> file_bytes(const std::filesystem::path& file, std::size_t longest = SIZE_MAX,
                                      Links links = Links::kFollowed);

/// The beginning of a regular file, so many bytes at most; "" when it cannot be read.
std::string first_bytes(const std::filesystem::path& file, std::size_t most);

}  // namespace levin
