#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>

#include "levin/cli/command_line.h"
#include "levin/cli/help_text.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/formats/file_report.h"
#include "levin/core/options/value_json.h"
#include "levin/core/yaml/to_yaml.h"

namespace levin::cli {
namespace {

std::string checks_text(const FileReport& report) {
  if (report.checks.empty()) return "checksums: the file has none\n";
  std::vector<std::string> damaged;
  for (const FileReport::Check& check : report.checks) {
    if (!check.holds) damaged.push_back(check.what);
  }
  const std::string count = counted(report.checks.size(), "checksum");
  if (damaged.empty()) return format("checksums: all hold ({})\n", count);
  return format("checksums: damaged: {} (of {})\n", printable(join(damaged)), count);
}

std::string table_of(const std::vector<FileReport::Tensor>& tensors) {
  std::size_t width = 0;
  std::size_t dtype_width = 0;
  for (const FileReport::Tensor& tensor : tensors) {
    width = std::max(width, tensor.name.size());
    dtype_width = std::max(dtype_width, tensor.dtype.size());
  }
  std::string text;
  for (const FileReport::Tensor& tensor : tensors) {
    const std::string shape = join(tensor.shape, ", ", [](std::int64_t size) { return std::to_string(size); });
    text += format("  {}{}[{}]  {} bytes\n", padded(printable(tensor.name), width + 2), padded(tensor.dtype, dtype_width + 2),
                   shape, tensor.bytes);
  }
  return text;
}

std::string report_text(const std::string& file, const FileReport& report) {
  if (!report.is_whole()) return format("{}: damaged\n{}", file, checks_text(report));
  std::uint64_t bytes = 0;
  for (const FileReport::Tensor& tensor : report.tensors) bytes += tensor.bytes;
  std::string text = format("{}: {}, {}, {} bytes\n", file, report.kind, counted(report.tensors.size(), "tensor"), bytes);
  if (!report.beside.empty()) text += format("beside: {}\n", printable(join(report.beside)));
  if (!report.summary.empty()) {
    text += printable(report.summary);
  } else if (!report.manifest.is_null()) {
    text += "manifest:\n";
    std::istringstream manifest(printable(to_yaml(report.manifest)));
    for (std::string line; std::getline(manifest, line);) text += format("  {}\n", line);
  }
  return text + "tensors:\n" + table_of(report.tensors) + checks_text(report);
}

Value report_value(const std::string& file, const FileReport& report) {
  Value value(Value::Map{{"file", Value(file)}, {"kind", Value(report.kind)}, {"manifest", report.manifest}});
  value["tensors"] = Value(Value::List{});
  for (const FileReport::Tensor& tensor : report.tensors) {
    value["tensors"].push_back(Value(Value::Map{{"name", Value(tensor.name)},
                                                {"dtype", Value(tensor.dtype)},
                                                {"shape", Value(Value::List(tensor.shape.begin(), tensor.shape.end()))},
                                                {"bytes", Value(static_cast<std::int64_t>(tensor.bytes))}}));
  }
  value["checksums"] = Value(Value::List{});
  for (const FileReport::Check& check : report.checks) {
    value["checksums"].push_back(Value(Value::Map{{"of", Value(check.what)}, {"holds", Value(check.holds)}}));
  }
  if (!report.beside.empty()) value["beside"] = Value(Value::List(report.beside.begin(), report.beside.end()));
  value["damaged"] = !report.is_whole();
  return value;
}

/// What `--to` may be.
struct Format {
  std::string name;
  ExportFormat format;
  const char* ending;  ///< of a file that is written beside the one that is read
};

const std::array<Format, 3> kFormats = {{{"safetensors", ExportFormat::kSafetensors, ".safetensors"},
                                         {"state_dict", ExportFormat::kStateDict, ".pt"},
                                         {"lightning", ExportFormat::kLightning, ".lightning.ckpt"}}};

/// What is read, and how it is looked into or exported.
struct FileOptions {
  std::string file;
  bool as_json = false;
  std::string format;
  ExportOptions weights;
  std::filesystem::path output;  ///< empty: beside the file
  bool force = false;
};

void declare_file(CLI::App& app, FileOptions& options) {
  app.add_option("file", options.file, "The file, or a folder of Hugging Face's")->required();
  app.add_option("--key", options.weights.key,
                 "Which dict of tensors, where a file of torch.save() holds several: as generator or models.a");
}

void export_weights(const FileOptions& options) {
  const auto is_given = [&](const Format& format) { return format.name == options.format; };
  const Format& to = *std::find_if(kFormats.begin(), kFormats.end(), is_given);
  std::filesystem::path output = options.output;
  if (output.empty()) output = std::filesystem::path(options.file).replace_extension(to.ending);
  if (!options.force && std::filesystem::exists(std::filesystem::symlink_status(output))) {
    throw ConfigError(format("'{}' is there already: give --force to replace it, or --output to write elsewhere.", output));
  }
  ExportOptions weights = options.weights;
  weights.format = to.format;
  export_file(options.file, output, weights);
  std::cout << format("{} written\n", output);
}

}  // namespace

Subcommand inspect_subcommand() {
  const auto options = std::make_shared<FileOptions>();
  return {"inspect", "Print what a checkpoint or another file of weights holds, and whether it is whole",
          [options](CLI::App& app) {
            declare_file(app, *options);
            app.add_flag("--json", options->as_json, "As JSON");
          },
          [options](const CommandLine&) {
            const std::string& file = options->file;
            const FileReport report = inspect_file(file, options->weights.key);
            std::cout << (options->as_json ? plain_json(report_value(file, report)) : report_text(file, report));
            return report.is_whole() ? 0 : 1;
          }};
}

Subcommand export_subcommand() {
  const auto options = std::make_shared<FileOptions>();
  return {"export", "Write the weights of a checkpoint, or of another file, as other programs read them",
          [options](CLI::App& app) {
            declare_file(app, *options);
            ExportOptions& weights = options->weights;
            app.add_option("--to", options->format,
                           "safetensors, state_dict (torch.load) or lightning (ckpt_path of Lightning's fit)")
                ->required()
                ->check(CLI::IsMember({kFormats[0].name, kFormats[1].name, kFormats[2].name}));
            app.add_option("-o,--output", options->output, "The file to write; beside FILE when left out");
            app.add_flag("--force", options->force, "Replace a file that is there already");
            app.add_option("--prefix", weights.prefix, "Only weights whose names begin with this, without it");
            app.add_option("--add_prefix", weights.add_prefix, "What stands before each name then, such as model.");
          },
          [options](const CommandLine&) {
            export_weights(*options);
            return 0;
          }};
}

}  // namespace levin::cli
