#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "levin/cli/commands/subcommands.h"
#include "levin/cli/commands/torch/weights_file.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/console/terminal.h"
#include "levin/core/formats/tensor_file.h"

namespace levin::cli {
namespace {

/// What `--to` may be.
struct Format {
  std::string name;
  ExportFormat format;
  const char* ending;  ///< of a file that is written next to the one that is read
};

const std::array<Format, 3> kFormats = {{{"safetensors", ExportFormat::kSafetensors, ".safetensors"},
                                         {"state_dict", ExportFormat::kStateDict, ".pt"},
                                         {"lightning", ExportFormat::kLightning, ".lightning.ckpt"}}};

struct ExportCommand {
  std::string file;
  std::string format;
  ExportOptions weights;
  std::filesystem::path output;  ///< empty: next to the file
  bool force = false;
};

void export_weights(const ExportCommand& options) {
  const auto is_given = [&](const Format& format) { return format.name == options.format; };
  const Format& to = *std::find_if(kFormats.begin(), kFormats.end(), is_given);
  std::filesystem::path output = options.output;
  if (output.empty()) output = std::filesystem::path(options.file).replace_extension(to.ending);
  if (!options.force && std::filesystem::exists(std::filesystem::symlink_status(output))) {
    throw ConfigError(format("'{}' already exists: give --force to replace it, or --output to write elsewhere.", output));
  }
  ExportOptions weights = options.weights;
  weights.format = to.format;
  export_file(options.file, output, weights);
  std::cout << format("{} written\n", one_line(output.native()));
}

}  // namespace

Subcommand export_subcommand() {
  const auto options = std::make_shared<ExportCommand>();
  return {"export", "Convert the weights of a checkpoint, or of another file, for other programs",
          [options](CLI::App& app) {
            declare_weights_file(app, options->file, options->weights.key);
            ExportOptions& weights = options->weights;
            app.add_option("--to", options->format,
                           "safetensors, state_dict (torch.load) or lightning (ckpt_path of Lightning's fit)")
                ->required()
                ->check(CLI::IsMember({kFormats[0].name, kFormats[1].name, kFormats[2].name}));
            app.add_option("-o,--output", options->output, "The file to write; default: next to FILE");
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
