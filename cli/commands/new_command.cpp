#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <system_error>

#include "levin/cli/commands/subcommands.h"
#include "levin/cli/config/class_catalog.h"
#include "levin/cli/config/config_schema.h"
#include "levin/cli/config/installation.h"
#include "levin/cli/embedded_file.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/value_json.h"
#include "levin/core/files/atomic_file.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

/// What stands below cli/templates, in a folder for each template; what stands in none belongs to all. In a text @NAME@ and
/// @CLASS@ are the user's, @LEVIN@ and @LEVIN_DIR@ where levin is.
constexpr EmbeddedFile kTemplateFiles[] = {
#include "project_templates.inc"
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// "my-robot" as "MyRobot".
std::string class_name(const std::string& name) {
  std::string text;
  bool begins = true;
  for (const char c : name) {
    if (is_word(c)) text += begins ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    begins = !is_word(c);
  }
  return text;
}

void check_name(const std::string& name) {
  const Mark mark{"command line: new"};
  const auto is_known = [](char c) { return is_word(c) || c == '_' || c == '-'; };
  const bool begins_well = !name.empty() && is_word(name[0]) && std::isdigit(static_cast<unsigned char>(name[0])) == 0;
  if (!begins_well || !std::all_of(name.begin(), name.end(), is_known))
    throw ConfigError(mark,
                      format("{} cannot be the name of a class: a name begins with a letter, and has letters, digits, - and _",
                             quoted_text(name)));
  // Targets that CMake has in every project, and levin itself.
  if (is_among({"all", "clean", "edit_cache", "help", "install", "levin", "package", "rebuild_cache", "test"}, name))
    throw ConfigError(mark, format("'{}' is reserved in every project: choose another name", name));
  if (class_kind("model").find(class_name(name)) != nullptr)
    throw ConfigError(mark, format("levin itself has a model '{}': choose another name", class_name(name)));
}

/// The levin program as one types it in another folder, `typed` being how it was typed in this one, and the folder in which
/// CMake finds levin.
std::map<std::string, std::string> places(const fs::path& typed) {
  const fs::path program = typed.has_parent_path() ? fs::absolute(typed).lexically_normal() : typed;
  return {{"@LEVIN@", program}, {"@LEVIN_DIR@", cmake_folder()}};
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::create_directories(folder, error); error)
    throw IoError(format("cannot make the folder '{}': {}", folder, error.message()));
}

void write_files(const fs::path& folder, const std::string& template_name, const std::map<std::string, std::string>& values) {
  for (const EmbeddedFile& file : kTemplateFiles) {
    if (!file.folder.empty() && file.folder != template_name) continue;
    // Files whose names begin with a dot stand in the template without it.
    const fs::path place = folder / (file.name == "gitignore"      ? ".gitignore"
                                     : file.name == "workflow.yml" ? ".github/workflows/test.yml"
                                                                   : file.name);
    make_folder(place.parent_path());
    write_file(place, filled(file.text, values));
  }
}

std::vector<std::string> template_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : kTemplateFiles) {
    if (!file.folder.empty() && (names.empty() || names.back() != file.folder)) names.emplace_back(file.folder);
  }
  return names;
}

/// What to type next. A project with a module.yaml trains before anything is built.
std::string next_steps(const fs::path& folder, const std::map<std::string, std::string>& values) {
  const std::string& levin = values.at("@LEVIN@");
  const std::string build = format("  cmake -B build -Dlevin_DIR={}\n  cmake --build build\n  {} fit --config config.yaml",
                                   values.at("@LEVIN_DIR@"), levin);
  std::string text = format("{} trains as it is:\n\n  cd {}\n", folder, folder);
  text += fs::exists(folder / "module.yaml")
              ? format("  {} fit\n\nWith your own module:\n\n{} --config module.yaml\n", levin, build)
              : build + "\n";
  return text + "\nREADME.md says what each file is for.\n";
}

/// Writes the project, whose plug-in and classes have the folder's name. Gives what to type next.
std::string new_project(const fs::path& folder, const std::string& template_name, const std::string& typed) {
  const std::vector<std::string> known = template_names();
  if (!is_among(known, template_name))
    throw ConfigError(Mark{"command line: --template"}, format("there is no template {}{}", quoted_text(template_name),
                                                               did_you_mean(template_name, known, "templates")));
  const std::string name = (folder.has_filename() ? folder : folder.parent_path()).filename();
  check_name(name);
  std::error_code error;
  if (fs::exists(folder, error))
    throw ConfigError(Mark{"command line: new"},
                      format("{} already exists: choose another name, or remove it", quoted_text(folder.string())));
  make_folder(folder);
  std::map<std::string, std::string> values = places(typed);
  values.insert({{"@NAME@", name}, {"@CLASS@", class_name(name)}});
  try {
    write_files(folder, template_name, values);
    // Editors read it, as the first line of config.yaml says.
    write_file(folder / "schema.json", plain_json(config_schema()));
  } catch (...) {
    fs::remove_all(folder, error);
    throw;
  }
  return next_steps(folder, values);
}

}  // namespace

Subcommand new_subcommand() {
  struct Options {
    std::string folder;
    std::string template_name;
  };
  const auto options = std::make_shared<Options>();
  return {"new", "Write a project that trains at once",
          [options](CLI::App& app) {
            app.add_option("name", options->folder, "The folder to make; its name becomes that of the plug-in and its classes")
                ->required();
            app.add_option("-t,--template", options->template_name, "The template")
                ->type_name(choice_name(template_names()))
                ->default_val("classifier");
          },
          [options](const CommandLine& line) {
            std::cout << new_project(options->folder, options->template_name, line.words.at(0));
            return 0;
          }};
}

}  // namespace levin::cli
