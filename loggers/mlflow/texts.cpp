#include "levin/loggers/mlflow/texts.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "levin/core/base/process.h"
#include "levin/core/base/secrets.h"
#include "levin/core/base/text.h"
#include "levin/core/config/value_json.h"
#include "levin/core/files/file_bytes.h"
#include "levin/loggers/each_leaf.h"

namespace levin::mlflow {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestName = 250;
constexpr std::size_t kLongestParameter = 6000;

std::string parameter_text(const Value& value) {
  std::string text;
  if (value.is_double()) {
    append_float(text, value.as_double());
  } else {
    text = value.is_string() ? printable(value.as_string()) : to_json(value);
  }
  return cut(std::move(text), kLongestParameter);
}

std::string first_line(const fs::path& file) {
  std::ifstream stream = open_plain_stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

/// The commit that is checked out; empty if unknown.
std::string git_commit() {
  std::error_code error;
  for (fs::path folder = fs::current_path(error); !error; folder = folder.parent_path()) {
    const std::string head = first_line(folder / ".git" / "HEAD");
    constexpr std::string_view kReference = "ref: ";
    if (!head.empty())
      return head.starts_with(kReference) ? first_line(folder / ".git" / head.substr(kReference.size())) : head;
    if (!folder.has_relative_path()) break;
  }
  return {};
}

}  // namespace

std::string cut(std::string text, std::size_t longest) {
  if (text.size() <= longest) return text;
  while (longest > 0 && is_utf8_continuation(text[longest])) --longest;
  text.resize(longest);
  return text;
}

std::string tag_text(const std::string& text) { return cut(printable(without_secrets(text)), kLongestTag); }

std::string name_for_server(std::string name) {
  constexpr std::string_view kTaken = "_-. :/";
  const auto is_wrong = [&](char one) {
    const auto byte = static_cast<unsigned char>(one);
    return byte >= 0x80 || (std::isalnum(byte) == 0 && kTaken.find(one) == std::string_view::npos);
  };
  std::ranges::replace_if(name, is_wrong, '_');
  // It must be no path out of a folder.
  std::vector<std::string> parts = split(name, "/");
  for (std::string& part : parts) {
    if (part.empty() || part == "." || part == "..") part = "_";
  }
  return cut(join(parts, "/"), kLongestName);
}

Value parameters_of(const Value& hyperparams) {
  Value parameters(Value::Map{});
  each_leaf(hyperparams, "",
            [&](const std::string& path, const Value& value) { parameters[name_for_server(path)] = parameter_text(value); });
  return parameters;
}

Value source_tags() {
  Value tags(Value::Map{});
  tags["mlflow.source.type"] = "LOCAL";
  tags["mlflow.source.name"] = tag_text(join(without_secrets(own_command_line()), " "));
  if (const passwd* const user = getpwuid(geteuid())) tags["mlflow.user"] = tag_text(user->pw_name);
  if (const std::string commit = git_commit(); !commit.empty()) tags["mlflow.source.git.commit"] = tag_text(commit);
  return tags;
}

}  // namespace levin::mlflow
