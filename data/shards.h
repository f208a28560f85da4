#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "levin/data/pipeline.h"
#include "levin/data/shard_writer.h"

namespace levin {

/// The samples of a tar file, which may be compressed by gzip or zstd: what flat_map() takes for paths. Of one that is not
/// compressed the bytes of samples that are passed over are not read. Throws IoError when it is read.
LEVIN_API Pipeline<ShardSample> samples_of(const std::filesystem::path& tar_file);

/// The samples of tar files in WebDataset's layout: from_files(patterns).flat_map(samples_of); files on servers are downloaded
/// ahead.
///
///     return levin::stream(levin::from_files("train-*.tar").shuffle().flat_map(levin::samples_of, {.at_once = 4})
///                              .shuffle(1000).map(decode).batch(64), {.num_workers = 4});
LEVIN_API Pipeline<ShardSample> from_shards(const std::vector<std::string>& patterns);
inline Pipeline<ShardSample> from_shards(const std::string& pattern) { return from_shards(std::vector<std::string>{pattern}); }

}  // namespace levin
