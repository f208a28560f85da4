#include "levin/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <sstream>

#include "levin/cli/help_text.h"
#include "levin/cli/key_suggestion.h"
#include "levin/cli/load_config.h"
#include "levin/cli/new_project.h"
#include "levin/cli/run_config.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/options/build_info.h"

namespace levin::cli {
namespace {

const std::vector<std::string>& command_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = run_command_names();
    all.insert(all.end(), {"list", "schema", "new", "inspect", "export", "bench"});
    return all;
  }();
  return names;
}

bool is_flag(const std::string& argument) {
  return argument.size() > 1 && argument[0] == '-' && !std::isdigit(static_cast<unsigned char>(argument[1])) &&
         argument[1] != '.';
}

/// Takes out of the arguments what CLI11 has no notion of: configuration files and overrides in the order they were written
/// in, plug-ins before or behind the command, and help topics. The rest is left for CLI11.
class Splitter {
 public:
  Splitter(const std::vector<std::string>& arguments, CommandLine& line) : arguments_(arguments), line_(line) {}

  std::vector<std::string> split() {
    while (next_ < arguments_.size()) {
      const std::string argument = arguments_[next_++];
      if (!take_config(argument) && !take_plugin(argument) && !take_help(argument) && !take_override(argument))
        rest_.push_back(argument);
    }
    return std::move(rest_);
  }

 private:
  bool take_config(const std::string& argument) {
    if (argument == "--config" || argument == "-c") {
      line_.sources.push_back(ConfigFile{value_of(argument, "FILE")});
    } else if (argument.starts_with("--config=")) {
      line_.sources.push_back(ConfigFile{argument.substr(9)});
    } else if (argument == "-config" || argument.starts_with("-config=")) {
      throw ConfigError(Mark{"command line"}, format("unknown option '{}'; did you mean '-{}'?", argument, argument));
    } else if (argument.starts_with("-c") && argument.size() > 2) {
      line_.sources.push_back(ConfigFile{argument.substr(2)});
    } else {
      return false;
    }
    return true;
  }

  bool take_plugin(const std::string& argument) {
    if (argument == "--plugin") {
      line_.plugins.push_back(value_of(argument, "FILE"));
      return true;
    }
    if (argument.starts_with("--plugin=")) line_.plugins.push_back(argument.substr(9));
    return argument.starts_with("--plugin=");
  }

  bool take_help(const std::string& argument) {
    if (argument.starts_with("--help=")) {
      line_.help_topic = argument.substr(7);
      return true;
    }
    const bool has_topic = (argument == "--help" || argument == "-h") && next_ < arguments_.size() &&
                           !is_flag(arguments_[next_]) && !is_command(arguments_[next_]);
    if (has_topic) line_.help_topic = arguments_[next_++];
    return has_topic;
  }

  bool take_override(const std::string& argument) {
    if (!argument.starts_with("--")) return false;
    const std::size_t equals = argument.find('=');
    std::string key = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    const bool append = key.ends_with('+');
    if (append) key.pop_back();
    // What the launcher is told is not the run's own, and may be said without its section.
    if (key == "max_restarts" || key == "min_devices") key.insert(0, "trainer.");
    const std::vector<std::string> sections = section_names();
    if (std::find(sections.begin(), sections.end(), key.substr(0, key.find('.'))) == sections.end()) return false;
    if (key.ends_with(".help")) {
      const bool has_class = equals == std::string::npos && next_ < arguments_.size() && !is_flag(arguments_[next_]);
      const std::string name = equals != std::string::npos ? argument.substr(equals + 1) : has_class ? arguments_[next_++] : "";
      line_.help_topic = name.empty() ? key.substr(0, key.size() - 5) : name;
      return true;
    }
    std::string text = equals != std::string::npos ? argument.substr(equals + 1) : value_of(argument, "VALUE");
    if (key == "ckpt_path" && text.empty()) {
      throw ConfigError(
          Mark{"command line: --ckpt_path"},
          "it is empty (is a variable of the shell unset?); give a file, the folder of a run, best, last or null");
    }
    line_.sources.push_back(Override{std::move(key), std::move(text), append});
    return true;
  }

