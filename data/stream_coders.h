#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "levin/data/input_file.h"
#include "levin/data/zstd/coders.h"

namespace levin {

/// How many first bytes of a file tell its compression.
inline constexpr std::size_t kCompressionMark = 4;

/// What a file's first bytes say.
Compression compression_of(std::span<const char> begin);
/// What those of this file say; kNone for one that cannot be read.
Compression compression_of(const std::filesystem::path& file);

/// Of a compressed file. Throws ConfigError with what to install where its library is missing.
std::unique_ptr<StreamDecoder> make_decoder(Compression compression);
/// The same for writing, at the usual level; null for kNone. Equal bytes become equal files.
std::unique_ptr<StreamEncoder> make_encoder(Compression compression);

}  // namespace levin
