#pragma once

#include <string>
#include <utility>
#include <vector>

namespace levin::test {

/// Removes characters of a text, and adds pieces that mean something to YAML: (where, what) for each edit.
inline std::string mutated(std::string text, const std::vector<std::pair<int, int>>& edits) {
  const std::vector<std::string> pieces = {"[",     "]",     "{",      "}", ": ", "- ",  "? ",       "\n", "  ", "\t",
                                           "&a ",   "*a",    "!!str ", "!", "%",  "|\n", ">",        "'",  "\"", "#",
                                           "---\n", "...\n", "<<",     ",", "~",  "\\",  "\xc3\xa4", "@",  "`"};
  for (const auto& [where, what] : edits) {
    const std::size_t at = static_cast<std::size_t>(where) % (text.size() + 1);
    const auto kind = static_cast<std::size_t>(what) % (pieces.size() + 2);
    if (kind < pieces.size())
      text.insert(at, pieces[kind]);
    else
      text.erase(at, kind == pieces.size() ? 1 : 10);
  }
  return text;
}

}  // namespace levin::test
