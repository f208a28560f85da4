#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace levin::mlflow {

struct HttpRequest {
  std::string url;
  std::string body = {};            ///< JSON, which makes it a POST
  std::filesystem::path file = {};  ///< sent by PUT
};

struct HttpAnswer {
  long status = 0;
  std::string body;
};

/// The user, and how the server's certificate is checked.
struct HttpCredentials {
  std::string user = {};
  std::string password = {};
  std::string token = {};         ///< without a user: for `Authorization: Bearer`
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

  /// Throws IoError with the reason when there is no answer. A status that is an error is one.
  HttpAnswer ask(const HttpRequest& request, const OnProgress& on_progress = {});

 private:
  HttpCredentials credentials_;
  std::unique_ptr<void, void (*)(void*)> handle_;  ///< reuses connections
};

/// A text as part of a URL; slashes stay.
std::string url_encoded(const std::string& text);

}  // namespace levin::mlflow
