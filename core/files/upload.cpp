// Files written to S3: one request, or several parts that appear as one file.
#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/files/remote_file.h"
#include "levin/core/files/remote_request.h"
#include "levin/core/files/s3.h"

namespace levin {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSmallestPart = std::int64_t{64} << 20;
constexpr std::int64_t kMostParts = 10'000;

/// https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateMultipartUpload.html. Nothing is there before finish().
class PartedUpload {
 public:
  PartedUpload(const std::string& place, const fs::path& file) : place_(place), file_(file), at_(s3_place(place)) {
    const HttpAnswer begun = ask("uploads=", {.method = "POST"});
    const std::vector<std::string> ids = elements_of(begun.body, "UploadId");
    if (ids.empty()) throw IoError(format("'{}' cannot be written: the server begins no upload in parts", shown_place(place)));
    id_ = "uploadId=" + replaced(url_encoded(ids.front()), "/", "%2F");
  }

  void send(std::int64_t offset, std::int64_t count) {
    ++number_;
    const HttpAnswer sent =
        ask(format("partNumber={}&{}", number_, id_), {.file = file_, .file_offset = offset, .file_count = count});
    const auto tag = sent.headers.find("etag");
    if (tag == sent.headers.end()) throw IoError(format("'{}' cannot be written: a part got no ETag", shown_place(place_)));
    parts_ += format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", number_, replaced(tag->second, "\"", "&quot;"));
  }

  void finish() {
    const HttpAnswer answer = ask(
        id_, {.body = format("<CompleteMultipartUpload>{}</CompleteMultipartUpload>", parts_), .body_type = "application/xml"});
    // The status comes before the work is done.
    if (answer.body.find("<Error>") != std::string::npos)
      throw IoError(format("'{}' cannot be written: {}", shown_place(place_), answer.body));
  }

  /// Frees what was sent.
  void cancel() noexcept {
    try {
      ask(id_, {.method = "DELETE"});
    } catch (const IoError&) {
      // The server keeps the parts until its owner's rules remove them.
    }
  }

 private:
  HttpAnswer ask(const std::string& query, HttpRequest request) {
    return answer_to(place_, s3_target(at_, query), std::move(request), RemoteAccess::kWrite);
  }

  std::string place_;
  fs::path file_;
  S3Place at_;
  std::string id_;
  std::string parts_;
  int number_ = 0;
};

}  // namespace

void upload_file(const fs::path& file, const std::string& place) {
  if (!place.starts_with("s3://")) throw IoError(format("'{}' takes no files: write to s3://BUCKET/KEY", shown_place(place)));
  std::error_code error;
  const auto size = static_cast<std::int64_t>(fs::file_size(file, error));
  if (error) throw IoError(format("cannot read {}: {}", file, error.message()));
  if (size <= kSmallestPart) {
    answer_to(place, target_of(place), {.file = file, .file_count = size}, RemoteAccess::kWrite);
    return;
  }
  const std::int64_t part = std::max(kSmallestPart, (size + kMostParts - 1) / kMostParts);
  PartedUpload upload(place, file);
  try {
    for (std::int64_t offset = 0; offset < size; offset += part) upload.send(offset, std::min(part, size - offset));
    upload.finish();
  } catch (const IoError&) {
    upload.cancel();
    throw;
  }
}

}  // namespace levin
