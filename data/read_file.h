#pragma once

#include <filesystem>
#include <string>

#include "levin/core/base/fwd.h"

namespace levin {

/// How many times its own size what is compressed may be unless a user sets another number. Tables of measurements compress
/// some 5 times, those with 99 zeros in 100 numbers 100 times; gzip's limit, which zeros alone come near, is 1032, and zstd has
/// none.
inline constexpr double kMaxExpansion = 100.0;

/// The whole content of a file, decompressed when it is a gzip or zstd file. Memory follows what the file really holds. Throws
/// IoError, naming it and the reason, when it cannot be read or is not a file (a folder, a pipe, a device), and when compressed
/// data is damaged, ends too early or expands too much: to more than 64 MiB, and more than `max_expansion` times the compressed
/// bytes that it came from.
LEVIN_API std::string read_input_file(const std::filesystem::path& path, double max_expansion = kMaxExpansion);

}  // namespace levin
