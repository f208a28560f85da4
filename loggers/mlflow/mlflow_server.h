#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "levin/core/base/error.h"
#include "levin/core/config/value.h"
#include "levin/core/files/http_client.h"

namespace levin::mlflow {

/// The server refuses a request, and would again: a retry is useless. Its other errors are plain IoErrors, and transient.
class Refused : public IoError {
 public:
  Refused(const std::string& message, std::string code) : IoError(message), code_(std::move(code)) {}
  /// MLflow's error code, such as "RESOURCE_DOES_NOT_EXIST"; "": the answer is not MLflow's.
  const std::string& code() const { return code_; }

 private:
  std::string code_;
};

/// The server's address: the option, else MLFLOW_TRACKING_URI of the environment.
std::string tracking_uri(const std::optional<std::string>& option);
/// What is wrong with an address; "": nothing.
std::string tracking_uri_problem(const std::string& uri);
/// The text without credentials, between "://" and "@".
std::string without_credentials(std::string text);

/// Credentials as MLflow's own client reads them, from its variables and from a URI.
HttpCredentials credentials_for(const std::string& uri);

/// MLflow's REST API, with credentials_for() the URI. Threading: one at a time.
class MlflowServer {
 public:
  /// Throws IoError if libcurl is not installed.
  explicit MlflowServer(const std::string& uri);

  /// Without credentials.
  const std::string& uri() const { return uri_; }
  /// Called during each request.
  void set_on_progress(HttpClient::OnProgress on_progress) { on_progress_ = std::move(on_progress); }

  /// "runs/get" with "run_id=…". Throws IoError.
  Value get(const std::string& call, const std::string& query);
  /// "runs/create" with its JSON. Throws IoError.
  Value post(const std::string& call, const Value& body);
  /// Sends a file to the store of a run's artifacts. Throws IoError; Refused unless the error is surely transient.
  void upload(const std::string& artifact_uri, const std::string& path, const std::filesystem::path& file);
  /// Whether that store takes files over HTTP.
  static bool takes_files(const std::string& artifact_uri);

 private:
  Value read(const HttpAnswer& answer) const;

  std::string uri_;
  HttpClient client_;
  HttpClient::OnProgress on_progress_;
};

}  // namespace levin::mlflow
