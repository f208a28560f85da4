#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/files/http_client.h"
#include "levin/core/files/s3.h"

namespace levin {

/// An address for errors: without a password, and without the query, which may be a signature.
std::string shown_place(const std::string& place);

/// The text with one part replaced wherever it stands.
std::string replaced(std::string text, std::string_view what, std::string_view with);

/// What a request for an address, http(s):// or s3://, is sent to.
HttpTarget target_of(const std::string& place);

/// Whether a status says that it is done.
inline bool is_success(long status) { return status >= 200 && status <= 299; }

/// What to do about a status, for errors.
std::string explained(long status);

/// A moment after a signal reading from a server ends, also where it is silent: a run cannot stop before.
class SignalWatch {
 public:
  bool goes_on();

 private:
  std::optional<std::chrono::steady_clock::time_point> since_;
};

/// What an address is asked for: a word for errors, and for how long it is tried.
enum class RemoteAccess : std::uint8_t {
  kRead,   ///< half a minute
  kWrite,  ///< ten minutes: a run of days must not end with a server that restarts
};

/// Calls `attempt` until it gives an answer that will stay, with pauses in between, while `goes_on` (null: always), which
/// a signal ends. Throws IoError, then with the signal's exit code.
HttpAnswer answer_to(const std::string& place, RemoteAccess access, const std::function<HttpAnswer()>& attempt,
                     const std::function<bool()>& goes_on = {});
/// A request for an address, without its url, likewise; a signal ends GET. Throws IoError for a status that is an error, but
/// for `allowed`.
HttpAnswer answer_to(const std::string& place, const HttpTarget& target, HttpRequest request,
                     RemoteAccess access = RemoteAccess::kRead, long allowed = 0);

/// The folder of the cache for what is on its way to a server.
std::filesystem::path upload_folder();

/// The text of each element of this name in an answer of S3.
std::vector<std::string> elements_of(const std::string& xml, const std::string& name);

}  // namespace levin
