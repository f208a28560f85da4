#include "levin/core/files/remote_request.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <system_error>
#include <thread>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/patience.h"
#include "levin/core/base/secrets.h"
#include "levin/core/base/text.h"
#include "levin/core/files/file_watch.h"

namespace levin {
namespace {

bool is_passing(long status) { return status == 429 || status >= 500; }

std::string problem_of(const std::string& place, RemoteAccess access, const std::string& problem) {
  return format("'{}' cannot be {}: {}", shown_place(place), access == RemoteAccess::kRead ? "read" : "written", problem);
}

void wait_while(const std::function<bool()>& goes_on, std::chrono::milliseconds time) {
  constexpr std::chrono::milliseconds kBetweenLooks(100);
  for (; time > std::chrono::milliseconds(0) && goes_on(); time -= kBetweenLooks)
    std::this_thread::sleep_for(std::min(time, kBetweenLooks));
}

/// A character in UTF-8; "" for a number that is none.
std::string utf8_of(std::uint32_t code) {
  constexpr std::uint32_t kFirstOfTwo = 0x80, kFirstOfThree = 0x800, kFirstOfFour = 0x10000, kEnd = 0x110000;
  if (code == 0 || code >= kEnd) return "";
  if (code < kFirstOfTwo) return {static_cast<char>(code)};
  const auto following = [code](unsigned shift) { return static_cast<char>(0x80U | (code >> shift & 0x3fU)); };
  if (code < kFirstOfThree) return {static_cast<char>(0xc0U | code >> 6U), following(0)};
  if (code < kFirstOfFour) return {static_cast<char>(0xe0U | code >> 12U), following(6), following(0)};
  return {static_cast<char>(0xf0U | code >> 18U), following(12), following(6), following(0)};
}

/// What an entity of XML stands for, such as "amp", "#39" and "#x27"; "" for none.
std::string text_of_entity(std::string_view name) {
  for (const auto& [entity, letter] : {std::pair("lt", "<"), {"gt", ">"}, {"quot", "\""}, {"apos", "'"}, {"amp", "&"}}) {
    if (name == entity) return letter;
  }
  if (!name.starts_with('#')) return "";
  const bool is_hex = name.starts_with("#x");
  const std::string_view digits = name.substr(is_hex ? 2 : 1);
  std::uint32_t code = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, is_hex ? 16 : 10);
  return error == std::errc() && end == digits.data() + digits.size() ? utf8_of(code) : "";
}

/// A text of XML, in which servers write letters in several ways.
std::string unescaped(std::string_view xml) {
  std::string text;
  while (!xml.empty()) {
    const std::size_t begin = std::min(xml.find('&'), xml.size());
    text += xml.substr(0, begin);
    xml.remove_prefix(begin);
    if (xml.empty()) break;
    const std::size_t end = xml.find(';');
    const std::string meant = end == std::string_view::npos ? "" : text_of_entity(xml.substr(1, end - 1));
    text += meant.empty() ? "&" : meant;
    xml.remove_prefix(meant.empty() ? 1 : end + 1);
  }
  return text;
}

}  // namespace

std::string shown_place(const std::string& place) { return without_secrets(place.substr(0, place.find('?'))); }

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
  return text;
}

HttpTarget target_of(const std::string& place) {
  return place.starts_with("s3://") ? s3_target(s3_place(place)) : HttpTarget{.url = place, .credentials = {}, .headers = {}};
}

std::string explained(long status) {
  if (status == 401 || status == 403)
    return format("the server refuses it (status {}): check the credentials, such as AWS_ACCESS_KEY_ID", status);
  if (status == 404) return "there is no such file (status 404)";
  return format("the server answers with status {}", status);
}

bool SignalWatch::goes_on() {
  constexpr std::chrono::seconds kMoment(2);
  if (!HeededSignals::is_pending()) return true;
  const auto now = std::chrono::steady_clock::now();
  if (!since_) since_ = now;
  return now - *since_ < kMoment;
}

HttpAnswer answer_to(const std::string& place, RemoteAccess access, const std::function<HttpAnswer()>& attempt,
                     const std::function<bool()>& goes_on) {
  constexpr int kToRead = 6, kToWrite = 24;
  constexpr std::chrono::milliseconds kLongestPause(32'000);
  const int attempts = access == RemoteAccess::kRead ? kToRead : kToWrite;
  std::chrono::milliseconds pause(500);
  std::string problem;
  const auto is_asked = [&] { return !WatchedFiles::are_given_up() && (!goes_on || goes_on()); };
  int number = 1;
  for (; number <= attempts && is_asked(); ++number) {
    if (number > 1) {
      wait_while(is_asked, pause);
      pause = std::min(2 * pause, kLongestPause);
    }
    try {
      HttpAnswer answer = attempt();
      if (!is_passing(answer.status)) return answer;
      problem = explained(answer.status);
    } catch (const LastingHttpError& error) {
      throw IoError(problem_of(place, access, error.what()));
    } catch (const IoError& error) {
      problem = error.what();
    }
  }
  if (goes_on && !goes_on()) {
    constexpr int kSignalStatus = 128;
    throw IoError(problem_of(place, access, "a signal ended the wait for its server"), kSignalStatus + HeededSignals::signal());
  }
  throw IoError(
      problem_of(place, access, format("{} ({})", problem, counted(static_cast<std::size_t>(number - 1), "attempt"))));
}

HttpAnswer answer_to(const std::string& place, const HttpTarget& target, HttpRequest request, RemoteAccess access,
                     long allowed) {
  request.url = target.url;
  request.headers.insert(request.headers.end(), target.headers.begin(), target.headers.end());
  HttpClient client(target.credentials);
  std::int64_t moved = 0;
  // A run that stops still writes its checkpoint, and looks for the name of its file.
  const bool is_for_a_stop = access == RemoteAccess::kWrite || !request.method.empty();
  SignalWatch watch;
  const auto goes_on = [&] { return is_for_a_stop || watch.goes_on(); };
  const HttpClient::OnProgress note = [&](std::int64_t bytes) {
    if (std::exchange(moved, bytes) != bytes) WatchedFiles::note_progress();
    return !WatchedFiles::are_given_up() && goes_on();
  };
  HttpAnswer answer = answer_to(
      place, access, [&] { return client.ask(request, note); }, goes_on);
  if (!is_success(answer.status) && answer.status != allowed)
    throw IoError(problem_of(place, access, explained(answer.status)));
  return answer;
}

std::vector<std::string> elements_of(const std::string& xml, const std::string& name) {
  std::vector<std::string> texts;
  const std::string begin = format("<{}>", name), end = format("</{}>", name);
  for (std::size_t at = xml.find(begin); at != std::string::npos; at = xml.find(begin, at)) {
    at += begin.size();
    const std::size_t to = xml.find(end, at);
    if (to == std::string::npos) break;
    texts.push_back(unescaped(xml.substr(at, to - at)));
  }
  return texts;
}

}  // namespace levin
