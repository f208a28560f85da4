#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/base/fwd.h"

namespace levin {

/// True for an address: http://, https:// and s3://.
inline bool is_remote(std::string_view place) {
  return place.starts_with("http://") || place.starts_with("https://") || place.starts_with("s3://");
}

/// A file that can be opened: a local path itself; of an address its copy in the cache, which is made, or renewed where the
/// server has another version.
///
/// The cache is the folder LEVIN_DATA_CACHE ($LEVIN_CACHE/data, ~/.cache/levin/data), and holds at most LEVIN_DATA_CACHE_GB
/// (100) gigabytes: the files that were used longest ago go first. A download that was cut off goes on where it was; one that
/// fails is tried again, five times in half a minute.
///
/// s3://BUCKET/KEY is asked for with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or those of AWS_PROFILE in
/// ~/.aws/credentials (AWS_SHARED_CREDENTIALS_FILE); without any as a public file. AWS_REGION (AWS_DEFAULT_REGION, us-east-1)
/// and AWS_ENDPOINT_URL say where. Throws IoError, without credentials in its text. Threading and processes: any; one of them
/// downloads a file.
LEVIN_API std::filesystem::path local_copy(const std::string& place);

/// The addresses that an s3:// pattern with * and ? in its key stands for, in alphabetical order; another address is itself,
/// with {000..099} and {a,b} in it written out. Throws IoError.
LEVIN_API std::vector<std::string> remote_matches(const std::string& pattern);

/// A path itself, or the files that a pattern stands for, here or on a server (remote_matches()); empty where none is here.
LEVIN_API std::vector<std::filesystem::path> files_meant_by(const std::filesystem::path& path);

/// Stores a file under an s3:// address: it appears there whole. A server that does not answer is asked for ten minutes. Throws
/// IoError.
LEVIN_API void upload_file(const std::filesystem::path& file, const std::string& place);

/// Removes what stands under an s3:// address, if anything. Throws IoError.
LEVIN_API void remove_remote_file(const std::string& place);

/// Whether there is a file under a path or an address. One that cannot be examined counts as missing.
LEVIN_API bool is_there(const std::filesystem::path& place);

/// The absolute path; an address as it is.
LEVIN_API std::filesystem::path absolute_place(const std::filesystem::path& place);

/// The files of a folder, or those that begin with an s3:// address and a slash, with this extension, the newest first. Empty
/// where a folder cannot be read. Throws IoError where a server does not list them.
LEVIN_API std::vector<std::filesystem::path> newest_files_at(const std::filesystem::path& folder, const std::string& extension);

}  // namespace levin
