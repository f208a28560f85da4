#include "levin/loggers/mlflow/mlflow_server.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "levin/core/base/environment.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/value_json.h"

namespace levin::mlflow {
namespace {

/// The part of a URI between "://" and "@"; may be empty.
std::string user_part(const std::string& uri) {
  const std::size_t begin = uri.find("://");
  if (begin == std::string::npos) return {};
  const std::string host = uri.substr(begin + 3, uri.find('/', begin + 3) - begin - 3);
  const std::size_t end = host.rfind('@');
  return end == std::string::npos ? "" : host.substr(0, end);
}

}  // namespace

HttpCredentials credentials_for(const std::string& uri) {
  HttpCredentials found{.user = environment("MLFLOW_TRACKING_USERNAME"),
                        .password = environment("MLFLOW_TRACKING_PASSWORD"),
                        .token = environment("MLFLOW_TRACKING_TOKEN"),
                        .certificates = environment("MLFLOW_TRACKING_SERVER_CERT_PATH")};
  const std::string insecure = lowercase(environment("MLFLOW_TRACKING_INSECURE_TLS"));
  found.checks_certificate = insecure != "true" && insecure != "1";
  if (const std::string user = user_part(uri); found.user.empty() && !user.empty()) {
    const std::size_t colon = user.find(':');
    found.user = percent_decoded(user.substr(0, colon));
    if (colon != std::string::npos) found.password = percent_decoded(user.substr(colon + 1));
  }
  return found;
}

namespace {

/// Statuses that are not about the request itself: credentials, rate limits, and proxies whose server does not respond.
bool is_transient(long status) {
  constexpr std::array kTransient{401L, 403L, 408L, 429L, 502L, 503L, 504L};
  return std::ranges::find(kTransient, status) != kTransient.end();
}

/// Throws for an answer that is an error.
[[noreturn]] void throw_error(const HttpAnswer& answer, bool is_refusal) {
  std::string message = answer.body.substr(0, answer.body.find('\n'));
  std::string code;
  try {
    const Value body = parse_json(answer.body);
    if (const Value* const text = body.find("message"); text != nullptr && text->is_string()) message = text->as_string();
    if (const Value* const text = body.find("error_code"); text != nullptr && text->is_string()) code = text->as_string();
  } catch (const IoError&) {  // of a proxy, in HTML
  }
  constexpr std::size_t kLongest = 400;
  const std::string text =
      format("{}status {}: {}", code.empty() ? "not by MLflow itself: " : "", answer.status, quoted_text(message, kLongest));
  if (is_refusal) throw Refused(text, code);
  throw IoError(text);
}

bool is_ok(const HttpAnswer& answer) { return answer.status >= 200 && answer.status < 300; }

constexpr std::string_view kArtifacts = "mlflow-artifacts:";

}  // namespace

std::string tracking_uri(const std::optional<std::string>& option) {
  std::string uri = option ? *option : environment("MLFLOW_TRACKING_URI");
  while (uri.ends_with('/')) uri.pop_back();
  return uri;
}

std::string tracking_uri_problem(const std::string& uri) {
  constexpr std::string_view kExample = "start `mlflow server`, and give its address, such as http://127.0.0.1:5000";
  if (uri.empty()) return format("MLflowLogger needs a server: {}, here or in the environment's MLFLOW_TRACKING_URI", kExample);
  if (uri.starts_with("http://") || uri.starts_with("https://")) return {};
  return format("{} is not an address of an MLflow server (a file or a database is for MLflow's Python alone): {}",
                quoted_text(uri), kExample);
}

std::string without_credentials(std::string text) {
  for (std::size_t at = text.find("://"); at != std::string::npos; at = text.find("://", at + 1)) {
    const std::size_t end = text.find_first_of("@/ ", at + 3);
    if (end != std::string::npos && text[end] == '@') text.erase(at + 3, end + 1 - (at + 3));
  }
  return text;
}

MlflowServer::MlflowServer(const std::string& uri) : uri_(without_credentials(uri)), client_(credentials_for(uri)) {}

Value MlflowServer::read(const HttpAnswer& answer) const {
  if (!is_ok(answer)) throw_error(answer, answer.status < 500 && !is_transient(answer.status));
  try {
    return parse_json(answer.body);
  } catch (const IoError& error) {
    throw IoError(format("its answer is not MLflow's ({}): is this the address of an MLflow server?", error.what()));
  }
}

Value MlflowServer::get(const std::string& call, const std::string& query) {
  return read(client_.ask({.url = format("{}/api/2.0/mlflow/{}?{}", uri_, call, query)}, on_progress_));
}

Value MlflowServer::post(const std::string& call, const Value& body) {
  return read(client_.ask({.url = format("{}/api/2.0/mlflow/{}", uri_, call), .body = to_json(body)}, on_progress_));
}

bool MlflowServer::takes_files(const std::string& artifact_uri) {
  return artifact_uri.starts_with(kArtifacts) || artifact_uri.starts_with("http://") || artifact_uri.starts_with("https://");
}

void MlflowServer::upload(const std::string& artifact_uri, const std::string& path, const std::filesystem::path& file) {
  std::string folder = artifact_uri;
  if (folder.starts_with(kArtifacts)) {
    // mlflow-artifacts:/PATH of this server, or mlflow-artifacts://HOST:PORT/PATH of another one.
    folder.erase(0, kArtifacts.size());
    std::string server = uri_;
    if (folder.starts_with("//")) {
      const std::size_t slash = std::min(folder.find('/', 2), folder.size());
      const std::string host = folder.substr(0, slash);
      folder.erase(0, slash);
      if (host.size() > 2) server = uri_.substr(0, uri_.find("://") + 1) + host;
    }
    folder = format("{}/api/2.0/mlflow-artifacts/artifacts{}", server, folder);
  }
  const HttpAnswer answer = client_.ask({.url = format("{}/{}", folder, url_encoded(path)), .file = file}, on_progress_);
  if (!is_ok(answer)) throw_error(answer, !is_transient(answer.status));
}

}  // namespace levin::mlflow
