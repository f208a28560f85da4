#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "levin/cli/config/class_catalog.h"
#include "levin/cli/config/command_line.h"
#include "levin/cli/config/load_config.h"
#include "levin/cli/config/run_config.h"
#include "levin/cli/config/yaml_reader.h"
#include "levin/cli/lightning/lightning_names.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/to_yaml.h"
#include "support/error_of.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::cli;
using namespace levin::test;

namespace {

/// What LightningCLI wrote: see lightning/make_defaults.py.
const Value& defaults() {
  static const Value all = read_yaml_file(std::filesystem::path(LEVIN_SOURCE_DIR) / "tests/cli/lightning/defaults.yaml");
  return all;
}

Value map_of(const std::string& key, Value value) { return Value(Value::Map{{key, std::move(value)}}); }

RunConfig load(const Value& config) {
  const TemporaryFolder folder;
  std::ofstream(folder / "run.yaml") << to_yaml(config);
  CommandLine line;
  line.command = "fit";
  line.sources.push_back(ConfigFile{folder / "run.yaml"});
  return load_config(line);
}

std::string error_of_loading(const Value& config) {
  return levin::test::error_of<ConfigError>([&] { load(config); });
}

/// Where Lightning has the module of a kind of classes.
std::string module_of(const std::string& kind) {
  if (kind == "optimizer") return "torch.optim.";
  if (kind == "lr_scheduler") return "torch.optim.lr_scheduler.";
  return format("lightning.pytorch.{}.", class_kind(kind).plural);
}

/// A configuration with a class of this kind.
Value config_with(const std::string& kind, Value spec) {
  if (kind == "optimizer") return map_of("optimizer", std::move(spec));
  if (kind == "lr_scheduler") return Value(Value::Map{{"optimizer", "torch.optim.SGD"}, {"lr_scheduler", std::move(spec)}});
  return map_of("trainer", map_of(kind == "callback" ? "callbacks" : kind,
                                  kind == "callback" ? Value(Value::List{std::move(spec)}) : std::move(spec)));
}

Value spec_of(const std::string& kind, const std::string& name, Value arguments) {
  return Value(Value::Map{{"class_path", module_of(kind) + name}, {"init_args", std::move(arguments)}});
}

const std::vector<std::string> kKinds = {"callback", "logger", "strategy", "profiler", "optimizer", "lr_scheduler"};

/// Arguments that have no default: what Lightning takes there is none of YAML's, or is not there when nothing is given.
Value with_required(const std::string& name, Value arguments) {
  if (name == "LambdaLR" || name == "MultiplicativeLR") arguments["lr_lambda"] = "0.9";
  if (name == "MLFlowLogger") arguments["tracking_uri"] = "http://localhost:1";
  if (name == "SequentialLR") arguments["milestones"] = Value(Value::List{1});
  if (name == "SequentialLR" || name == "ChainedScheduler") {
    const Value step = spec_of("lr_scheduler", "StepLR", defaults().at("lr_scheduler").at("StepLR"));
    arguments["schedulers"] = Value(Value::List{step, step});
  }
  return arguments;
}

}  // namespace

TEST_CASE("what LightningCLI writes of a class with nothing but defaults loads, or an error says what replaces it") {
  std::set<std::string> told;  // of what something has no effect here
  for (const std::string& kind : kKinds) {
    for (const auto& [name, arguments] : defaults().at(kind).as_map()) {
      INFO(kind << " " << name);
      const Value config = config_with(kind, spec_of(kind, name, with_required(name, arguments)));
      const LightningClass* const other = lightning_class(kind, name);
      if (other != nullptr && !other->instead.empty()) {
        CHECK_THAT(error_of_loading(config), Catch::Contains("levin has no " + kind) && Catch::Contains(other->instead) &&
                                                 !Catch::Contains("did you mean"));
        continue;
      }
      RunConfig loaded;
      REQUIRE_NOTHROW(loaded = load(config));
      if (!loaded.ignored_settings.lines().empty()) told.insert(name);
    }
  }
  CHECK(told == std::set<std::string>{"ThroughputMonitor"});  // batch_size_fn, which levin needs not
}

TEST_CASE("the Trainer's flags of any version of Lightning load with their defaults") {
  const Value whole = load(map_of("trainer", defaults().at("trainer"))).ignored_settings.lines().empty();
  CHECK(whole == Value(true));
  for (const auto& [flag, values] : defaults().at("any_trainer").as_map()) {
    Value::List all = values.as_list();
    all.emplace_back();  // null, too
    for (const Value& value : all) {
      INFO(flag << " = " << describe(value));
      RunConfig loaded;
      REQUIRE_NOTHROW(loaded = load(map_of("trainer", map_of(flag, value))));
      CHECK(loaded.ignored_settings.lines().empty());
    }
  }
}

TEST_CASE("the other keys of LightningCLI's files load, in sections of commands, too") {
  CHECK(load(defaults().at("top")).ignored_settings.lines().empty());
  CHECK(load(map_of("fit", defaults().at("top"))).ignored_settings.lines().empty());
  const Value of_others = Value(Value::Map{{"test", Value(Value::Map{{"verbose", false}, {"weights_only", Value()}})},
                                           {"predict", map_of("return_predictions", true)}});
  CHECK(load(of_others).ignored_settings.lines().empty());
  CHECK_THAT(load(map_of("fit", map_of("weights_only", false))).ignored_settings.lines().at(0),
             Catch::StartsWith("weights_only = false (") && Catch::EndsWith("run.yaml:2:17)"));
}

