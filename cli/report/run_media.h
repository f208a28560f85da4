#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/config/value.h"

namespace levin::cli {

/// A file below a run's media/.
struct MediaFile {
  std::int64_t step = 0;
  std::string part;  ///< what its name has behind step and rank: "2" of "000120_2.png"
  std::filesystem::path path;
};
/// What a run, or one rank of it, has logged under one key.
struct MediaSeries {
  std::size_t run = 0;           ///< its index among the runs
  std::string kind;              ///< "images", "figures", "histograms", "texts" or "tables"
  std::string key;               ///< may have slashes; of other ranks than 0 with ", rank 1" behind it
  std::vector<MediaFile> files;  ///< the newest 12, by step
};

/// What loggers keep in RUN/media: KIND/KEY/STEP.png, STEP_rank1.png, STEP_2.png and so on, by kind and key. The pictures among
/// media/files count as figures; its other files are not shown, nor is what a link leads to.
std::vector<MediaSeries> find_media(const std::filesystem::path& run, std::size_t place);

/// What of the media a page shows.
struct EmbeddedMedia {
  /// A list of maps {"run", "kind", "key", "items": [{"step", "data"}]}. The data of an image or figure is a "data:" URI, of a
  /// text the text, of a table its rows.
  Value series;
  std::size_t left_out = 0;  ///< files for which there was no room, or that are not what their names say
};

/// Embeds files until they take so many bytes, the newest of each series first.
EmbeddedMedia embed_media(const std::vector<MediaSeries>& series, std::size_t bytes);

/// RFC 4648, with '=' at the end.
std::string base64(std::string_view bytes);

}  // namespace levin::cli
