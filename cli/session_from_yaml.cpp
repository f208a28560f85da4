#include <string>
#include <utility>
#include <vector>

#include "levin/cli/commands/torch/configured_run.h"
#include "levin/cli/config/load_config.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/session.h"

namespace levin {

namespace {

/// "trainer.max_epochs=5", which may begin with the dashes of the command line.
cli::Override override_of(const std::string& text) {
  const std::size_t begin = text.starts_with("--") ? 2 : 0;
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == begin) {
    throw ConfigError(Mark{"override"}, format("'{}' is not KEY=VALUE, such as trainer.max_epochs=5", text));
  }
  std::string key = text.substr(begin, equals - begin);
  const bool append = key.ends_with('+');
  if (append) key.pop_back();
  return {.key = std::move(key), .text = text.substr(equals + 1), .append = append, .of_program = true};
}

Session session_of(cli::ConfigFile file, const std::vector<std::string>& overrides) {
  cli::CommandLine line;
  line.command = "fit";
  line.sources.emplace_back(std::move(file));
  for (const std::string& text : overrides) line.sources.emplace_back(override_of(text));
  const cli::RunConfig config = load_config(line);
  require_model(line, config);
  return {config.trainer, [&](Trainer& trainer) {
            cli::seed(config);
            cli::announce(line, config);
            cli::save_config_of(trainer, config);
            cli::override_optimizers(trainer, config);
            return SessionParts{.module = config.model.get(), .data = config.data.get(), .options = cli::run_options(config)};
          }};
}

}  // namespace

Session Session::from_yaml(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  return session_of({.path = file.string()}, overrides);
}

Session Session::from_yaml_text(const std::string& text, const std::vector<std::string>& overrides) {
  return session_of({.path = "YAML text", .text = text}, overrides);
}

}  // namespace levin