TEST_CASE("an argument of Lightning's that asks for something says what replaces it, or that it has no effect") {
  for (const LightningArguments& of_some : lightning_arguments()) {
    for (const LightningArgument& argument : of_some.arguments) {
      const Value other = "something else";
      const std::string name = of_some.classes.empty() ? "" : of_some.classes.front();
      INFO(of_some.kind << " " << name << " " << argument.name);
      Value config;
      if (of_some.kind == kTopKeys) {
        config = map_of(argument.name, other);
      } else if (of_some.kind == kTrainerFlags) {
        config = map_of("trainer", map_of(argument.name, other));
      } else {
        const ClassInfo* const info = class_kind(of_some.kind).find(name);
        REQUIRE(info != nullptr);
        if (find_option(info->options, argument.name) != nullptr || !argument.renamed.empty()) continue;
        const Value* const known = defaults().at(of_some.kind).find(name);
        Value arguments = with_required(name, known != nullptr ? *known : Value(Value::Map{}));
        arguments[argument.name] = other;
        config = config_with(of_some.kind, Value(Value::Map{{"class_path", name}, {"init_args", arguments}}));
      }
      if (!argument.instead.empty()) {
        CHECK_THAT(error_of_loading(config), Catch::Contains(argument.name + ": levin has no such") &&
                                                 Catch::EndsWith(": " + argument.instead) && !Catch::Contains("did you mean"));
      } else {
        std::vector<std::string> told;
        REQUIRE_NOTHROW(told = load(config).ignored_settings.lines());
        CHECK(std::ranges::any_of(told, [&](const std::string& line) { return line.starts_with(argument.name + " "); }));
      }
    }
  }
}

TEST_CASE("each class of the table is one that levin has, or says what replaces it") {
  for (const LightningClass& known : lightning_classes()) {
    for (const std::string& name : known.names) {
      INFO(known.kind << " " << name);
      CHECK(class_kind(known.kind).find(name) == nullptr);
      if (!known.is.empty()) CHECK(class_kind(known.kind).find(known.is) != nullptr);
      CHECK((known.is.empty() || known.instead.empty()));
    }
  }
}

namespace {

/// Its name, and in brackets the values that levin takes.
std::string argument_text(const LightningArgument& argument) {
  const std::string idle = join(argument.idle, ", ", [](const Value& value) {
    if (value.is_map()) return std::string("its default");
    if (value.is_list()) return std::string("`[]`");
    return format("`{}`", value == Value("") ? "''" : scalar_text(value));
  });
  return idle.empty() ? format("`{}`", argument.name) : format("`{}` ({})", argument.name, idle);
}

std::string meaning_of(const LightningArgument& argument) {
  return argument.renamed == argument.name ? "goes next to class_path" : argument.instead;
}

/// The arguments of some classes as "`a` (`false`), `b` | set `c` |": those of one meaning together, without those that have no
/// effect or another name here.
std::vector<std::string> rows_of(const std::vector<LightningArgument>& arguments) {
  std::vector<std::pair<std::string, std::string>> by_meaning;
  for (const LightningArgument& argument : arguments) {
    if (argument.instead.empty() && argument.renamed != argument.name) continue;
    const std::string meaning = meaning_of(argument), text = argument_text(argument);
    const auto row = std::ranges::find(by_meaning, meaning, &std::pair<std::string, std::string>::first);
    if (row == by_meaning.end()) {
      by_meaning.emplace_back(meaning, text);
    } else {
      row->second += ", " + text;
    }
  }
  std::vector<std::string> rows;
  for (const auto& [meaning, texts] : by_meaning) rows.push_back(format("{} | {} |", texts, meaning));
  return rows;
}

/// The tables of docs/from-lightning.md, a line each.
std::vector<std::string> tables() {
  constexpr std::size_t kMostNamed = 4;
  std::vector<std::string> lines;
  const auto code = [](const std::string& name) { return format("`{}`", name); };
  for (const LightningArguments& of_some : lightning_arguments()) {
    const std::string classes =
        of_some.classes.size() > kMostNamed ? class_kind(of_some.kind).plural : join(of_some.classes, ", ", code);
    for (const std::string& row : rows_of(of_some.arguments))
      lines.push_back(classes.empty() ? "| " + row : format("| {} | {}", classes, row));
  }
  for (const LightningClass& known : lightning_classes()) {
    if (known.instead.empty() || known.kind == "callback") continue;  // the page has a section of callbacks
    const std::vector<std::string> named(known.names.begin(), known.names.begin() + std::min(kMostNamed, known.names.size()));
    lines.push_back(format("| {} {}{} | {} |", known.kind, join(named, ", ", code),
                           named.size() < known.names.size() ? ", …" : "", known.instead));
  }
  for (const LightningValue& known : lightning_values()) {
    if (known.instead.empty()) continue;
    lines.push_back(format("`{}`: {}", known.option, known.instead));
  }
  return lines;
}

}  // namespace

TEST_CASE("docs/from-lightning.md has the tables of what Lightning has and levin has not") {
  const std::string page = read_text(std::filesystem::path(LEVIN_SOURCE_DIR) / "docs/from-lightning.md");
  for (const std::string& line : tables()) {
    INFO(line);
    CHECK(page.find(line) != std::string::npos);
  }
}

TEST_CASE("what those tables are", "[.lightning_tables]") {
  for (const std::string& line : tables()) std::printf("%s\n", line.c_str());
}
