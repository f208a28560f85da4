// The floors of a room (ROOM/floors.txt): what stands in a folder includes its own folder and those before it. CMake keeps that
// between floors; this looks at all folders.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "house/house_rules.h"
#include "support/file_text.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

const fs::path kRoot = LEVIN_SOURCE_DIR;

/// The folders of a room, lowest first.
Strings folders_in_order(const std::string& floors) {
  Strings folders;
  for (const std::string& line : lines_of(floors)) {
    if (line.starts_with("#")) continue;
    for (const std::string& folder : words_in(line.substr(line.find(':') + 1))) folders.push_back(folder);
  }
  return folders;
}

std::string folder_of(const std::string& file) {
  const std::string folder = fs::path(file).parent_path().generic_string();
  return folder.empty() ? "." : folder;
}

/// What in a file of the room, named from it, goes up.
Strings arrows_up(const std::string& room, const std::string& file, const std::string& content, const Strings& order) {
  const auto height = [&](const std::string& folder) { return std::find(order.begin(), order.end(), folder) - order.begin(); };
  const std::string own = folder_of(file);
  if (height(own) == std::ssize(order)) return {file + ": its folder is on no floor"};
  // A source that stands in the room itself is a door: it hands users on to what is above.
  const bool is_door = own == "." && file.ends_with(".cpp");
  Strings found;
  const std::regex include("#include \"levin/" + room + "/([^\"]+)\"");
  for (std::sregex_iterator match(content.begin(), content.end(), include), end; match != end; ++match) {
    if (const std::string name = (*match)[1]; name == "version.h" || name == "headers_hash.h") continue;  // CMake writes them
    const std::string folder = folder_of((*match)[1]);
    if (!is_door && height(folder) > height(own)) found.push_back(file + " includes " + (*match)[1].str());
  }
  return found;
}

TEST_CASE("no file includes what stands on a floor above its own") {
  const auto files = read_sources(kRoot);
  for (const std::string room : {"core", "strategies"}) {
    const Strings order = folders_in_order(read_text(kRoot / room / "floors.txt"));
    CHECK(order.size() > 5);
    Strings all;
    for (const SourceFile& file : files) {
      if (!file.name.starts_with(room + "/")) continue;
      const Strings found = arrows_up(room, file.name.substr(room.size() + 1), file.content, order);
      all.insert(all.end(), found.begin(), found.end());
    }
    CHECK(all == Strings());
  }
}

TEST_CASE("an include of a higher floor is found, and a folder on none") {
  const Strings order = folders_in_order("# lowest first\nlow: a b\nmiddle: .\nhigh: c/d\n");
  CHECK(order == Strings{"a", "b", ".", "c/d"});
  CHECK(arrows_up("core", "a/x.h", "#include \"levin/core/b/y.h\"\n", order) == Strings{"a/x.h includes b/y.h"});
  CHECK(arrows_up("core", "b/x.h", "#include \"levin/core/a/y.h\"\n#include \"levin/core/b/z.h\"\n", order) == Strings());
  CHECK(arrows_up("core", "x.h", "#include \"levin/core/c/d/y.h\"\n", order) == Strings{"x.h includes c/d/y.h"});
  CHECK(arrows_up("core", "x.cpp", "#include \"levin/core/c/d/y.h\"\n", order) == Strings());
  CHECK(arrows_up("core", "e/x.h", "", order) == Strings{"e/x.h: its folder is on no floor"});
}

}  // namespace
}  // namespace levin::test