  std::string value_of(const std::string& argument, const std::string& what) {
    if (next_ == arguments_.size() || is_flag(arguments_[next_]))
      throw ConfigError(Mark{"command line: " + argument}, format("needs a value: {}={}", argument, what));
    return arguments_[next_++];
  }

  static bool is_command(const std::string& argument) {
    return std::find(command_names().begin(), command_names().end(), argument) != command_names().end();
  }

  const std::vector<std::string>& arguments_;
  CommandLine& line_;
  std::size_t next_ = 0;
  std::vector<std::string> rest_;
};

// Taken out by Splitter; declared for --help.
void declare_source_options(CLI::App& command) {
  command.add_option("-c,--config", "YAML file; may be given several times, later ones win")->type_name("FILE");
  command.add_option("--plugin", "Library with classes of your own; may be given several times")->type_name("FILE");
}

void add_run_command(CLI::App& app, const std::string& name, const std::string& help, CommandLine& line) {
  CLI::App* command = app.add_subcommand(name, help);
  command->add_flag("--print_config", line.print_config, "Print the complete configuration with comments, and exit");
  declare_source_options(*command);
  command->footer(run_command_footer());
}

void add_file_commands(CLI::App& app, FileCommand& command) {
  CLI::App* inspect =
      app.add_subcommand("inspect", "Print what a checkpoint or another file of weights holds, and whether it is whole");
  inspect->add_option("file", command.file, "The file, or a folder of Hugging Face's")->required();
  inspect->add_flag("--json", command.as_json, "As JSON");
  constexpr const char* kKeyHelp =
      "Which dict of tensors, where a file of torch.save() holds several: as generator or models.a";
  inspect->add_option("--key", command.key, kKeyHelp);
  CLI::App* save =
      app.add_subcommand("export", "Write the weights of a checkpoint, or of another file, as other programs read them");
  save->add_option("file", command.file, "The file, or a folder of Hugging Face's")->required();
  save->add_option("--to", command.format, "safetensors, state_dict (torch.load) or lightning (ckpt_path of Lightning's fit)")
      ->required()
      ->check(CLI::IsMember({"safetensors", "state_dict", "lightning"}));
  save->add_option("-o,--output", command.output, "The file to write; beside FILE when left out");
  save->add_flag("--force", command.force, "Replace a file that is there already");
  save->add_option("--key", command.key, kKeyHelp);
  save->add_option("--prefix", command.prefix, "Only weights whose names begin with this, without it");
  save->add_option("--add_prefix", command.add_prefix, "What stands before each name then, such as model.");
}

void add_bench_command(CLI::App& app, CommandLine& line) {
  CLI::App* bench = app.add_subcommand("bench", "Measure what ranks say to one another, or the parts of a training step");
  bench->require_subcommand(1);
  bench->fallthrough();
  bench->allow_extras();
  const auto add = [&](const char* what, const char* help) {
    CLI::App* command = bench->add_subcommand(what, help);
    command->fallthrough();
    command->allow_extras();
    command->add_option("--csv", line.bench.csv, "Also write the numbers to this file")->type_name("FILE");
    declare_source_options(*command);
    command->parse_complete_callback([&line, what] { line.bench.what = what; });
    return command;
  };
  CLI::App* comm = add("comm", "Time all-reduce, all-gather, broadcast and reduce-scatter among --trainer.devices ranks");
  comm->add_option("--min_bytes", line.bench.min_bytes, "Smallest tensor")->check(CLI::PositiveNumber)->capture_default_str();
  comm->add_option("--max_bytes", line.bench.max_bytes, "Largest tensor")->check(CLI::PositiveNumber)->capture_default_str();
  CLI::App* ddp = add("ddp", "Time forward, backward, reduction and optimizer of a configuration's steps on each rank");
  ddp->add_option("--steps", line.bench.steps, "Steps of each measurement")
      ->check(CLI::Range(4, 1'000'000))
      ->capture_default_str();
}

