#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

#include "levin/cli/doctor/findings.h"
#include "levin/core/base/environment.h"
#include "levin/core/base/format.h"
#include "levin/core/base/optional_library.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

// Prints the installed ones, a name and a version in a line, and imports none, which takes seconds.
constexpr const char* kAskPython = R"(
import importlib.metadata, importlib.util, sys
print("python", sys.version.split()[0])
if all(map(importlib.util.find_spec, ("venv", "ensurepip"))): print("venv yes")
for name in ("optuna", "wandb"):
    try: print(name, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError: pass
)";

/// Two numbers of a version.
using Version = std::pair<int, int>;

/// 12 and 2 of "12.2.0 20230413"; zeros where the text begins with no number.
Version version_at(std::string_view text) {
  Version version;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version.first);
  if (error == std::errc() && end != text.data() + text.size() && *end == '.')
    std::from_chars(end + 1, text.data() + text.size(), version.second);
  return version;
}

/// What follows `word` in the text; empty where the text lacks it.
std::string_view after(std::string_view text, std::string_view word) {
  const std::size_t at = text.find(word);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + word.size());
}

/// The first line of what a program prints; empty where it cannot be started, or fails.
std::string first_line(const std::vector<std::string>& words, double seconds) {
  std::vector<std::string> all = {"/usr/bin/env"};
  all.insert(all.end(), words.begin(), words.end());
  const Ended ended = ended_program(all, seconds);
  return ended.status == 0 && !ended.lines.empty() ? ended.lines.front() : "";
}

/// A program that says this of itself, and has to have at least this version.
Finding tool_finding(const std::string& what, const std::string& name, const std::string& said, Version is, Version least,
                     const std::string& advice) {
  if (said.empty()) return {what, format("no {}", name), Verdict::kMissing, advice};
  if (is < least)
    return {what, format("{}, which is older than {}.{}", said, least.first, least.second), Verdict::kMissing, advice};
  return {what, said};
}

Finding compiler_finding(double seconds) {
  constexpr Version kGcc{12, 0}, kClang{14, 0};
  // As CMake looks for it.
  const std::string name = environment_or("CXX", "c++");
  std::string said = first_line({name, "--version"}, seconds);
  for (const char* other : {"g++", "clang++"}) {
    if (said.empty() && environment_or("CXX", "").empty()) said = first_line({other, "--version"}, seconds);
  }
  const bool is_clang = said.find("clang version ") != std::string::npos;
  // "g++ (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)", "Debian clang version 14.0.6"
  return tool_finding("compiler", name, said, version_at(after(said, is_clang ? "clang version " : ") ")),
                      is_clang ? kClang : kGcc,
                      "plug-ins need g++ 12 or clang 14, or newer: apt-get install g++; CXX=g++-12 names another");
}

Finding build_tool_finding(double seconds) {
  if (const std::string version = first_line({"ninja", "--version"}, seconds); !version.empty())
    return {"build tool", "Ninja " + version};
  if (const std::string version = first_line({"make", "--version"}, seconds); !version.empty()) return {"build tool", version};
  return {"build tool", "neither ninja nor make", Verdict::kMissing, "plug-ins need one: apt-get install ninja-build"};
}

/// wandb-core, where WandbLogger looks for it.
Finding wandb_finding(const std::string& version) {
  std::string core = environment_or("WANDB_CORE", "");
  const std::vector<std::string> folders = split(environment_or("PATH", ""), ":");
  for (const char* name : {"wandb-core", "wandb"}) {
    for (const fs::path folder : folders) {
      if (core.empty() && !folder.empty() && access((folder / name).c_str(), X_OK) == 0) core = folder / name;
    }
  }
  const char* const advice =
      "WandbLogger uploads by wandb-core; without it, it writes files for `wandb sync`: pip install wandb";
  if (!core.empty() && access(core.c_str(), X_OK) == 0)
    return {"wandb-core", version.empty() ? core : format("{}, {}", version, core)};
  if (!core.empty())
    return {"wandb-core", format("WANDB_CORE={} is not a program", core), Verdict::kWarning,
            "WandbLogger will end the run: unset WANDB_CORE"};
  if (!version.empty())
    return {"wandb-core", format("wandb {} is installed, but its program is not on PATH", version), Verdict::kMissing,
            "WandbLogger finds it when its environment is active (. v/bin/activate), or by WANDB_CORE=FILE"};
  return {"wandb-core", "none", Verdict::kMissing, advice};
}

Finding curl_finding() {
  void* const library = dlopen("libcurl.so.4", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr)
    return {"libcurl", "none", Verdict::kMissing,
            "files on servers (https://, s3://) and MLflowLogger need it: apt-get install libcurl4"};
  const auto version = reinterpret_cast<const char* (*)()>(dlsym(library, "curl_version"));
  return {"libcurl", version == nullptr ? "of an unknown version" : split(version(), " ").front()};
}

/// A library of levin's own that is loaded when it is needed.
Finding library_finding(const OptionalLibrary& library) {
  const std::string problem = library.problem();
  const auto& [file, entry, title, contents, build_packages, run_packages, installer] = library.description();
  if (problem.empty()) return {title, contents};
  return {title, "none", Verdict::kMissing, problem};
}

}  // namespace

Findings program_findings(double seconds) {
  const std::string cmake = first_line({"cmake", "--version"}, seconds);
  Findings found = {compiler_finding(seconds),
                    tool_finding("CMake", "cmake", cmake, version_at(after(cmake, "version ")), {3, 25},
                                 "plug-ins need CMake 3.25 or newer: apt-get install cmake, or pip install cmake"),
                    build_tool_finding(seconds)};
  const std::string python = environment_or("PYTHON", "python3");
  std::map<std::string, std::string> versions;
  for (const std::string& line : ended_program({"/usr/bin/env", python, "-c", kAskPython}, seconds).lines) {
    const std::vector<std::string> words = split(line, " ");
    if (words.size() == 2) versions[words[0]] = words[1];
  }
  if (!versions.contains("python")) {
    found.push_back(
        {"Python", format("no {}", python), Verdict::kMissing,
         "the wheel, levin setup and --sampler optuna need it: apt-get install python3-venv; PYTHON names another"});
  } else {
    const bool has_venv = versions.contains("venv");
    found.push_back({"Python", format("{} {}{}", python, versions["python"], has_venv ? "" : ", without venv"),
                     has_venv ? Verdict::kOk : Verdict::kMissing,
                     "python3 -m venv, which installing the wheel needs, fails: apt-get install python3-venv"});
  }
  found.push_back(versions.contains("optuna") ? Finding{"Optuna", versions["optuna"]}
                                              : Finding{"Optuna", format("none in {}", python), Verdict::kMissing,
                                                        "levin sweep --sampler optuna needs it: pip install optuna"});
  found.push_back(wandb_finding(versions["wandb"]));
  found.push_back(curl_finding());
  for (const OptionalLibrary* library : OptionalLibrary::all()) found.push_back(library_finding(*library));
  return found;
}

}  // namespace levin::cli
