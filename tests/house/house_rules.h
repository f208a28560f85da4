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
/// - <torch/torch.h> only in examples, tests, benchmarks and the umbrella header; the umbrella header only there too;
/// - headers of yaml-cpp only in core/yaml and cli, of CLI11 only in cli, of c10d only in strategies;
/// - calls that communicate between ranks only in strategies and core/protocol, and where Strategy and Module offer them to
///   users; others talk through RankExchange, or meet() at a boundary below a comment "Every rank reaches this because …";
/// - no `using namespace` at file scope in a room, whose sources are compiled several at a time;
/// - a header begins with #pragma once; a file has at most 500 lines.
std::vector<std::string> findings(const SourceFile& file);

}  // namespace levin::test
