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

  /// Called at least once a second while something is asked, with the bytes that have gone either way; false: give up.
  using GoesOn = std::function<bool(std::int64_t bytes)>;

  /// Throws IoError with the reason when no answer comes, a status that is an error being one.
  HttpAnswer ask(const HttpRequest& request, const GoesOn& goes_on = {});

 private:
  HttpCredentials credentials_;
  std::unique_ptr<void, void (*)(void*)> handle_;  ///< kept, so that connections are used again
};

/// The text as a part of a URL, with its slashes.
std::string url_encoded(const std::string& text);

}  // namespace levin::mlflow
