#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/base/error.h"

namespace levin {

/// There is no answer, and another attempt would get none: of an address that is none, or a certificate that does not hold.
class LastingHttpError : public IoError {
 public:
  using IoError::IoError;
};

struct HttpAnswer {
  long status = 0;
  std::string body;
  std::map<std::string, std::string> headers;  ///< by their names in small letters
};

struct HttpRequest {
  std::string url = {};
  std::string method = {};  ///< such as "DELETE"; empty: GET, or what goes with a body or a file
  std::string body = {};    ///< which makes it a POST
  const char* body_type = "application/json";
  std::filesystem::path file = {};        ///< sent by PUT
  std::int64_t file_offset = 0;           ///< a part of it
  std::int64_t file_count = -1;           ///< bytes; -1: all
  std::vector<std::string> headers = {};  ///< such as "Range: bytes=100-"
  /// Takes the bytes of an answer that is no error (status 2xx), piece by piece, with its status and headers; its error goes to
  /// the caller of ask(). Null: they become HttpAnswer::body.
  std::function<void(std::string_view bytes, const HttpAnswer& answer)> take = {};
};

/// The user, and how the server's certificate is checked.
struct HttpCredentials {
  std::string user = {};
  std::string password = {};
  std::string token = {};         ///< without a user: for `Authorization: Bearer`
  std::string signature = {};     ///< how user and password sign requests, such as "aws:amz:us-east-1:s3"; empty: HTTP's own
  std::string certificates = {};  ///< file of trusted ones; empty: the system's
  bool checks_certificate = true;
};

/// Makes HTTP requests with libcurl, which is loaded when the first client is made. Threading: one at a time.
class HttpClient {
 public:
  /// Throws IoError, which names the Debian package, if libcurl is not installed.
  explicit HttpClient(HttpCredentials credentials);

  /// Called at least once a second during a request, with the bytes that were sent and received; false cancels it.
  using OnProgress = std::function<bool(std::int64_t bytes)>;

  /// Throws IoError with the reason when there is no answer, LastingHttpError when there will be none. A status that is an
  /// error is one.
  HttpAnswer ask(const HttpRequest& request, const OnProgress& on_progress = {});

 private:
  HttpCredentials credentials_;
  std::unique_ptr<void, void (*)(void*)> handle_;  ///< reuses connections
};

/// A text as part of a URL; slashes stay.
std::string url_encoded(const std::string& text);

}  // namespace levin
