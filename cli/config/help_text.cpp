#include "levin/cli/config/help_text.h"

#include <algorithm>
#include <vector>

#include "levin/cli/config/run_config.h"
#include "levin/cli/padded.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/trainer_options.h"

namespace levin::cli {
namespace {

// A default: "0.001", "[0.9, 0.999]".
std::string default_text(const Value& value) {
  if (value.is_map() && value.size() > 0) return "{…}";
  if (value.is_list()) return format("[{}]", join(value.as_list(), ", ", default_text));
  return scalar_text(value);
}

// "at least 0", "one of min, max", …
std::vector<std::string> restrictions(const OptionInfo& option) {
  std::vector<std::string> parts = detail::bounds(option);
  if (option.not_empty) parts.push_back("not empty");
  if (!option.choices.empty()) parts.push_back("one of " + join(option.choices));
  return parts;
}

std::string option_help(const OptionInfo& option) {
  std::vector<std::string> facts = {option.type};
  facts.push_back(option.required ? "required" : "default " + default_text(option.default_value));
  if (!option.linked_to.empty()) facts.push_back(format("not given: that of {}", option.linked_to));
  for (std::string& part : restrictions(option)) facts.push_back(std::move(part));
  const std::string help = option.help.empty() ? "" : format("      {}\n", option.help);
  return format("  {}  ({})\n{}", option.name, join(facts), help);
}

std::string options_help(const std::vector<OptionInfo>& options) { return join(options, "", option_help); }

std::string class_help(const std::string& kind, const ClassInfo& info) {
  std::string text = format("{} ({}){}{}\n", info.name, kind, info.help.empty() ? "" : ": ", info.help);
  if (info.options.empty()) return text + "\nIt takes no init_args.\n";
  return format("{}\ninit_args:\n{}", text, options_help(info.options));
}

}  // namespace

std::string kind_help(const ClassKind& kind) {
  std::string text = kind.plural + ":\n";
  if (kind.classes().empty()) return text + "  none is registered; load a plug-in with --plugin FILE\n";
  std::size_t width = 0;
  for (const ClassInfo* info : kind.classes()) width = std::max(width, info->name.size());
  for (const ClassInfo* info : kind.classes())
    text += format("  {}\n", info->help.empty() ? info->name : padded(info->name, width + 2) + info->help);
  return text;
}

namespace {

std::string key_help(const OptionInfo& option) {
  const std::string kind = kind_of(option.schema);
  return option_help(option) +
         (kind.empty() ? "" : format("\n{}\n--help CLASS describes one of them.\n", kind_help(class_kind(kind))));
}

// The class that is named by, or whose arguments stand at, a path that ends with class_path or init_args.
const ClassInfo* class_at(const Value& config, const YamlPath& path) {
  const Value* node = &config;
  for (std::size_t i = 0; i + 1 < path.size() && node != nullptr; ++i)
    node = node->is_list() ? &node->as_list().at(std::stoul(path[i])) : node->find(path[i]);
  return node != nullptr ? class_of(*node) : nullptr;
}

// The options that the map at the end of a path has: those of a section, or of the class that stands there.
std::vector<OptionInfo> options_at(const Value& config, const YamlPath& path) {
  if (path.empty()) return describe_options<RunConfig>();
  if (path == YamlPath{"trainer"}) return describe_options<TrainerOptions>();
  if (path.size() == 1) return section_settings(path.front());
  const ClassInfo* info = path.back() == "init_args" ? class_at(config, path) : nullptr;
  return info != nullptr ? info->options : std::vector<OptionInfo>{};
}

}  // namespace

std::string run_command_footer() {
  std::string text = "\nThe YAML's sections, each also an option (--trainer.max_epochs=5, --model.lr=1e-3):\n";
  for (const OptionInfo& option : describe_options<RunConfig>()) text += format("  {:<18}{}\n", option.name, option.help);
  return text +
         "\n--help trainer lists the Trainer's flags, --help callbacks (or models, loggers, …) the known classes,\n"
         "--help CLASS the arguments of one, and --print_config everything with its current value.\n";
}

std::string topic_help(const std::string& topic) {
  for (const ClassKind& kind : class_catalog()) {
    if (const ClassInfo* info = kind.find(topic)) return class_help(kind.name, *info);
  }
  const std::vector<OptionInfo> sections = describe_options<RunConfig>();
  const std::vector<OptionInfo> flags = describe_options<TrainerOptions>();
  if (topic == "trainer") return "trainer: flags of the Trainer\n" + options_help(flags);
  const std::string flag_name = topic.starts_with("trainer.") ? topic.substr(8) : topic;
  if (const OptionInfo* section = find_option(sections, topic)) {
    const std::vector<OptionInfo> settings = section_settings(topic);
    if (settings.empty()) return key_help(*section);
    return format("{}\nNext to class_path and init_args:\n{}", key_help(*section), options_help(settings));
  }
  std::vector<std::string> known;
  for (const ClassKind& kind : class_catalog()) {
    if (topic == kind.plural || topic == kind.name) return kind_help(kind);
    known.push_back(kind.plural);
    for (const ClassInfo* info : kind.classes()) known.push_back(info->name);
  }
  if (const OptionInfo* flag = find_option(flags, flag_name)) return key_help(*flag);
  for (const OptionInfo& option : sections) known.push_back(option.name);
  for (const OptionInfo& option : flags) known.push_back("trainer." + option.name);
  const std::string nearest = nearest_name(topic, known);
  throw ConfigError(Mark{"command line"},
                    format("no help on '{}'{}", topic,
                           nearest.empty() ? "; `levin list` lists the classes, with --config FILE those of its plug-ins too"
                                           : format("; did you mean '{}'?", nearest)));
}

CommentOf config_comments(const Value& config) {
  return [&config](const YamlPath& path) -> std::string {
    if (path.back() == "class_path") {
      const ClassInfo* info = class_at(config, path);
      return info != nullptr ? info->help : "";
    }
    const std::vector<OptionInfo> options = options_at(config, YamlPath(path.begin(), path.end() - 1));
    const OptionInfo* option = find_option(options, path.back());
    if (option == nullptr) return {};
    const std::string limits = join(restrictions(*option));
    return option->help + (limits.empty() ? "" : format(" ({})", limits));
  };
}

}  // namespace levin::cli
