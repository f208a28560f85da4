#pragma once

#include <string>
#include <vector>

#include "levin/core/files/http_client.h"

namespace levin {

/// What a request for an address needs.
struct HttpTarget {
  std::string url;
  HttpCredentials credentials;
  std::vector<std::string> headers;
};

struct S3Place {
  std::string bucket, key;
};

/// Of s3://BUCKET/KEY. Throws IoError without a bucket.
S3Place s3_place(const std::string& place);

/// Where the key is, or with `query` what it asks of it, or without a key of the bucket, with the credentials and the region of
/// the usual variables (remote_file.h); without credentials a request for a public file.
HttpTarget s3_target(const S3Place& place, const std::string& query = "");

}  // namespace levin
