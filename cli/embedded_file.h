#pragma once

#include <map>
#include <string>
#include <string_view>

namespace levin::cli {

/// A file of a folder that is compiled in: see cmake/LevinTemplates.cmake.
struct EmbeddedFile {
  std::string_view folder;  ///< below that one; empty: itself
  std::string_view name;    ///< without .in
  std::string_view text;
};

/// The text of one of these files, by its name; empty where there is none.
template <class Files>
std::string_view embedded_text(const Files& files, std::string_view name) {
  for (const EmbeddedFile& file : files) {
    if (file.name == name) return file.text;
  }
  return {};
}

/// The text with values for placeholders such as @NAME@.
inline std::string filled(std::string_view text, const std::map<std::string, std::string>& values) {
  std::string result(text);
  for (const auto& [place, value] : values) {
    for (std::size_t at = result.find(place); at != std::string::npos; at = result.find(place, at + value.size()))
      result.replace(at, place.size(), value);
  }
  return result;
}

}  // namespace levin::cli
