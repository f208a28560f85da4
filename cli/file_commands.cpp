#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>

#include "levin/cli/command_line.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/masked_value.h"
#include "levin/core/config/to_yaml.h"
#include "levin/core/config/value_json.h"
#include "levin/core/console/terminal.h"
#include "levin/core/formats/package_file.h"
#include "levin/core/formats/tensor_file.h"

namespace levin::cli {
namespace {

/// A file that is looked into.
struct Inspected {
  std::vector<ChecksumReport> checks;
  TensorFile content;  ///< empty where a checksum does not hold
  bool is_whole = true;

  Inspected(const std::string& file, const std::string& key) : checks(TensorFile::checks(file)) {
    is_whole = std::ranges::all_of(checks, &ChecksumReport::holds);
    if (is_whole) content = TensorFile::open(file, {}, key);
  }
};

std::string checks_text(const std::vector<ChecksumReport>& checks) {
  if (checks.empty()) return "checksums: the file has none\n";
  std::vector<std::string> damaged;
  for (const ChecksumReport& check : checks) {
    if (!check.holds) damaged.push_back(check.what);
  }
  const std::string count = counted(checks.size(), "checksum");
  if (damaged.empty()) return format("checksums: all hold ({})\n", count);
  return format("checksums: damaged: {} (of {})\n", printable(join(damaged)), count);
}

std::string_view dtype_of(const at::Tensor& tensor) { return c10::getDtypeNames(tensor.scalar_type()).first; }

std::string table_of(const TensorFile& content) {
  std::size_t width = 0;
  std::size_t dtype_width = 0;
  for (const auto& [name, tensor] : content.content.tensors) {
    width = std::max(width, name.size());
    dtype_width = std::max(dtype_width, dtype_of(tensor).size());
  }
  std::string text;
  for (const std::string& name : content.names) {
    const at::Tensor& tensor = content.content.tensors.at(name);
    const std::string shape = join(tensor.sizes(), ", ", [](std::int64_t size) { return std::to_string(size); });
    text += format("  {}{}[{}]  {} bytes\n", padded(printable(name), width + 2),
                   padded(std::string(dtype_of(tensor)), dtype_width + 2), shape, tensor.nbytes());
  }
  return text;
}

std::string report_text(const std::string& file, const Inspected& inspected) {
  if (!inspected.is_whole) return format("{}: damaged\n{}", one_line(file), checks_text(inspected.checks));
  const auto& [kind, content, names, beside] = inspected.content;
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : content.tensors) bytes += tensor.nbytes();
  std::string text = format("{}: {}, {}, {} bytes\n", one_line(file), kind_name(kind), counted(names.size(), "tensor"), bytes);
  if (!beside.empty()) text += format("beside: {}\n", printable(join(beside)));
  if (kind == TensorFileKind::kPackage) {
    text += printable(PackageFile::open(file).summary());
  } else if (content.manifest.size() > 0) {
    text += "manifest:\n";
    std::istringstream manifest(printable(to_yaml(masked(content.manifest))));
    for (std::string line; std::getline(manifest, line);) text += format("  {}\n", line);
  }
  return text + "tensors:\n" + table_of(inspected.content) + checks_text(inspected.checks);
}

Value report_value(const std::string& file, const Inspected& inspected) {
  const auto& [kind, content, names, beside] = inspected.content;
  Value value(Value::Map{{"file", Value(file)},
                         {"kind", inspected.is_whole ? kind_name(kind) : ""},
                         {"manifest", content.manifest.size() > 0 ? masked(content.manifest) : Value()}});
  value["tensors"] = Value(Value::List{});
  for (const std::string& name : names) {
    const at::Tensor& tensor = content.tensors.at(name);
    value["tensors"].push_back(Value::Map{{"name", name},
                                          {"dtype", dtype_of(tensor)},
                                          {"shape", Value::List(tensor.sizes().begin(), tensor.sizes().end())},
                                          {"bytes", static_cast<std::int64_t>(tensor.nbytes())}});
  }
  value["checksums"] = Value(Value::List{});
  for (const ChecksumReport& check : inspected.checks)
    value["checksums"].push_back(Value::Map{{"of", check.what}, {"holds", check.holds}});
  if (!beside.empty()) value["beside"] = Value(Value::List(beside.begin(), beside.end()));
  value["damaged"] = !inspected.is_whole;
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
  std::cout << format("{} written\n", one_line(output.native()));
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
            const Inspected inspected(file, options->weights.key);
            std::cout << (options->as_json ? plain_json(report_value(file, inspected)) : report_text(file, inspected));
            return inspected.is_whole ? 0 : 1;
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
