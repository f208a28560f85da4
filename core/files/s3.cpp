#include "levin/core/files/s3.h"

#include <fstream>

#include "levin/core/base/environment.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/files/paths.h"

namespace levin {
namespace {

struct AwsKeys {
  std::string id, secret, token;
};

std::string trimmed(const std::string& text) {
  constexpr const char* kBlanks = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

/// A section of ~/.aws/credentials.
AwsKeys keys_of_profile() {
  const std::string profile = environment_or("AWS_PROFILE", "default");
  std::ifstream file(expand_home(environment_or("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")));
  AwsKeys keys;
  bool is_profile = false;
  for (std::string line; std::getline(file, line);) {
    line = trimmed(line);
    if (line.starts_with('[')) is_profile = line == format("[{}]", profile);
    const std::size_t equals = line.find('=');
    if (!is_profile || equals == std::string::npos) continue;
    const std::string name = trimmed(line.substr(0, equals)), value = trimmed(line.substr(equals + 1));
    if (name == "aws_access_key_id") keys.id = value;
    if (name == "aws_secret_access_key") keys.secret = value;
    if (name == "aws_session_token") keys.token = value;
  }
  return keys;
}

AwsKeys aws_keys() {
  AwsKeys keys{environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"), environment("AWS_SESSION_TOKEN")};
  return keys.id.empty() ? keys_of_profile() : keys;
}

}  // namespace

S3Place s3_place(const std::string& place) {
  const std::string rest = place.substr(std::string_view("s3://").size());
  const std::size_t slash = rest.find('/');
  if (slash == 0 || rest.empty()) throw IoError(format("'{}' names no bucket: s3://BUCKET/KEY", place));
  return slash == std::string::npos ? S3Place{rest, ""} : S3Place{rest.substr(0, slash), rest.substr(slash + 1)};
}

HttpTarget s3_target(const S3Place& place, const std::string& query) {
  const std::string region = environment_or("AWS_REGION", environment_or("AWS_DEFAULT_REGION", "us-east-1"));
  const std::string endpoint = environment_or("AWS_ENDPOINT_URL_S3", environment("AWS_ENDPOINT_URL"));
  const std::string rest = url_encoded(place.key) + (query.empty() ? "" : "?" + query);
  HttpTarget target;
  if (!endpoint.empty()) {
    target.url = format("{}{}{}/{}", endpoint, endpoint.ends_with('/') ? "" : "/", place.bucket, rest);
  } else if (place.bucket.find('.') != std::string::npos) {
    // Its certificate holds for one name before the domain's.
    target.url = format("https://s3.{}.amazonaws.com/{}/{}", region, place.bucket, rest);
  } else {
    target.url = format("https://{}.s3.{}.amazonaws.com/{}", place.bucket, region, rest);
  }
  const AwsKeys keys = aws_keys();
  if (keys.id.empty()) return target;
  target.credentials = {.user = keys.id, .password = keys.secret, .signature = format("aws:amz:{}:s3", region)};
  // What is sent and received is checked by TLS and by ETags; libcurl signs with what this header says.
  target.headers.emplace_back("X-Amz-Content-Sha256: UNSIGNED-PAYLOAD");
  if (!keys.token.empty()) target.headers.push_back("X-Amz-Security-Token: " + keys.token);
  return target;
}

}  // namespace levin
