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
#include "levin/images/class_folders.h"

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

/// Files below a folder, in alphabetical order; none of those that desktops leave behind.
std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (auto entry = fs::recursive_directory_iterator(folder); entry != fs::recursive_directory_iterator(); ++entry) {
    const std::string name = entry->path().filename();
    const std::string small = lowercase(name);
    if (name.starts_with('.')) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file() && entry->path().extension().string().size() > 1 && small != "thumbs.db" &&
               small != "desktop.ini") {
      files.push_back(fs::relative(entry->path(), folder).lexically_normal());
    }
  }
  std::ranges::sort(files);
  return files;
}

/// What a folder holds.
enum class Layout : std::uint8_t {
  kSamples,        ///< samples of several files
  kClassFolders,   ///< folders are their classes
  kImagesByClass,  ///< of which each is one image
};

Layout layout_of(const std::vector<fs::path>& files) {
  bool has_folders = false, are_images = true;
  for (const fs::path& file : files) {
    if (lowercase(file.extension().string()) == ".cls") return Layout::kSamples;
    if (!file.has_parent_path()) continue;
    has_folders = true;
    are_images = are_images && is_image(file);
  }
  if (!has_folders) return Layout::kSamples;
  return are_images ? Layout::kImagesByClass : Layout::kClassFolders;
}

/// Leaves out what stands beside the folders of classes, and says so.
void leave_loose_files_out(std::vector<fs::path>& files, const std::string& folder) {
  const auto is_loose = [](const fs::path& file) { return !file.has_parent_path(); };
  const auto first = std::ranges::find_if(files, is_loose);
  if (first == files.end()) return;
  const std::string name = quoted_text(first->string());
  const std::size_t loose = std::erase_if(files, is_loose);
  std::cerr << format("levin: warning: {}: {} beside the folders of its classes {} left out, such as {}\n", quoted_text(folder),
                      counted(loose, "file"), loose == 1 ? "is" : "are", name);
}

/// Where the ending of a name begins. That of an image is what follows the last dot. Files of one sample may differ in more,
/// as 17.left.png and 17.right.png do; but a part that begins with a digit is of the name: IMG.2024.01.png.
std::size_t ending_in(const std::string& name, Layout layout) {
  std::size_t dot = name.rfind('.');
  if (layout == Layout::kImagesByClass) return dot;
  while (dot > 1) {
    const std::size_t before = name.rfind('.', dot - 1);
    if (before == std::string::npos || before == 0) break;
    const char begin = name[before + 1];
    if ((begin >= '0' && begin <= '9') || begin == '.') break;
    dot = before;
  }
  return dot;
}

/// The samples that files make.
std::vector<Source> sources_of(const std::vector<fs::path>& files, const fs::path& folder, Layout layout) {
  std::map<std::string, Source> by_key;
  for (const fs::path& file : files) {
    const std::string name = file.filename();
    const std::size_t dot = ending_in(name, layout);
    std::string own = name.substr(0, dot);
    std::ranges::replace(own, '.', '_');  // in a shard a name ends at its first dot
    Source& source = by_key[(file.parent_path() / own).string()];
    source.key = (file.parent_path() / own).string();
    std::string ending = lowercase(name.substr(dot + 1));
    for (const auto& [other, path] : source.files) {
      if (layout != Layout::kImagesByClass && other != ending) continue;
      throw ConfigError(format("{} and {} would be one sample: rename one of them", quoted_text(path.string()),
                               quoted_text((folder / file).string())));
    }
    source.files.emplace_back(std::move(ending), folder / file);
  }
  std::vector<Source> sources;
  for (auto& [key, source] : by_key) {
    std::ranges::sort(source.files);
    sources.push_back(std::move(source));
  }
  return sources;
}

/// Labels samples by their folders, and gives the names of the classes.
std::vector<std::string> label_by_folders(std::vector<Source>& sources) {
  const auto class_of = [](const Source& source) { return source.key.substr(0, source.key.find('/')); };
  std::vector<std::string> classes;
  for (const Source& source : sources) classes.push_back(class_of(source));
  sort_classes(classes);
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  for (Source& source : sources) source.label = std::to_string(std::ranges::find(classes, class_of(source)) - classes.begin());
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
  std::vector<fs::path> files = files_in(folder);
  if (files.empty()) throw ConfigError(format("{} holds no files to pack", quoted_text(options.folder)));
  const Layout layout = layout_of(files);
  if (layout != Layout::kSamples) leave_loose_files_out(files, options.folder);
  std::vector<Source> sources = sources_of(files, folder, layout);
  const std::vector<std::string> classes = layout == Layout::kSamples ? std::vector<std::string>() : label_by_folders(sources);
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

/// CLI11's own check would say so with a range of 300 digits.
CLI::Validator at_least_one() {
  const auto problem_of = [](std::string& text) -> std::string {
    const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    const bool is_zero = text.find_first_not_of('0') == std::string::npos;
    return is_number && !is_zero ? "" : format("{} is not at least 1", quoted_text(text));
  };
  return CLI::Validator(problem_of, "", "at least 1");
}

}  // namespace

Subcommand shards_subcommand() {
  const auto options = std::make_shared<Options>();
  return {"shards", "Pack the files of samples into tar files, which are read one after another",
          [options](CLI::App& app) {
            CLI::App& pack = *app.add_subcommand("pack",
                                                 "Pack a folder: files that differ after the first dot of their names are "
                                                 "one sample, and folders are classes; of images alone in folders each is one");
            app.require_subcommand(1);
            pack.add_option("folder", options->folder, "The folder")->required();
            pack.add_option("-o,--output", options->output, "Where to: shards/train makes shards/train-000000.tar and so on")
                ->required();
            pack.add_option("--max-samples", options->max_samples, "The most samples of a shard")->check(at_least_one());
            pack.add_option("--max-megabytes", options->max_megabytes, "After how much a shard takes no more samples")
                ->check(at_least_one());
            pack.add_flag("--in-order", options->in_order, "In alphabetical order, not at random");
            pack.add_option("--seed", options->seed, "Seed of the random order");
            pack.add_option("--compress", options->compression, "gz or zst; each rank reads all of a compressed shard")
                ->check(CLI::IsMember({"gz", "zst"}));
          },
          [options](const CommandLine&) { return pack(*options); }};
}

}  // namespace levin::cli
