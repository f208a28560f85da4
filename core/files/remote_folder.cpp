// What stands in a bucket of S3: lists, names, removal.
#include <fnmatch.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/wildcards.h"
#include "levin/core/files/paths.h"
#include "levin/core/files/remote_file.h"
#include "levin/core/files/remote_request.h"
#include "levin/core/files/s3.h"

namespace levin {
namespace {

namespace fs = std::filesystem;

constexpr long kNotFound = 404;

struct S3Object {
  std::string changed;  ///< "2026-01-31T12:00:00.000Z"
  std::string key;
};

/// What a bucket has whose keys begin with a text: all, or only what stands directly in this folder.
std::vector<S3Object> objects_in(const std::string& bucket, const std::string& prefix, bool only_directly = false) {
  std::vector<S3Object> objects;
  std::string token;
  const auto in_query = [](const std::string& text) { return replaced(url_encoded(text), "/", "%2F"); };
  do {
    // Signatures are of queries in alphabetical order.
    const std::string query =
        format("{}{}list-type=2&prefix={}", token.empty() ? "" : format("continuation-token={}&", in_query(token)),
               only_directly ? "delimiter=%2F&" : "", in_query(prefix));
    const HttpAnswer answer = answer_to("s3://" + bucket, s3_target({bucket, ""}, query), {});
    const std::vector<std::string> keys = elements_of(answer.body, "Key"), changed = elements_of(answer.body, "LastModified");
    for (std::size_t index = 0; index < keys.size(); ++index)
      objects.push_back({index < changed.size() ? changed[index] : "", keys[index]});
    const std::vector<std::string> next = elements_of(answer.body, "NextContinuationToken");
    token = next.empty() ? "" : next.front();
  } while (!token.empty());
  return objects;
}

}  // namespace

std::vector<std::string> remote_matches(const std::string& pattern) {
  std::vector<std::string> matches;
  for (const std::string& place : brace_expansions(pattern)) {
    const std::size_t wild = place.starts_with("s3://") ? place.find_first_of("*?") : std::string::npos;
    if (wild == std::string::npos) {
      matches.push_back(place);
      continue;
    }
    const S3Place all = s3_place(place);
    for (const S3Object& object : objects_in(all.bucket, all.key.substr(0, all.key.find_first_of("*?")))) {
      if (fnmatch(all.key.c_str(), object.key.c_str(), FNM_PATHNAME) == 0)
        matches.push_back(format("s3://{}/{}", all.bucket, object.key));
    }
  }
  if (matches.empty()) throw ConfigError(format("no file matches '{}'", shown_place(pattern)));
  return matches;
}

std::vector<fs::path> files_meant_by(const fs::path& path) {
  if (is_remote(path.string())) {
    const std::vector<std::string> places = remote_matches(path.string());
    return {places.begin(), places.end()};
  }
  std::error_code ignored;
  if (fs::exists(path, ignored) || !has_wildcards(path)) return {path};
  return matching_files(path);
}

bool is_there(const fs::path& place) {
  std::error_code ignored;
  if (!is_remote(place.native())) return fs::exists(place, ignored);
  try {
    return is_success(answer_to(place, target_of(place), {.method = "HEAD"}, RemoteAccess::kRead, kNotFound).status);
  } catch (const IoError&) {
    return false;
  }
}

fs::path absolute_place(const fs::path& place) { return is_remote(place.native()) ? place : fs::absolute(place); }

std::vector<fs::path> newest_files_at(const fs::path& folder, const std::string& extension) {
  if (!is_remote(folder.native())) return newest_files(folder, extension);
  if (!folder.native().starts_with("s3://")) return {};
  const S3Place place = s3_place(folder);
  std::vector<S3Object> objects = objects_in(
      place.bucket, place.key.empty() || place.key.ends_with('/') ? place.key : place.key + "/", /*only_directly=*/true);
  std::erase_if(objects, [&](const S3Object& object) { return !object.key.ends_with(extension); });
  // S3 counts whole seconds: of two of one second, step=10 is newer than step=9.
  std::ranges::sort(objects, [](const S3Object& left, const S3Object& right) {
    return std::tuple(left.changed, left.key.size(), left.key) > std::tuple(right.changed, right.key.size(), right.key);
  });
  std::vector<fs::path> files;
  for (const S3Object& object : objects) files.emplace_back(format("s3://{}/{}", place.bucket, object.key));
  return files;
}

void remove_remote_file(const std::string& place) {
  answer_to(place, target_of(place), {.method = "DELETE"}, RemoteAccess::kWrite, kNotFound);
}

}  // namespace levin
