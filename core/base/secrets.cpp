#include "levin/core/base/secrets.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

namespace levin {
namespace {

bool is_alnum(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }
bool is_upper(char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; }
bool is_blank(char c) { return c == ' ' || c == '\t'; }
bool is_quote(char c) { return c == '"' || c == '\'' || c == '`'; }
bool is_of_name(char c) { return is_alnum(c) || c == '_' || c == '-' || c == '.' || c == '+'; }

template <class Words>
bool has(const Words& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

/// The words of a name's last part, in lower case, without a number behind them: of "data.hfToken2" "hf" and "token".
std::vector<std::string> words_of_last_part(std::string_view name) {
  while (!name.empty() && !is_alnum(name.back())) name.remove_suffix(1);
  if (const std::size_t dot = name.rfind('.'); dot != std::string_view::npos) name.remove_prefix(dot + 1);
  std::vector<std::string> words;
  char before = '_';
  for (const char c : name) {
    const bool begins = !is_alnum(before) || (is_upper(c) && !is_upper(before));
    if (is_alnum(c) && begins) words.emplace_back();
    if (is_alnum(c)) words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    before = c;
  }
  for (std::string& word : words) word.erase(word.find_last_not_of("0123456789") + 1);
  std::erase(words, "");
  return words;
}

/// The signature of an address that is open to whoever has it: of S3, Google and CloudFront, and of Azure.
bool names_signature(std::string_view name) {
  const std::vector<std::string> words = words_of_last_part(name);
  return !words.empty() && (words.back() == "signature" || words.back() == "sig");
}

enum class Kind { kNone, kWeak, kStrong };

Kind kind_of(std::string_view name) {
  constexpr std::array<std::string_view, 13> kSecrets = {"password", "passwords", "passwd",       "passphrase",  "passcode",
                                                         "secret",   "secrets",   "credential",   "credentials", "apikey",
                                                         "apitoken", "accesskey", "authorization"};
  // Of what a key must be to be none of a table.
  constexpr std::array<std::string_view, 12> kKeysOf = {"api",     "access",  "private", "secret", "signing", "encryption",
                                                        "account", "storage", "license", "ssh",    "auth",    "master"};
  // Tokens of a language.
  constexpr std::array<std::string_view, 28> kTokensOf = {
      "pad",    "eos",       "bos",     "sos",       "eot",   "eod",  "unk",  "mask", "cls",   "sep",
      "start",  "stop",      "end",     "begin",     "first", "last", "next", "per",  "image", "prompt",
      "system", "separator", "special", "delimiter", "blank", "oov",  "no",   "new"};
  const std::vector<std::string> words = words_of_last_part(name);
  if (words.empty() || !std::ranges::all_of(name, is_of_name)) return Kind::kNone;
  const std::string_view last = words.back();
  const std::string_view before = words.size() > 1 ? std::string_view(words[words.size() - 2]) : std::string_view();
  if (has(kSecrets, last) || (last == "key" && has(kKeysOf, before))) return Kind::kStrong;
  const bool is_token = last == "token" && !has(kTokensOf, before);
  const bool is_short = (last == "pass" || last == "pwd" || last == "pw") && !before.empty();
  return is_token || is_short ? Kind::kWeak : Kind::kNone;
}

/// The part of a text that is to be masked.
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// What a quote at `at` encloses, or, where it is never closed, all that follows.
Span quoted(std::string_view text, std::size_t at) {
  std::size_t end = at + 1;
  while (end < text.size() && text[end] != text[at]) end += text[end] == '\\' ? 2 : 1;
  return {at + 1, std::min(end, text.size())};
}

std::size_t end_at_any(std::string_view text, std::size_t begin, std::string_view ends) {
  return std::min(text.find_first_of(ends, begin), text.size());
}

/// A value behind '=': in quotes, or up to a blank. Where the whole is in quotes, as a shell takes it, up to their end.
Span value_behind_equals(std::string_view text, std::size_t name_begin, std::size_t equals) {
  if (equals + 1 < text.size() && is_quote(text[equals + 1])) return quoted(text, equals + 1);
  if (name_begin > 0 && is_quote(text[name_begin - 1])) {
    return {equals + 1, quoted(text, name_begin - 1).end};
  }
  return {equals + 1, end_at_any(text, equals + 1, " \t\r\n\"'`&")};
}

/// A value behind the ':' of a map, where this is one: not of a sentence.
Span value_behind_colon(std::string_view text, std::size_t name_begin, bool is_quoted_name, std::size_t colon) {
  std::size_t before = name_begin - (is_quoted_name ? 1 : 0);
  const std::size_t name_at = before;
  while (before > 0 && is_blank(text[before - 1])) --before;
  const bool in_map = before > 0 && (text[before - 1] == '{' || text[before - 1] == ',');
  const bool in_lines = before < name_at && (before == 0 || text[before - 1] == '\n');
  if (!is_quoted_name && !in_map && !in_lines) return {};
  std::size_t begin = colon + 1;
  while (begin < text.size() && is_blank(text[begin])) ++begin;
  if (begin == text.size()) return {};
  if (is_quote(text[begin])) return quoted(text, begin);
  return {begin, end_at_any(text, begin, in_lines ? "\r\n" : "\r\n,}]")};
}

/// What is secret behind the '=' or ':' at `at`.
Span value_of_name(std::string_view text, std::size_t at) {
  const bool is_quoted_name = text[at] == ':' && at > 0 && is_quote(text[at - 1]);
  const std::size_t name_end = at - (is_quoted_name ? 1 : 0);
  std::size_t name_begin = name_end;
  while (name_begin > 0 && is_of_name(text[name_begin - 1])) --name_begin;
  const std::string_view name = text.substr(name_begin, name_end - name_begin);
  const bool is_of_query = text[at] == '=' && name_begin > 0 && (text[name_begin - 1] == '?' || text[name_begin - 1] == '&');
  if (is_of_query && names_signature(name)) return value_behind_equals(text, name_begin, at);
  if (!names_secret(name) || (is_quoted_name && name_begin == 0)) return {};
  const Span value =
      text[at] == '=' ? value_behind_equals(text, name_begin, at) : value_behind_colon(text, name_begin, is_quoted_name, at);
  return is_no_secret(name, text.substr(value.begin, value.end - value.begin)) ? Span{} : value;
}

/// What is secret of the address with a "://" at `at`.
Span secret_of_address(std::string_view text, std::size_t at) {
  const std::size_t begin = at + 3;
  const std::size_t end = end_at_any(text, begin, "/?# \t\r\n\"'`<>");
  const std::size_t user_end = text.substr(begin, end - begin).rfind('@');
  if (user_end == std::string_view::npos) return {};
  const std::string_view user = text.substr(begin, user_end);
  const std::size_t colon = user.find(':');
  if (is_no_secret("password", user)) return {};
  if (colon != std::string_view::npos)
    return is_no_secret("password", user.substr(colon + 1)) ? Span{} : Span{begin + colon + 1, begin + user_end};
  // ssh://git@host names a user; in front of a web address alone stands a token.
  const std::string_view scheme = text.substr(0, at);
  const bool is_of_web = scheme.ends_with("http") || scheme.ends_with("https");
  return is_of_web ? Span{begin, begin + user_end} : Span{};
}

}  // namespace

bool names_secret(std::string_view name) { return kind_of(name) != Kind::kNone; }

bool is_no_secret(std::string_view name, std::string_view value) {
  constexpr std::array<std::string_view, 9> kNone = {"", "null", "~", "none", "None", "true", "false", "True", "False"};
  const bool is_reference = (value.starts_with("${") && value.ends_with('}')) || value.starts_with("\\${");
  if (has(kNone, value) || is_reference || value.starts_with(kMask)) return true;
  const bool is_number = value.find_first_not_of("0123456789+-.eE") == std::string_view::npos;
  return is_number && kind_of(name) != Kind::kStrong;
}

std::string without_secrets(std::string_view text) {
  std::string shown;
  std::size_t copied = 0;
  for (std::size_t at = text.find_first_of("=:"); at != std::string_view::npos; at = text.find_first_of("=:", at + 1)) {
    const bool is_address = text.substr(at).starts_with("://");
    const Span secret = is_address ? secret_of_address(text, at) : value_of_name(text, at);
    if (secret.end <= secret.begin || secret.begin < copied) continue;
    shown.append(text.substr(copied, secret.begin - copied)).append(kMask);
    copied = secret.end;
    at = std::max(at, secret.end - 1);
  }
  return shown.append(text.substr(copied));
}

bool has_mask(std::string_view text) {
  for (std::size_t at = text.find(kMask); at != std::string_view::npos; at = text.find(kMask, at + 1)) {
    // Whatever else stood there would be masked, too.
    std::string other(text);
    other.replace(at, kMask.size(), "x");
    if (without_secrets(other) != other) return true;
  }
  return false;
}

std::vector<std::string> without_secrets(std::vector<std::string> words) {
  for (std::size_t index = 0; index < words.size(); ++index) {
    std::string& word = words[index];
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (equals != std::string::npos && names_secret(name)) {
      if (!is_no_secret(name, word.substr(equals + 1))) word.replace(equals + 1, std::string::npos, kMask);
      continue;
    }
    word = without_secrets(word);
    const bool has_own_value = equals == std::string::npos && name.starts_with('-') && names_secret(name) &&
                               index + 1 < words.size() && !words[index + 1].starts_with("--");
    if (has_own_value && !is_no_secret(name, words[index + 1])) words[++index] = kMask;
  }
  return words;
}

}  // namespace levin
