#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "levin/cli/commands/subcommands.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/file_bytes.h"
#include "levin/data/shard_writer.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string folder;
  std::string output;
  std::int64_t max_samples = 10'000;
  std::int64_t max_megabytes = 1000;
  bool in_order = false;
  std::uint64_t seed = 0;
  std::string compression;  ///< gz, zst; empty: none
};

Compression compression_of(const Options& options) {
  if (options.compression.empty()) return Compression::kNone;
  return options.compression == "gz" ? Compression::kGzip : Compression::kZstd;
}

/// The files of a sample.
struct Source {
  std::string key;
  std::vector<std::pair<std::string, fs::path>> files;  ///< by their names in the sample
  std::string label;                                    ///< the number of its class; empty: none
};

std::string content_of(const fs::path& file) {
  std::optional<std::string> content = file_bytes(file);
  if (!content) throw IoError(format("{} cannot be read", quoted_text(file.string())));
  return *std::move(content);
}

/// Files below a folder, by their samples: what stands before the first dot of a name is the sample's.
std::vector<Source> sources_in(const fs::path& folder) {
  std::map<std::string, Source> by_key;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    const std::size_t dot = name.find('.', 1);
    if (!entry.is_regular_file() || name.starts_with('.') || dot == std::string::npos) continue;
    const std::string key = (fs::relative(entry.path().parent_path(), folder) / name.substr(0, dot)).lexically_normal();
    Source& source = by_key[key];
    source.key = key;
    source.files.emplace_back(name.substr(dot + 1), entry.path());
  }
  std::vector<Source> sources;
  for (auto& [key, source] : by_key) {
    std::ranges::sort(source.files);
    sources.push_back(std::move(source));
  }
  return sources;
}

/// Samples whose files are all of one kind in folders are labelled by these: their classes, in alphabetical order.
std::vector<std::string> label_by_folders(std::vector<Source>& sources) {
  std::vector<std::string> classes;
  for (const Source& source : sources) {
    const std::size_t slash = source.key.find('/');
    const bool has_label = std::ranges::any_of(source.files, [](const auto& file) { return file.first == "cls"; });
    if (slash == std::string::npos || has_label) return {};
    const std::string name = source.key.substr(0, slash);
    if (classes.empty() || classes.back() != name) classes.push_back(name);
  }
  std::ranges::sort(classes);
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  for (Source& source : sources) {
    const std::string name = source.key.substr(0, source.key.find('/'));
    source.label = std::to_string(std::ranges::find(classes, name) - classes.begin());
  }
  return classes;
}

/// Says which shards of an earlier run stand behind those that were written now: a pattern would take them for a part of these.
void warn_of_others(const fs::path& output, std::size_t first) {
  for (const Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZstd}) {
    const std::string other = format("{}-{:06}.tar{}", output.string(), first, ending_of(compression));
    if (!fs::exists(other)) continue;
    std::cerr << format("levin: warning: {} is of an earlier run: remove it, and those behind it\n", quoted_text(other));
  }
}

int pack(const Options& options) {
  const fs::path folder = options.folder;
  if (!fs::is_directory(folder)) throw ConfigError(format("{} is no folder", quoted_text(options.folder)));
  std::vector<Source> sources = sources_in(folder);
  if (sources.empty()) throw ConfigError(format("{} holds no files to pack", quoted_text(options.folder)));
  const std::vector<std::string> classes = label_by_folders(sources);
  if (!options.in_order) std::shuffle(sources.begin(), sources.end(), std::mt19937_64(options.seed));
  const fs::path output = options.output;
  ShardWriter writer(output.parent_path(), output.filename(),
                     {.max_samples = options.max_samples,
                      .max_bytes = options.max_megabytes * 1'000'000,
                      .compression = compression_of(options)});
  for (const Source& source : sources) {
    ShardSample sample{.key = source.key, .files = {}};
    for (const auto& [name, file] : source.files) sample.files.emplace_back(name, content_of(file));
    if (!source.label.empty()) sample.files.emplace_back("cls", source.label);
    writer.add(sample);
  }
  writer.finish();
  warn_of_others(output, writer.shards().size());
  if (!classes.empty()) {
    const fs::path list = output.string() + "-classes.txt";
    write_file(list, join(classes, "\n") + "\n");
    std::cout << format("{}: names of the classes\n", list.string());
  }
  std::cout << format("{} in {}: {} to {}\n", counted(static_cast<std::size_t>(writer.samples()), "sample"),
                      counted(writer.shards().size(), "shard"), writer.shards().front().string(),
                      writer.shards().back().string());
  return 0;
}

}  // namespace

Subcommand shards_subcommand() {
  const auto options = std::make_shared<Options>();
  return {"shards", "Pack the files of samples into tar files, which are read one after another",
          [options](CLI::App& app) {
            CLI::App& pack = *app.add_subcommand("pack",
                                                 "Pack a folder: files that differ after the first dot of their names are "
                                                 "one sample, and folders are classes");
            app.require_subcommand(1);
            pack.add_option("folder", options->folder, "The folder")->required();
            pack.add_option("-o,--output", options->output, "Where to: shards/train makes shards/train-000000.tar and so on")
                ->required();
            pack.add_option("--max-samples", options->max_samples, "The most samples of a shard")->check(CLI::PositiveNumber);
            pack.add_option("--max-megabytes", options->max_megabytes, "After how much a shard takes no more samples")
                ->check(CLI::PositiveNumber);
            pack.add_flag("--in-order", options->in_order, "In alphabetical order, not at random");
            pack.add_option("--seed", options->seed, "Seed of the random order");
            pack.add_option("--compress", options->compression, "gz or zst; each rank reads all of a compressed shard")
                ->check(CLI::IsMember({"gz", "zst"}));
          },
          [options](const CommandLine&) { return pack(*options); }};
}

}  // namespace levin::cli
