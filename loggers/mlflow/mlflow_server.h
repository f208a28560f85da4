#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "levin/core/base/error.h"
#include "levin/core/config/value.h"
#include "levin/loggers/mlflow/http_client.h"

namespace levin::mlflow {

/// The server refuses a request, and would again: a retry is useless. Its other errors are plain IoErrors, and transient.
class Refused : public IoError {
 public:
  Refused(const std::string& message, std::string code) : IoError(message), code_(std::move(code)) {}
  /// MLflow's own word for it, such as "RESOURCE_DOES_NOT_EXIST"; "" where something else has answered.
  const std::string& code() const { return code_; }

 private:
  std::string code_;
};

/// Where the server is: the option, else the environment's MLFLOW_TRACKING_URI.
std::string tracking_uri(const std::optional<std::string>& option);
/// Why there can be no server; "" where there can.
std::string tracking_uri_problem(const std::string& uri);
/// The text without what stands between "://" and "@", which is nobody's business.
std::string without_credentials(std::string text);

/// User, password and the rest, as MLflow's own client reads them from its variables and from a URI.
HttpCredentials credentials_for(const std::string& uri);

/// MLflow's REST API. Users are told to it as MLflow's own client does: by MLFLOW_TRACKING_USERNAME and _PASSWORD, by
/// MLFLOW_TRACKING_TOKEN, or in the URI. Threading: one at a time.
class MlflowServer {
 public:
  /// Throws IoError where libcurl is not installed.
  explicit MlflowServer(const std::string& uri);

  /// Without credentials.
  const std::string& uri() const { return uri_; }
  /// Called during each request.
  void set_on_progress(HttpClient::OnProgress on_progress) { on_progress_ = std::move(on_progress); }

  /// "runs/get" with "run_id=…". Throws IoError.
  Value get(const std::string& call, const std::string& query);
  /// "runs/create" and the like. Throws IoError.
  Value post(const std::string& call, const Value& body);
  /// Sends a file to where a run has its artifacts. Throws IoError; Refused unless the error is surely transient.
  void upload(const std::string& artifact_uri, const std::string& path, const std::filesystem::path& file);
  /// Whether files can be sent there by HTTP.
  static bool takes_files(const std::string& artifact_uri);

 private:
  Value read(const HttpAnswer& answer) const;

  std::string uri_;
  HttpClient client_;
  HttpClient::OnProgress on_progress_;
};

}  // namespace levin::mlflow
