#include "levin/core/files/remote_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <exception>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/environment.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/patience.h"
#include "levin/core/base/text.h"
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

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0 ? std::optional(number) : std::nullopt;
}

/// Which bytes of a file an answer holds.
struct ByteRange {
  std::int64_t first = 0;
  std::optional<std::int64_t> all = {};  ///< the size of the file, where it is known
  bool is_part = false;                  ///< the server says so
};

/// "bytes 1000-2999/3000", whatever the status: servers send it with 200, too. Without it an answer holds the whole file, but
/// for one that says that it is a part. Unset: nobody knows.
std::optional<ByteRange> range_of(const HttpAnswer& answer) {
  const auto header = answer.headers.find("content-range");
  if (header == answer.headers.end()) {
    constexpr long kPartialContent = 206;
    if (answer.status == kPartialContent) return std::nullopt;
    const auto length = answer.headers.find("content-length");
    return ByteRange{.all = length == answer.headers.end() ? std::nullopt : number_in(length->second)};
  }
  std::string_view text = header->second;
  if (text.starts_with("bytes ")) text.remove_prefix(std::string_view("bytes ").size());
  const std::size_t dash = text.find('-'), slash = text.find('/');
  const auto first = dash == std::string_view::npos ? std::nullopt : number_in(text.substr(0, dash));
  if (!first || slash == std::string_view::npos) return std::nullopt;
  return ByteRange{.first = *first, .all = number_in(text.substr(slash + 1)), .is_part = true};
}

/// Thrown where an answer is no part of the file whose beginning is there.
struct OtherFile : std::exception {};

/// A file of which an attempt may leave a part to the next one, with the version and the size that the server stated.
class PartialFile {
 public:
  explicit PartialFile(const CacheEntry& entry) : path_(entry.with(".part")), notes_(entry.with(".part.version")) {
    std::error_code error;
    const auto size = static_cast<std::int64_t>(fs::file_size(path_, error));
    const std::string said = error ? "" : file_bytes(notes_).value_or("");
    const std::size_t line = said.find('\n');
    version_ = said.substr(0, line);
    if (version_.empty() || version_.starts_with("W/")) return;
    asked_ = size;
    if (line != std::string::npos) all_ = number_in(std::string_view(said).substr(line + 1));
  }

  /// Asks for what is missing.
  void add_headers(HttpRequest& request) const {
    if (!asked_) return;
    request.headers.push_back(format("Range: bytes={}-", *asked_));
    request.headers.push_back("If-Range: " + version_);
  }
  void write(std::string_view bytes, const HttpAnswer& answer) {
    if (!stream_.is_open()) begin(answer);
    stream_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    // Such as a full disk: no other attempt would help.
    if (!stream_) throw Error(format("'{}' cannot be written: {}", path_.string(), std::strerror(errno)));
  }
  /// Throws IoError where the answer was not the rest of the file.
  void finish(const HttpAnswer& answer, const fs::path& file) {
    if (!stream_.is_open()) begin(answer);  // an empty file
    stream_.close();
    const auto size = static_cast<std::int64_t>(fs::file_size(path_));
    if (all_ && size != *all_) {
      if (size > *all_) remove();
      throw IoError(format("{} of {} bytes came", size, *all_));
    }
    std::error_code none;
    fs::remove(notes_, none);
    fs::rename(path_, file);
  }
  void remove() {
    std::error_code none;
    stream_.close();
    fs::remove(path_, none);
    fs::remove(notes_, none);
  }
  bool is_begun() const { return asked_.has_value(); }

 private:
  /// Servers may ignore what they are asked for, or have another file by now.
  void begin(const HttpAnswer& answer) {
    const std::optional<ByteRange> range = range_of(answer);
    const std::string version = version_of(answer);
    if (asked_ && (!range || range->is_part)) {
      const bool fits = range && range->first == *asked_ && (version.empty() || version == version_) &&
                        (!all_ || !range->all || *all_ == *range->all);
      if (!fits) throw OtherFile();
      if (range->all) all_ = range->all;
      stream_.open(path_, std::ios::binary | std::ios::app);
      return;
    }
    if (!range || range->first != 0) throw IoError("the server sends a part of the file, and was asked for all");
    all_ = range->all;
    std::ofstream(notes_, std::ios::binary) << version << '\n' << (all_ ? std::to_string(*all_) : "");
    stream_.open(path_, std::ios::binary | std::ios::trunc);
  }

  fs::path path_;
  fs::path notes_;
  std::string version_;
  std::optional<std::int64_t> asked_;  ///< the byte from which on it is asked for; unset: from the beginning
  std::optional<std::int64_t> all_;    ///< the size that the server stated
  std::ofstream stream_;
};

/// One attempt to bring the file into the cache, on from where an earlier one was cut off; status 304: it is there.
HttpAnswer fetch(HttpClient& client, const HttpTarget& target, const CacheEntry& entry,
                 const HttpClient::OnProgress& on_progress) {
  HttpRequest request{.url = target.url, .headers = target.headers};
  const std::string cached = fs::exists(entry.file) ? file_bytes(entry.with(".version")).value_or("") : "";
  if (!cached.empty()) request.headers.push_back((is_etag(cached) ? "If-None-Match: " : "If-Modified-Since: ") + cached);
  PartialFile part(entry);
  part.add_headers(request);
  request.take = [&part](std::string_view bytes, const HttpAnswer& answer) { part.write(bytes, answer); };
  constexpr long kRangeNotSatisfiable = 416;
  try {
    HttpAnswer answer = client.ask(request, on_progress);
    if (answer.status == kRangeNotSatisfiable && part.is_begun()) throw OtherFile();
    if (!is_success(answer.status)) return answer;
    part.finish(answer, entry.file);
    std::ofstream(entry.with(".version"), std::ios::binary) << version_of(answer);
    return answer;
  } catch (const OtherFile&) {
    part.remove();
  }
  return fetch(client, target, entry, on_progress);
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
  SignalWatch watch;
  const auto goes_on = [&watch] { return watch.goes_on(); };
  const HttpClient::OnProgress on_progress = [&watch](std::int64_t) { return watch.goes_on(); };
  const HttpAnswer answer = answer_to(
      place, RemoteAccess::kRead, [&] { return fetch(client, target, entry, on_progress); }, goes_on);
  constexpr long kNotModified = 304;
  if (answer.status != kNotModified && !is_success(answer.status))
    throw IoError(format("'{}' cannot be read: {}", shown_place(place), explained(answer.status)));
  fs::last_write_time(entry.file, fs::file_time_type::clock::now(), error);  // what is used stays
  if (answer.status != kNotModified) bound_cache(entry.folder, entry.file);
  return entry.file;
}

}  // namespace levin
