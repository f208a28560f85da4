#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/data/input_file.h"

namespace levin {

/// A sample of a shard: the files of a tar file whose names differ in what follows the first dot of their last part, as
/// WebDataset writes them: "0017.jpg" and "0017.cls" are "jpg" and "cls" of the sample "0017".
struct LEVIN_API ShardSample {
  std::string key;
  std::vector<std::pair<std::string, std::string>> files;  ///< names, such as "jpg", and bytes

  bool contains(std::string_view name) const;
  /// Bytes. Throws IoError, which lists the sample's files, when none has the name.
  const std::string& operator[](std::string_view name) const;
  /// The bytes as a whole number, such as of a class. Throws IoError when they are none.
  std::int64_t number(std::string_view name) const;
};

/// Options of ShardWriter.
struct LEVIN_API ShardWriterOptions {
  std::int64_t max_samples = 10'000;               ///< of a shard
  std::int64_t max_bytes = std::int64_t{1} << 30;  ///< after which a shard takes no more samples
  /// Of the shards. A compressed one is read from its beginning by each rank, whichever of its samples it needs. kZstd needs
  /// libzstd (ConfigError).
  Compression compression = Compression::kNone;
};

/// Writes samples into tar files that samples_of(), WebDataset and tar read. Each appears when it is whole.
class LEVIN_API ShardWriter {
 public:
  /// `folder`/`prefix`-000000.tar and so on, with .gz or .zst behind it where they are compressed; the folder is made. Throws
  /// IoError.
  ShardWriter(std::filesystem::path folder, std::string prefix, const ShardWriterOptions& options = {});
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  /// Throws MisuseError for a key or name that could not be told apart when read, IoError such as on a full disk.
  void add(const ShardSample& sample);
  /// Completes the last shard. Without it, the shard that was begun does not appear.
  void finish();
  std::int64_t samples() const { return samples_; }
  const std::vector<std::filesystem::path>& shards() const { return shards_; }

 private:
  struct OpenShard;
  void complete();

  std::filesystem::path folder_;
  std::string prefix_;
  ShardWriterOptions options_;
  std::unique_ptr<OpenShard> open_;
  std::int64_t samples_ = 0;
  std::vector<std::filesystem::path> shards_;  ///< that are complete
};

}  // namespace levin
