#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/file_text.h"
#include "support/program.h"
#include "support/rooms.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

const fs::path kRoot = LEVIN_SOURCE_DIR;
const fs::path kBuild = LEVIN_BINARY_DIR;

/// "core/trainer.h", …: what is installed and what other rooms see.
Strings public_headers() {
  Strings headers;
  for (const std::string& room : rooms()) {
    for (const std::string& header : lines_of(read_text(kRoot / room / "public_headers.txt")))
      headers.push_back(room + "/" + header);
  }
  return headers;
}

Strings includes_of(const std::string& text) {
  static const std::regex kInclude("#include [\"<]levin/([^\">]+)[\">]");
  Strings found;
  for (std::sregex_iterator match(text.begin(), text.end(), kInclude), end; match != end; ++match) found.push_back((*match)[1]);
  return found;
}

/// Whether the name stands in a public header, outside of comments.
bool is_declared(const std::string& name) {
  static const std::set<std::string> names = [] {
    std::set<std::string> all;
    for (const std::string& header : public_headers()) {
      for (const std::string& line : lines_of(read_text(kRoot / header))) {
        std::string word;
        for (const char letter : line.substr(0, line.find("//")) + " ") {
          if (std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_') {
            word += letter;
          } else {
            all.insert(std::exchange(word, ""));
          }
        }
      }
    }
    return all;
  }();
  return names.contains(name);
}

Strings exported_symbols(const fs::path& library) {
  const Outcome outcome = run({.arguments = {"nm", "-D", "--defined-only", library.string()}});
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  Strings symbols;
  for (const std::string& line : lines_of(outcome.out)) symbols.push_back(line.substr(line.rfind(' ') + 1));
  return symbols;
}

/// The names after levin:: in a mangled symbol: {"Trainer", "fit"}; empty for a symbol that is not in the namespace.
Strings names_in_levin(const std::string& symbol) {
  static const std::regex kBegin("^_Z(?:T[VTISC]|T[hv][n0-9_]*|)N[VKRO]*5levin");
  std::smatch match;
  Strings names;
  if (!std::regex_search(symbol, match, kBegin)) return names;
  for (auto at = static_cast<std::size_t>(match.length()); at < symbol.size() && std::isdigit(symbol[at]) != 0;) {
    std::size_t digits = 0;
    const std::size_t length = std::stoul(symbol.substr(at), &digits);
    names.push_back(symbol.substr(at + digits, length));
    at += digits + length;
  }
  return names;
}

TEST_CASE("a public header exists, is listed once and includes public headers only") {
  const Strings headers = public_headers();
  const std::set<std::string> known(headers.begin(), headers.end());
  CHECK(known.size() == headers.size());
  CHECK(headers.size() > 50);
  const std::set<std::string> written_by_cmake = {"core/version.h", "core/headers_hash.h"};
  Strings wrong;
  for (const std::string& header : headers) {
    for (const std::string& included : includes_of(read_text(kRoot / header))) {
      if (!known.contains(included) && !written_by_cmake.contains(included)) wrong.push_back(header + " includes " + included);
    }
  }
  CHECK(wrong == Strings());
}

TEST_CASE("the header of everything, which CMake writes, holds every public header, in order") {
  Strings expected = public_headers();
  expected.push_back("core/version.h");
  std::sort(expected.begin(), expected.end());
  CHECK(includes_of(read_text(fs::path(LEVIN_BINARY_DIR) / "include/generated/levin/levin.h")) == expected);
}

TEST_CASE("what other rooms may take from within core is no public header") {
  const Strings basics = lines_of(read_text(kRoot / "core/basic_headers.txt"));
  CHECK(basics.size() > 5);
  for (const std::string& header : public_headers()) {
    INFO(header);
    CHECK(std::none_of(basics.begin(), basics.end(), [&](const std::string& basic) { return header == "core/" + basic; }));
  }
}

TEST_CASE("functions that public headers declare are in the library") {
  static const std::regex kFunction(
      R"(^(?!LEVIN_API|\[\[noreturn\]\] LEVIN_API|template|class|struct|inline|using|static|constexpr|extern|__attribute__)\w.*\()");
  Strings hidden;
  for (const std::string& header : public_headers()) {
    std::string before;
    for (const std::string& line : lines_of(read_text(kRoot / header))) {
      const bool is_template = before.starts_with("template") || before.starts_with("requires");
      if (!is_template && std::regex_search(line, kFunction)) hidden.push_back(header + ": " + line);
      before = line;
    }
  }
  CHECK(hidden == Strings());
}

TEST_CASE("the library shows what public headers declare, and nothing else") {
  const Strings symbols = exported_symbols(kBuild / "lib/liblevin.so");
  CHECK(symbols.size() > 300);
  const std::string c_header = read_text(kRoot / "c/levin_c.h");
  std::set<std::string> hidden;
  for (const std::string& symbol : symbols) {
    if (symbol == "levin_run" || c_header.find(" " + symbol + "(") != std::string::npos) continue;
    Strings names = names_in_levin(symbol);
    if (!names.empty() && (names.front() == "detail" || names.front() == "cli")) names.erase(names.begin());
    if (names.empty() || !is_declared(names.front())) hidden.insert(symbol);
  }
  CHECK(hidden == std::set<std::string>());
}

TEST_CASE("classes of users find the thunks of the virtual functions that they inherit") {
  static const std::regex kLocalThunk(R"( t _ZT[hv][n0-9_]*(_?N\w+))");
  const Strings shown = exported_symbols(kBuild / "lib/liblevin.so");
  const std::set<std::string> exported(shown.begin(), shown.end());
  const Outcome outcome = run({.arguments = {"nm", "--defined-only", (kBuild / "lib/liblevin.so").string()}});
  REQUIRE(outcome.ok());
  Strings hidden;
  for (const std::string& line : lines_of(outcome.out)) {
    std::smatch match;
    // What a header defines is in the user's program itself.
    if (std::regex_search(line, match, kLocalThunk) && exported.contains("_Z" + match[1].str())) hidden.push_back(line);
  }
  CHECK(hidden == Strings());
}

TEST_CASE("the CUDA library shows its one entry") {
  const fs::path library = kBuild / "lib/liblevin_cuda.so";
  if (!fs::exists(library)) return;
  CHECK(exported_symbols(library) == Strings{"levin_cuda_api"});
}

TEST_CASE("what the documentation's code names is declared in a public header") {
  static const std::regex kName(R"(\blevin::([A-Za-z_]\w*)|\b(LEVIN_REGISTER_\w+))");
  std::set<std::string> unknown;
  std::set<std::string> named;
  Strings files = {(kRoot / "README.md").string()};
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "docs")) {
    if (entry.path().extension() == ".md") files.push_back(entry.path());
  }
  for (const std::string& file : files) {
    bool in_code = false;
    for (const std::string& line : lines_of(read_text(file))) {
      if (line.starts_with("```")) in_code = line.starts_with("```cpp");
      // In running text too, where it stands between backticks.
      if (!in_code && line.find('`') == std::string::npos) continue;
      for (std::sregex_iterator match(line.begin(), line.end(), kName), end; match != end; ++match) {
        const std::string name = (*match)[1].matched ? (*match)[1] : (*match)[2];
        if (name == "levin" || name == "program" || name == "cli") continue;  // targets of CMake, and a namespace
        named.insert(name);
        if (!is_declared(name)) unknown.insert(fs::path(file).filename().string() + ": " + name);
      }
    }
  }
  CHECK(named.size() > 20);
  CHECK(unknown == std::set<std::string>());
}

}  // namespace
}  // namespace levin::test
