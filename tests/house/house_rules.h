#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace levin::test {

/// A file's name from the repository's root ("core/trainer.h"), and its content.
struct SourceFile {
  std::string name;
  std::string content;
};

/// Every .h, .cpp and .cu file of the rooms, tests, examples and benchmarks, sorted by name.
std::vector<SourceFile> read_sources(const std::filesystem::path& root);

/// What is wrong with a file, one line for each finding: "core/trainer.h:12: …". Empty for a good file. The rules:
/// - core includes no other room; callbacks, loggers and strategies include core and themselves; cli may include all of these;
///   nobody includes examples, tests or benchmarks;
/// - no include goes upwards with "../", and headers of ours are included as "levin/…";
/// - what stands in one place only, such as <torch/torch.h>, YAML, calls that communicate between ranks, or what core/base does
///   for all: the table of house_rules.cpp;
/// - a meeting at a boundary stands below a comment "Every rank reaches this because …";
/// - a header begins with #pragma once; a file has at most 500 lines.
std::vector<std::string> findings(const SourceFile& file);

}  // namespace levin::test
