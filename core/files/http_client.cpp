#include "levin/core/files/http_client.h"

#include <curl/curl.h>
#include <dlfcn.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <utility>

#include "levin/core/base/environment.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {
namespace {

/// The functions of libcurl in use.
struct Curl {
  decltype(&curl_global_init) global_init;
  decltype(&curl_easy_init) init;
  decltype(&curl_easy_reset) reset;
  decltype(&curl_easy_setopt) set;
  decltype(&curl_easy_perform) perform;
  decltype(&curl_easy_getinfo) get;
  decltype(&curl_easy_strerror) text_of;
  decltype(&curl_easy_cleanup) cleanup;
  decltype(&curl_slist_append) append;
  decltype(&curl_slist_free_all) free_all;
};

template <class Function>
void find_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw IoError(format("libcurl.so.4 has no {}: {}", name, dlerror()));
}

Curl load_curl() {
  void* const library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw IoError(format("requests by HTTP need libcurl: `apt-get install libcurl4` installs it ({})", dlerror()));
  Curl curl{};
  find_function(library, "curl_global_init", curl.global_init);
  find_function(library, "curl_easy_init", curl.init);
  find_function(library, "curl_easy_reset", curl.reset);
  find_function(library, "curl_easy_setopt", curl.set);
  find_function(library, "curl_easy_perform", curl.perform);
  find_function(library, "curl_easy_getinfo", curl.get);
  find_function(library, "curl_easy_strerror", curl.text_of);
  find_function(library, "curl_easy_cleanup", curl.cleanup);
  find_function(library, "curl_slist_append", curl.append);
  find_function(library, "curl_slist_free_all", curl.free_all);
  curl.global_init(CURL_GLOBAL_DEFAULT);
  return curl;
}

const Curl& curl() {
  static const Curl loaded = load_curl();
  return loaded;
}

/// What an answer is taken into.
struct Receiver {
  const HttpRequest& request;
  HttpAnswer& answer;
  std::exception_ptr error;  ///< of request.take

  /// The last status line is that of the answer: redirections have theirs before.
  void take_header(std::string_view line) {
    while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("HTTP/")) {
      answer.headers.clear();
      const std::size_t blank = line.find(' ');
      answer.status = blank == std::string_view::npos ? 0 : std::strtol(std::string(line.substr(blank)).c_str(), nullptr, 10);
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    answer.headers[lowercase(std::string(line.substr(0, colon)))] = begin == std::string_view::npos ? "" : line.substr(begin);
  }
  bool take_body(std::string_view bytes) {
    if (!request.take || answer.status < 200 || answer.status > 299) {
      answer.body.append(bytes);
      return true;
    }
    try {
      request.take(bytes, answer);
      return true;
    } catch (...) {
      error = std::current_exception();  // libcurl's frames are C
      return false;
    }
  }
};

std::size_t take_bytes(const char* bytes, std::size_t, std::size_t count, void* receiver) {
  return static_cast<Receiver*>(receiver)->take_body({bytes, count}) ? count : 0;
}

std::size_t take_header(const char* bytes, std::size_t, std::size_t count, void* receiver) {
  static_cast<Receiver*>(receiver)->take_header({bytes, count});
  return count;
}

/// Whether a request that ended so would end so again.
bool is_lasting(CURLcode code) {
  return code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_URL_MALFORMAT || code == CURLE_TOO_MANY_REDIRECTS ||
         code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE || code == CURLE_SSL_CERTPROBLEM;
}

