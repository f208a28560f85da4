#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace levin::cli {

/// Declares the file of weights that a command reads, and the key within it.
inline void declare_weights_file(CLI::App& app, std::string& file, std::string& key) {
  app.add_option("file", file, "The file, RUN:best or RUN:last of a run's folder, or a Hugging Face folder")->required();
  app.add_option("--key", key, "Which dict of tensors, if a file of torch.save() holds several: generator or models.a");
}

}  // namespace levin::cli
