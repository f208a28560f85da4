#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>

#include "levin/cli/commands/subcommands.h"
#include "levin/cli/commands/torch/weights_file.h"
#include "levin/cli/padded.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/masked_value.h"
#include "levin/core/config/to_yaml.h"
#include "levin/core/config/value_json.h"
#include "levin/core/console/terminal.h"
#include "levin/core/formats/package_file.h"
#include "levin/core/formats/tensor_file.h"
#include "levin/core/weights.h"

namespace levin::cli {
namespace {

/// A file and the results of its checks.
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
  const auto& [kind, content, names, not_read] = inspected.content;
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : content.tensors) bytes += tensor.nbytes();
  std::string text = format("{}: {}, {}, {} bytes\n", one_line(file), kind_name(kind), counted(names.size(), "tensor"), bytes);
  if (!not_read.empty()) text += format("not read: {}\n", printable(join(not_read)));
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
  const auto& [kind, content, names, not_read] = inspected.content;
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
  if (!not_read.empty()) value["not_read"] = Value(Value::List(not_read.begin(), not_read.end()));
  value["damaged"] = !inspected.is_whole;
  return value;
}

struct InspectCommand {
  std::string file;
  std::string key;
  bool as_json = false;
};

}  // namespace

Subcommand inspect_subcommand() {
  const auto options = std::make_shared<InspectCommand>();
  return {"inspect", "Print the content of a checkpoint or another file of weights, and check that it is intact",
          [options](CLI::App& app) {
            declare_weights_file(app, options->file, options->key);
            app.add_flag("--json", options->as_json, "As JSON");
          },
          [options](const CommandLine&) {
            const std::string file = checkpoint_at(options->file).string();
            const Inspected inspected(file, options->key);
            std::cout << (options->as_json ? plain_json(report_value(file, inspected)) : report_text(file, inspected));
            return inspected.is_whole ? 0 : 1;
          }};
}

}  // namespace levin::cli
