#include "levin/core/files/remote_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/environment.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/files/descriptor.h"
#include "levin/core/files/file_bytes.h"
#include "levin/core/files/paths.h"
#include "levin/core/files/remote_request.h"

namespace levin {
namespace {

namespace fs = std::filesystem;

/// A text of 16 letters that is another one for another text.
std::string hash_of(std::string_view text) {
  Fnv1aHash hash;
  hash.add(text);
  return format("{:016x}", hash.value());
}

fs::path cache_folder() {
  const std::string own = environment("LEVIN_DATA_CACHE");
  return expand_home(own.empty() ? environment_or("LEVIN_CACHE", "~/.cache/levin") + "/data" : own);
}

/// A file of the cache, and what belongs to it.
struct CacheEntry {
  explicit CacheEntry(const std::string& place) : folder(cache_folder()) {
    const std::string path = place.substr(0, place.find('?'));
    std::string name = path.substr(path.rfind('/') + 1);
    std::ranges::replace_if(
        name, [](char letter) { return letter == '\0' || letter == '\\'; }, '_');
    constexpr std::size_t kLongest = 100;
    if (name.size() > kLongest) name = name.substr(name.size() - kLongest);  // the ending says what it is
    file = folder / format("{}-{}", hash_of(place), name);
  }
  fs::path with(const char* ending) const { return file.string() + ending; }

  fs::path folder;
  fs::path file;
};

/// Held by the one process that downloads a file.
class DownloadLock {
 public:
  explicit DownloadLock(const fs::path& file) : descriptor_(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (!descriptor_.is_open()) throw IoError(format("'{}' cannot be made: {}", file.string(), std::strerror(errno)));
    while (flock(descriptor_.number(), LOCK_EX) != 0 && errno == EINTR) {
    }
  }

 private:
  Descriptor descriptor_;
};

std::uint64_t cache_bound() {
  const std::string given = environment_or("LEVIN_DATA_CACHE_GB", "100");
  double gigabytes = 0;
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), gigabytes);
  if (error != std::errc() || end != given.data() + given.size() || gigabytes < 0) {
    throw ConfigError(format("LEVIN_DATA_CACHE_GB={} is no number of gigabytes", given));
  }
  return static_cast<std::uint64_t>(gigabytes * 1e9);
}

/// Removes the files that were used longest ago, but not `kept`, until the cache is small enough.
void bound_cache(const fs::path& folder, const fs::path& kept) {
  struct Cached {
    fs::file_time_type used;
    fs::path file;
    std::uint64_t size;
  };
  std::vector<Cached> files;
  std::uint64_t all = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (!entry.is_regular_file(ignored)) continue;
    const std::uint64_t size = entry.file_size(ignored);
    if (ignored) continue;
    all += size;
    const std::string ending = entry.path().extension();
    if (ending != ".lock" && ending != ".version") files.push_back({entry.last_write_time(ignored), entry.path(), size});
  }
  std::ranges::sort(files, {}, &Cached::used);
  const std::uint64_t bound = cache_bound();
  for (const Cached& file : files) {
    if (all <= bound) return;
    if (file.file == kept) continue;
    fs::remove(file.file, ignored);  // a reader that has it open reads on
    all -= file.size;
  }
}

/// What tells a version of a file from others: its ETag, or when it was changed; empty where the server says neither.
std::string version_of(const HttpAnswer& answer) {
  for (const char* name : {"etag", "last-modified"}) {
    const auto header = answer.headers.find(name);
    if (header != answer.headers.end()) return header->second;
  }
  return "";
}

bool is_etag(const std::string& version) { return version.starts_with('"') || version.starts_with("W/"); }

/// One attempt to bring the file into the cache, on from where an earlier one was cut off; status 304: it is there.
HttpAnswer fetch(HttpClient& client, const HttpTarget& target, const CacheEntry& entry) {
  const fs::path part = entry.with(".part"), part_version = entry.with(".part.version");
  std::error_code none;
  HttpRequest request{.url = target.url, .headers = target.headers};
  const std::string cached = fs::exists(entry.file) ? file_bytes(entry.with(".version")).value_or("") : "";
  if (!cached.empty()) request.headers.push_back((is_etag(cached) ? "If-None-Match: " : "If-Modified-Since: ") + cached);
  const std::string begun = fs::exists(part) ? file_bytes(part_version).value_or("") : "";
  if (!begun.empty() && !begun.starts_with("W/")) {
    request.headers.push_back(format("Range: bytes={}-", fs::file_size(part)));
    request.headers.push_back("If-Range: " + begun);
  }
  std::ofstream stream;
  request.take = [&](std::string_view bytes, const HttpAnswer& answer) {
    if (!stream.is_open()) {
      constexpr long kPartialContent = 206;
      const bool goes_on = answer.status == kPartialContent;
      if (!goes_on) std::ofstream(part_version, std::ios::binary) << version_of(answer);
      stream.open(part, std::ios::binary | (goes_on ? std::ios::app : std::ios::trunc));
    }
    stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    // Such as a full disk: no other attempt would help.
    if (!stream) throw Error(format("'{}' cannot be written: {}", part.string(), std::strerror(errno)));
  };
  HttpAnswer answer = client.ask(request);
  constexpr long kRangeNotSatisfiable = 416;
  if (answer.status == kRangeNotSatisfiable) {
    // What there is of the file is not its beginning.
    fs::remove(part, none);
    fs::remove(part_version, none);
    return fetch(client, target, entry);
  }
  if (!is_success(answer.status)) return answer;
  if (!stream.is_open()) stream.open(part, std::ios::binary | std::ios::trunc);  // an empty file
  stream.close();
  fs::remove(part_version, none);
  fs::rename(part, entry.file);
  std::ofstream(entry.with(".version"), std::ios::binary) << version_of(answer);
  return answer;
}

}  // namespace

fs::path upload_folder() { return cache_folder() / "uploads"; }

fs::path local_copy(const std::string& place) {
  if (!is_remote(place)) return place;
  const CacheEntry entry(place);
  std::error_code error;
  fs::create_directories(entry.folder, error);
  if (error) throw IoError(format("the folder '{}' cannot be made: {}", entry.folder.string(), error.message()));
  const DownloadLock lock(entry.with(".lock"));
  const HttpTarget target = target_of(place);
  HttpClient client(target.credentials);
  const HttpAnswer answer = answer_to(place, RemoteAccess::kRead, [&] { return fetch(client, target, entry); });
  constexpr long kNotModified = 304;
  if (answer.status != kNotModified && !is_success(answer.status))
    throw IoError(format("'{}' cannot be read: {}", shown_place(place), explained(answer.status)));
  fs::last_write_time(entry.file, fs::file_time_type::clock::now(), error);  // what is used stays
  if (answer.status != kNotModified) bound_cache(entry.folder, entry.file);
  return entry.file;
}

}  // namespace levin