/// "; did you mean '--trainer.max_epochs=3'?" for an option that is none.
std::string option_meant(const std::string& wrong, const CommandLine& line) {
  const std::size_t begin = wrong.find_first_not_of('-');
  const std::string key = wrong.substr(begin, wrong.find_first_of("=+", begin) - begin);
  const std::string value = wrong.substr(begin + key.size());
  const std::string head = key.substr(0, key.find('.'));
  std::vector<std::string> known = section_names();
  known.insert(known.end(), {"config", "plugin", "print_config", "help", "version"});
  const std::string nearest = nearest_name(head, known);
  std::vector<std::string> meant = keys_meant_by(key, config_as_far_as_known(line));
  // The last part alone leads to a key of another section only where the section is no slip of one.
  const bool is_whole = head == key && !meant.empty() && edit_distance(key, meant[0].substr(meant[0].rfind('.') + 1)) == 0;
  if (!nearest.empty() && !is_whole) meant = {nearest + key.substr(head.size())};
  if (meant.empty()) return "; sections are " + quoted_list(section_names());
  return format("; did you mean '{}'?", join(meant, "' or '", [&](const std::string& name) { return "--" + name + value; }));
}

void check_extras(const CLI::App& app, const CommandLine& line) {
  const std::vector<std::string> extras = app.remaining(true);
  if (extras.empty()) return;
  const std::string& wrong = extras.front();
  if (!is_flag(wrong) || wrong.find_first_not_of('-') == std::string::npos) {
    const bool is_yaml = wrong.ends_with(".yaml") || wrong.ends_with(".yml");
    const bool lacks_command = app.get_subcommands().empty();
    throw ConfigError(Mark{"command line"}, format("unexpected argument {}{}", quoted_text(wrong),
                                                   is_yaml         ? "; give it with --config"
                                                   : lacks_command ? did_you_mean(wrong, command_names(), "commands")
                                                                   : ""));
  }
  throw ConfigError(Mark{"command line"}, format("unknown option {}{}", quoted_text(wrong), option_meant(wrong, line)));
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  CommandLine line;
  std::vector<std::string> rest = Splitter(arguments, line).split();
  std::reverse(rest.begin(), rest.end());  // the order in which CLI11 takes a vector

  CLI::App app("Trains and evaluates modules from YAML configurations.", "levin");
  app.set_version_flag("--version", build_info());
  app.set_help_flag("-h,--help", "Print this help; --help NAME tells of a class, a section or a key");
  app.allow_extras();
  app.fallthrough();
  add_run_command(app, "fit", "Train a model, and validate it on the way", line);
  add_run_command(app, "validate", "Run the validation loop", line);
  add_run_command(app, "test", "Run the test loop", line);
  add_run_command(app, "predict", "Run the prediction loop", line);
  CLI::App* list = app.add_subcommand("list", "List the classes that YAML may name, those of --config's plug-ins among them");
  list->add_option("kind", line.list_kind, "callbacks, loggers, models, …; all when left out");
  declare_source_options(*list);
  CLI::App* schema =
      app.add_subcommand("schema", "Print the JSON Schema of the YAML, for editors, with the classes of --config's plug-ins");
  declare_source_options(*schema);
  CLI::App* project = app.add_subcommand("new", "Write a project that builds and trains at once");
  project->add_option("name", line.project, "The folder to make; its name becomes that of the plug-in and its classes")
      ->required();
  project->add_option("-t,--template", line.template_name, "What to begin with: " + join(template_names()))
      ->default_val("classifier");
  add_file_commands(app, line.file);
  add_bench_command(app, line);
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) command->allow_extras();

  try {
    app.parse(rest);
  } catch (const CLI::Success& request) {
    std::ostringstream output, ignored;
    app.exit(request, output, ignored);
    line.output = output.str();
    return line;
  } catch (const CLI::ParseError& error) {
    throw ConfigError(Mark{"command line"}, error.what());
  }
  check_extras(app, line);
  if (line.help_topic) return line;
  if (app.get_subcommands().empty())
    throw ConfigError(
        "a command is needed: levin fit, validate, test, predict, list, schema, new, inspect, export or bench; see levin "
        "--help");
  if (app.get_subcommands().size() > 1)
    throw ConfigError(Mark{"command line"}, format("one command at a time: both '{}' and '{}' are given",
                                                   app.get_subcommands()[0]->get_name(), app.get_subcommands()[1]->get_name()));
  line.command = app.get_subcommands().front()->get_name();
  return line;
}

}  // namespace levin::cli
