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
  std::filesystem::path file = {};  ///< sent by PUT, read from the disk as it goes
};

struct HttpAnswer {
  long status = 0;
  std::string body;
};

/// Who asks, and how the server proves who it is.
struct HttpCredentials {
  std::string user = {};
  std::string password = {};
  std::string token = {};         ///< where there is no user: of `Authorization: Bearer`
  std::string certificates = {};  ///< file of those that are trusted; empty: the system's
  bool checks_certificate = true;
};

/// Asks servers over HTTP, by libcurl, which is loaded when the first client is made. Threading: one at a time.
class HttpClient {
 public:
  /// Throws IoError, with the Debian package, where libcurl is not installed.
  explicit HttpClient(HttpCredentials credentials);

  /// Called at least once a second during a request, with the bytes that were sent and received; false cancels it.
  using OnProgress = std::function<bool(std::int64_t bytes)>;

  /// Throws IoError with the reason when there is no answer. A status that is an error is one.
  HttpAnswer ask(const HttpRequest& request, const OnProgress& on_progress = {});

 private:
  HttpCredentials credentials_;
  std::unique_ptr<void, void (*)(void*)> handle_;  ///< kept, so that connections are used again
};

/// The text as a part of a URL, with its slashes.
std::string url_encoded(const std::string& text);

}  // namespace levin::mlflow
