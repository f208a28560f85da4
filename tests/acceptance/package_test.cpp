#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>

#include "acceptance/outside_project.h"
#include "support/file_text.h"
#include "support/rooms.h"
#include "support/run_paths.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kNone;

/// What a command prints that ends well; the test ends when it fails.
std::string output_of(const std::vector<std::string>& arguments, const fs::path& folder = {}) {
  const Outcome outcome = run({.arguments = arguments, .folder = folder, .limit = std::chrono::seconds(300)});
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  return outcome.out;
}

/// The code blocks of README.md that follow a line with a file's name in bold, as `**CMakeLists.txt**`, below a heading.
std::map<std::string, std::string> files_of_readme(const std::string& heading) {
  const std::string readme = read_text(LEVIN_SOURCE_DIR "/README.md");
  const auto begin = readme.find(heading);
  REQUIRE(begin != std::string::npos);
  const std::string section = readme.substr(begin, readme.find("\n## ", begin + 1) - begin);
  static const std::regex kFile("\\*\\*`([^`]+)`\\*\\*[^\n]*\n+```[a-z]*\n([^]*?)```");
  std::map<std::string, std::string> files;
  for (std::sregex_iterator match(section.begin(), section.end(), kFile), end; match != end; ++match) {
    files[(*match)[1]] = (*match)[2];
  }
  return files;
}

TEST_CASE("the README's own project builds outside of the repository and runs") {
  const OutsideProject project("readme");
  const auto files = files_of_readme("## Your own project");
  REQUIRE(files.size() == 3);
  fs::create_directory(project.folder());
  for (const auto& [name, text] : files) std::ofstream(project.folder() / name) << text;
  project.build();
  CHECK(unsafe_run_paths(linked_files(project.folder() / "build")) == kNone);
  project.levin({"fit", "--config", "run.yaml"});
  CHECK(fs::exists(project.folder() / "logs/version_0/metrics.csv"));
}

std::set<std::string> installed_headers(const fs::path& folder) {
  std::set<std::string> headers;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) headers.insert(entry.path().lexically_relative(folder));
  }
  return headers;
}

std::set<std::string> public_headers() {
  std::set<std::string> headers = {"levin.h", "levin_c.h", "core/headers_hash.h", "core/version.h"};
  for (const std::string& room : rooms()) {
    std::ifstream list(fs::path(LEVIN_SOURCE_DIR) / room / "public_headers.txt");
    for (std::string line; std::getline(list, line);) headers.insert(fs::path(room) / line);
  }
  return headers;
}

TEST_CASE("an installed levin is found by CMake and runs") {
  const TemporaryFolder folder;
  const std::string prefix = (folder / "prefix").string();
  output_of({"cmake", "--install", LEVIN_BINARY_DIR, "--prefix", prefix});
  CHECK(installed_headers(folder / "prefix/include/levin") == public_headers());
  output_of({prefix + "/bin/levin", "--version"});
  CHECK(unsafe_run_paths(linked_files(prefix)) == kNone);

  // A header without torch, so that the compiler is done in a second.
  std::ofstream(folder / "CMakeLists.txt") << "cmake_minimum_required(VERSION 3.25)\nproject(consumer LANGUAGES CXX)\n"
                                              "find_package(levin REQUIRED)\nadd_executable(consumer consumer.cpp)\n"
                                              "target_link_libraries(consumer PRIVATE levin::levin)\n"
                                              "levin_add_plugin(plain NO_PRECOMPILE SOURCES plain.cpp)\n"
                                              "levin_add_plugin(precompiled SOURCES precompiled.cpp)\n";
  for (const char* source : {"plain.cpp", "precompiled.cpp"}) std::ofstream(folder / source) << "#include <levin/levin.h>\n";
  std::ofstream(folder / "consumer.cpp") << "#include <levin/core/config/value.h>\n#include <iostream>\n"
                                            "int main() { std::cout << levin::describe(levin::Value(4)); }\n";
  output_of({"cmake", "-G", "Ninja", "-B", "build", "-DCMAKE_PREFIX_PATH=" + prefix, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"},
            folder.path());
  // The plug-ins would take a minute; what they would be compiled with is known.
  const std::string commands = read_text(folder / "build/compile_commands.json");
  CHECK(commands.find("plain.dir/levin_precompiled") == std::string::npos);
  CHECK(commands.find(" -O2 ") != std::string::npos);
  CHECK(commands.find((folder / "build/CMakeFiles/precompiled.dir/levin_precompiled/levin_precompiled.h").string()) !=
        std::string::npos);
  output_of({"cmake", "--build", "build", "--target", "consumer"}, folder.path());
  CHECK(output_of({(folder / "build/consumer").string()}) == "int 4");
}

/// The whole matrix builds and runs it; the sample configures it, since its compilation takes half a minute.
TEST_CASE("the example own_loop is a separate project against an installed levin") {
  const TemporaryFolder folder;
  const std::string prefix = (folder / "prefix").string();
  output_of({"cmake", "--install", LEVIN_BINARY_DIR, "--prefix", prefix});
  fs::copy(LEVIN_SOURCE_DIR "/examples/own_loop", folder / "own_loop");
  output_of({"cmake", "-G", "Ninja", "-B", "build", "-DCMAKE_PREFIX_PATH=" + prefix}, folder / "own_loop");
  if (std::getenv("LEVIN_MATRIX") == nullptr) return;
  output_of({"cmake", "--build", "build", "--target", "own_loop"}, folder / "own_loop");
  output_of({"own_loop/build/own_loop", LEVIN_SOURCE_DIR "/examples/digits/data/digits.csv"}, folder.path());
  CHECK(fs::exists(folder / "logs/own_loop/version_0/checkpoints/last.ckpt"));
}

TEST_CASE("a program in C is built against an installed levin by CMake and by pkg-config") {
  const TemporaryFolder folder;
  const fs::path prefix = folder / "prefix";
  output_of({"cmake", "--install", LEVIN_BINARY_DIR, "--prefix", prefix.string()});
  std::ofstream(folder / "CMakeLists.txt") << "cmake_minimum_required(VERSION 3.25)\nproject(consumer LANGUAGES C)\n"
                                              "find_package(levin REQUIRED)\nadd_executable(consumer consumer.c)\n"
                                              "target_link_libraries(consumer PRIVATE levin::c)\n"
                                              "if(NOT EXISTS ${levin_FORTRAN_MODULE})\n message(FATAL_ERROR module)\nendif()\n";
  std::ofstream(folder / "consumer.c") << "#include <levin/levin_c.h>\n#include <stdio.h>\n"
                                          "int main(void) { printf(\"ABI %d\", (int)levin_c_abi_version()); return 0; }\n";
  output_of({"cmake", "-G", "Ninja", "-B", "build", "-DCMAKE_PREFIX_PATH=" + prefix.string()}, folder.path());
  output_of({"cmake", "--build", "build"}, folder.path());
  CHECK(output_of({(folder / "build/consumer").string()}) == "ABI 1");

  const std::string flags = "PKG_CONFIG_PATH=" + (prefix / "lib/pkgconfig").string() + " pkg-config levin-c ";
  output_of(
      {"sh", "-c",
       "cc consumer.c -o by_pkg_config $(" + flags + "--cflags --libs) && test -f $(" + flags + "--variable=fortran_module)"},
      folder.path());
  CHECK(output_of({(folder / "by_pkg_config").string()}) == "ABI 1");
}

}  // namespace
}  // namespace levin::test