/// A file with certificates of authorities instead of those of the system, by the variables that other programs have for it.
std::string own_authorities() {
  for (const char* const name : {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"})
    if (std::string file = environment(name); !file.empty()) return file;
  return "";
}

int report_progress(void* on_progress, curl_off_t, curl_off_t received, curl_off_t, curl_off_t sent) {
  return (*static_cast<const HttpClient::OnProgress*>(on_progress))(received + sent) ? 0 : 1;
}

}  // namespace

HttpClient::HttpClient(HttpCredentials credentials)
    : credentials_(std::move(credentials)), handle_(curl().init(), curl().cleanup) {
  if (handle_ == nullptr) throw IoError("libcurl cannot begin: there is too little memory");
}

HttpAnswer HttpClient::ask(const HttpRequest& request, const OnProgress& on_progress) {
  const Curl& lib = curl();
  void* const handle = handle_.get();
  HttpAnswer answer;
  Receiver receiver{request, answer, nullptr};
  std::array<char, CURL_ERROR_SIZE> reason{};
  // A server may answer a file only when it is stored; everything else at once.
  constexpr long kConnectSeconds = 10, kSilentSeconds = 20, kSilentSecondsOfFile = 300;
  constexpr long kMostRedirections = 20;
  lib.reset(handle);
  lib.set(handle, CURLOPT_URL, request.url.c_str());
  lib.set(handle, CURLOPT_NOSIGNAL, 1L);
  lib.set(handle, CURLOPT_ERRORBUFFER, reason.data());
  lib.set(handle, CURLOPT_WRITEFUNCTION, &take_bytes);
  lib.set(handle, CURLOPT_WRITEDATA, &receiver);
  lib.set(handle, CURLOPT_HEADERFUNCTION, &take_header);
  lib.set(handle, CURLOPT_HEADERDATA, &receiver);
  const bool posts = !request.body.empty() || request.method == "POST";
  lib.set(handle, CURLOPT_FOLLOWLOCATION, !posts && request.file.empty() ? 1L : 0L);
  lib.set(handle, CURLOPT_MAXREDIRS, kMostRedirections);
  lib.set(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  lib.set(handle, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  lib.set(handle, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  const std::string authorities = own_authorities();
  if (!authorities.empty()) lib.set(handle, CURLOPT_CAINFO, authorities.c_str());
  lib.set(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
  lib.set(handle, CURLOPT_LOW_SPEED_TIME, request.file.empty() ? kSilentSeconds : kSilentSecondsOfFile);
  if (!credentials_.user.empty()) {
    lib.set(handle, CURLOPT_USERNAME, credentials_.user.c_str());
    lib.set(handle, CURLOPT_PASSWORD, credentials_.password.c_str());
    if (!credentials_.signature.empty()) lib.set(handle, CURLOPT_AWS_SIGV4, credentials_.signature.c_str());
  } else if (!credentials_.token.empty()) {
    lib.set(handle, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    lib.set(handle, CURLOPT_XOAUTH2_BEARER, credentials_.token.c_str());
  }
  if (!credentials_.certificates.empty()) lib.set(handle, CURLOPT_CAINFO, credentials_.certificates.c_str());
  lib.set(handle, CURLOPT_SSL_VERIFYPEER, credentials_.checks_certificate ? 1L : 0L);
  lib.set(handle, CURLOPT_SSL_VERIFYHOST, credentials_.checks_certificate ? 2L : 0L);
  if (on_progress) {
    lib.set(handle, CURLOPT_NOPROGRESS, 0L);
    lib.set(handle, CURLOPT_XFERINFOFUNCTION, &report_progress);
    lib.set(handle, CURLOPT_XFERINFODATA, &on_progress);
  }
  // Without "Expect", for which libcurl waits a second if a server does not know it. libcurl would sign the empty header.
  curl_slist* headers = nullptr;
  if (credentials_.signature.empty()) headers = lib.append(nullptr, "Expect:");
  lib.set(handle, CURLOPT_EXPECT_100_TIMEOUT_MS, 1L);
  if (!request.body.empty()) headers = lib.append(headers, format("Content-Type: {}", request.body_type).c_str());
  for (const std::string& header : request.headers) headers = lib.append(headers, header.c_str());
  const std::unique_ptr<curl_slist, decltype(lib.free_all)> owner(headers, lib.free_all);
  lib.set(handle, CURLOPT_HTTPHEADER, headers);
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(nullptr, &std::fclose);
  if (!request.file.empty()) {
    file.reset(std::fopen(request.file.c_str(), "rbe"));
    if (!file) throw IoError(format("cannot read {}: {}", request.file, std::strerror(errno)));
    lib.set(handle, CURLOPT_UPLOAD, 1L);
    if (fseeko(file.get(), request.file_offset, SEEK_SET) != 0)
      throw IoError(format("cannot read {}: {}", request.file, std::strerror(errno)));
    const auto all = static_cast<std::int64_t>(std::filesystem::file_size(request.file)) - request.file_offset;
    lib.set(handle, CURLOPT_READDATA, file.get());
    lib.set(handle, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.file_count < 0 ? all : request.file_count));
  } else if (posts) {
    // libcurl would retry a request by itself on a reused connection that is closed.
    lib.set(handle, CURLOPT_FRESH_CONNECT, 1L);
    lib.set(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    lib.set(handle, CURLOPT_POSTFIELDS, request.body.c_str());
  } else if (request.method == "HEAD") {
    lib.set(handle, CURLOPT_NOBODY, 1L);
  } else if (!request.method.empty()) {
    lib.set(handle, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
  const CURLcode code = lib.perform(handle);
  if (receiver.error) std::rethrow_exception(receiver.error);
  const std::string problem = reason[0] != '\0' ? reason.data() : lib.text_of(code);
  if (is_lasting(code)) throw LastingHttpError(problem);
  if (code != CURLE_OK) throw IoError(problem);
  lib.get(handle, CURLINFO_RESPONSE_CODE, &answer.status);
  return answer;
}

std::string url_encoded(const std::string& text) {
  std::string encoded;
  for (const char one : text) {
    const auto byte = static_cast<unsigned char>(one);
    const bool stays = byte < 0x80 && (std::isalnum(byte) != 0 || std::strchr("-._~/", one) != nullptr);
    encoded += stays ? std::string(1, one) : format("%{:02X}", byte);
  }
  return encoded;
}

}  // namespace levin
