#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "levin/cli/commands/subcommands.h"
#include "levin/cli/commands/torch/weights_file.h"
#include "levin/core/base/environment.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/console/terminal.h"
#include "levin/core/formats/tensor_file.h"
#include "levin/core/weights.h"

namespace levin::cli {
namespace {

/// What `--to` may be.
struct Format {
  std::string name;
  std::optional<ExportFormat> format;  ///< unset: Python writes it, as only PyTorch's own compilers can
  const char* ending;                  ///< of a file that is written next to the one that is read
};

const std::array<Format, 5> kFormats = {{{"safetensors", ExportFormat::kSafetensors, file_ending(ExportFormat::kSafetensors)},
                                         {"state_dict", ExportFormat::kStateDict, file_ending(ExportFormat::kStateDict)},
                                         {"lightning", ExportFormat::kLightning, file_ending(ExportFormat::kLightning)},
                                         {"program", std::nullopt, ".program.pt2"},
                                         {"onnx", std::nullopt, ".onnx"}}};

// Python's own traceback would not say what to install.
constexpr const char* kPythonCode =
    "import sys\n"
    "try:\n"
    "  from levin_train.programs import main\n"
    "except ImportError as error:\n"
    "  sys.exit(f'levin: error: {sys.executable} cannot import levin_train with torch ({error}), which writes this format: '\n"
    "           'pip install levin-train torch, or name another Python: PYTHON=…')\n"
    "sys.exit(main())";

struct ExportCommand {
  std::string file;
  std::string format;
  std::string package;
  ExportOptions weights;
  std::filesystem::path output;  ///< empty: next to the file
  bool force = false;
};

/// Becomes Python, which writes the file. Throws where there is none.
[[noreturn]] void write_with_python(const ExportCommand& options, const std::filesystem::path& file,
                                    const std::filesystem::path& output) {
  if (!options.weights.prefix.empty() || !options.weights.add_prefix.empty() || !options.weights.key.empty()) {
    throw ConfigError(
        format("--prefix, --add_prefix and --key are for weights, and --to {} writes a program.", options.format));
  }
  const std::string python = environment_or("PYTHON", "python3");
  std::vector<std::string> words = {python, "-c",           kPythonCode, file.string(),
                                    "--to", options.format, "--output",  output.string()};
  if (!options.package.empty()) words.insert(words.end(), {"--package", options.package});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(python.c_str(), arguments.data());
  throw IoError(format("--to {} needs Python with levin_train and torch, and '{}' cannot be started: {}. Name one: PYTHON=…",
                       options.format, python, std::strerror(errno)));
}

void export_weights(const ExportCommand& options) {
  const std::filesystem::path file = checkpoint_at(options.file);
  const auto is_given = [&](const Format& format) { return format.name == options.format; };
  const Format& to = *std::find_if(kFormats.begin(), kFormats.end(), is_given);
  std::filesystem::path output = options.output;
  if (output.empty()) output = std::filesystem::path(file).replace_extension(to.ending);
  if (std::filesystem::is_directory(output))
    throw ConfigError(format("--output: '{}' is a folder. Name a file in it.", output));
  if (!options.force && std::filesystem::exists(std::filesystem::symlink_status(output))) {
    throw ConfigError(format("'{}' already exists: give --force to replace it, or --output to write elsewhere.", output));
  }
  if (!to.format) write_with_python(options, file, output);
  if (!options.package.empty()) throw ConfigError("--package goes with --to program and --to onnx.");
  ExportOptions weights = options.weights;
  weights.format = *to.format;
  export_file(file, output, weights);
  std::cout << format("{} written\n", one_line(output.native()));
}

std::vector<std::string> names_of_formats() {
  std::vector<std::string> names;
  for (const Format& format : kFormats) names.push_back(format.name);
  return names;
}

}  // namespace

Subcommand export_subcommand() {
  const auto options = std::make_shared<ExportCommand>();
  return {"export", "Convert the weights of a checkpoint, or of another file, for other programs",
          [options](CLI::App& app) {
            declare_weights_file(app, options->file, options->weights.key);
            ExportOptions& weights = options->weights;
            app.add_option(
                   "--to", options->format,
                   "safetensors, state_dict (torch.load, torch::pickle_load), lightning (ckpt_path of Lightning's fit); of an "
                   "exported Python module also program (.pt2, for LibTorch's AOTIModelPackageLoader) or onnx")
                ->required()
                ->check(CLI::IsMember(names_of_formats()));
            app.add_option("-o,--output", options->output, "The file to write; default: next to FILE");
            app.add_option("--package", options->package, "Where the exported module is, if not where the run had it");
            app.add_flag("--force", options->force, "Replace an existing file");
            app.add_option("--prefix", weights.prefix, "Only weights whose names begin with this prefix, which is removed");
            app.add_option("--add_prefix", weights.add_prefix, "A prefix to add to each name, such as model.");
          },
          [options](const CommandLine&) {
            export_weights(*options);
            return 0;
          }};
}

}  // namespace levin::cli
