#include "levin/cli/file_commands.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "levin/cli/command_line.h"
#include "levin/cli/json_schema.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/formats/file_report.h"
#include "levin/core/yaml/to_yaml.h"

namespace levin::cli {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return "[" + join(shape, ", ", [](std::int64_t size) { return std::to_string(size); }) + "]";
}

std::string indented(const std::string& text) {
  std::string made;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1);
    made += "  " + text.substr(begin, end + 1 - begin);
    begin = end + 1;
  }
  return made;
}

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
    text +=
        format("  {}{}{}{}{}  {} bytes\n", printable(tensor.name), std::string(width + 2 - tensor.name.size(), ' '),
               tensor.dtype, std::string(dtype_width + 2 - tensor.dtype.size(), ' '), shape_text(tensor.shape), tensor.bytes);
  }
  return text;
}

std::string report_text(const std::string& file, const FileReport& report) {
  if (!report.is_whole()) return format("{}: damaged\n{}", file, checks_text(report));
  std::uint64_t bytes = 0;
  for (const FileReport::Tensor& tensor : report.tensors) bytes += tensor.bytes;
  std::string text = format("{}: {}, {}, {} bytes\n", file, report.kind, counted(report.tensors.size(), "tensor"), bytes);
  if (!report.beside.empty()) text += format("beside: {}\n", printable(join(report.beside)));
  if (!report.manifest.is_null()) text += "manifest:\n" + indented(printable(to_yaml(report.manifest)));
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

/// "best.ckpt" becomes "best.safetensors"; a checkpoint for Lightning "best.lightning.ckpt".
std::filesystem::path default_output(const std::filesystem::path& file, ExportFormat format) {
  constexpr std::array<const char*, 3> kEndings = {".safetensors", ".pt", ".lightning.ckpt"};
  return std::filesystem::path(file).replace_extension(kEndings.at(static_cast<std::size_t>(format)));
}

}  // namespace

Inspection inspect(const FileCommand& command) {
  const FileReport report = inspect_file(command.file, command.key);
  const std::string text = command.as_json ? json_text(report_value(command.file, report)) : report_text(command.file, report);
  return {text, report.is_whole()};
}

std::string export_weights(const FileCommand& command) {
  ExportOptions options{.prefix = command.prefix, .add_prefix = command.add_prefix, .key = command.key};
  if (command.format == "state_dict") options.format = ExportFormat::kStateDict;
  if (command.format == "lightning") options.format = ExportFormat::kLightning;
  std::filesystem::path output = command.output;
  if (output.empty()) output = default_output(command.file, options.format);
  if (!command.force && std::filesystem::exists(std::filesystem::symlink_status(output))) {
    throw ConfigError(format("'{}' is there already: give --force to replace it, or --output to write elsewhere.", output));
  }
  export_file(command.file, output, options);
  return format("{} written\n", output);
}

}  // namespace levin::cli
