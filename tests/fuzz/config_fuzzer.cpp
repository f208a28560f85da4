// A configuration file and a command line: the YAML text, a line "%%", then one argument a line.
#include <algorithm>
#include <vector>

#include "cli/fake_classes.h"
#include "fuzz/fuzz.h"
#include "fuzz/same_value.h"
#include "levin/cli/config/command_line.h"
#include "levin/cli/config/config_merge.h"
#include "levin/cli/config/diagnostics.h"
#include "levin/cli/config/help_text.h"
#include "levin/cli/config/interpolation.h"
#include "levin/cli/config/override.h"
#include "levin/cli/config/run_config.h"
#include "levin/cli/config/source_text.h"
#include "levin/cli/config/subcommand.h"
#include "levin/cli/config/yaml_reader.h"
#include "levin/core/base/text.h"
#include "levin/core/config/to_yaml.h"

namespace {

using levin::ConfigError;
using levin::Value;
using levin::write_options;
using namespace levin::cli;

constexpr std::string_view kMark = "\n%%\n";

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    // The system ends an argument at a NUL.
    lines.emplace_back(text.substr(0, std::min(end, text.find('\0'))));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// What a user would see of an error can be shown on a terminal, and is not without end.
void check_shown(const ConfigError& error, std::size_t input_size) {
  std::size_t size = 0;
  for (const std::string& text : diagnostics(error)) {
    const std::string shown = levin::printable(text);
    FUZZ_CHECK(shown == levin::printable(shown), shown);
    size += shown.size();
  }
  FUZZ_CHECK(size < 100'000 + 10 * input_size, std::to_string(size));
}

Value read_file(const std::string& text) {
  try {
    const Value file = read_yaml(SourceText("fuzz.yaml", text));
    return file.is_map() ? merged(Value(Value::Map{}), file) : Value(Value::Map{});
  } catch (const ConfigError& error) {
    FUZZ_CHECK(error.mark().file == "fuzz.yaml", error.what());
    check_shown(error, text.size());
    return Value(Value::Map{});
  }
}

void check_reads_back(const Value& complete, bool with_comments) {
  // Most inputs mean nothing, and give the defaults; writing takes ten times as long as reading.
  static Value last_checked[2];
  Value& last = last_checked[with_comments ? 1 : 0];
  if (levin::fuzz::same(last, complete)) return;
  last = complete;
  const Value meant = escaped(complete);
  const std::string text = levin::to_yaml(meant, with_comments ? config_comments(meant) : nullptr);
  try {
    const Value read = read_yaml(SourceText("saved.yaml", text));
    FUZZ_CHECK(levin::fuzz::same(interpolated(read, read), complete), text);
  } catch (const ConfigError& error) {
    levin::fuzz::fail(error.what(), text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  levin::test::register_fake_classes();
  const std::string_view input = levin::fuzz::text_of(data, size);
  const std::size_t mark = input.find(kMark);
  Value config = read_file(std::string(input.substr(0, mark)));
  const std::string_view arguments = mark == std::string_view::npos ? "" : input.substr(mark + kMark.size());
  try {
    const std::vector<Subcommand> commands = {{"fit", "", declare_sources, {}}, {"list", "", declare_sources, {}}};
    const CommandLine line = parse_command_line(lines_of(arguments), commands);
    if (line.help_topic) topic_help(*line.help_topic);
    for (const ConfigSource& source : line.sources) {
      if (const auto* given = std::get_if<Override>(&source)) apply_override(config, *given);
    }
  } catch (const ConfigError& error) {
    check_shown(error, size);
  }
  try {
    check_reads_back(write_options(levin::read_options<RunConfig>(config)), size % 2 == 0);
  } catch (const ConfigError& error) {
    check_shown(error, size);
  }
  return 0;
}
