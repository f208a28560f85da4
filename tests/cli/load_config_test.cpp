#include <catch2/catch.hpp>
#include <fstream>

#include "cli/fake_classes.h"
#include "levin/cli/config/command_line.h"
#include "levin/cli/config/config_text.h"
#include "levin/cli/config/help_text.h"
#include "levin/cli/config/load_config.h"
#include "levin/cli/config/run_config.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::cli;
using namespace levin::test;

namespace {

RunConfig loaded(const std::filesystem::path& file) {
  CommandLine line;
  line.sources.push_back(ConfigFile{file});
  return load_config(line);
}

Value marked(Value value, int line) {
  value.set_mark(Mark{"run.yaml", line, 3});
  return value;
}

}  // namespace

TEST_CASE("a configuration that is saved or printed and read again is the same, whatever texts it has") {
  register_fake_classes();
  const TemporaryFolder folder;
  std::ofstream(folder / "table.csv") << "1\n";
  ::setenv("LEVIN_TEST_SECRET", "secret", 1);
  std::vector<std::string> texts = {"${env:LEVIN_TEST_SECRET}", "\\${env:LEVIN_TEST_SECRET}", std::string(200, 'k'),
                                    std::string(5000, 'k')};
  for (const char* word :
       {"\\\\${a}", "${",         "$${model}", "\\",     "",       " ",      " a ",    "a ",         "no",       "Yes",
        "NULL",     "null",       "~",         "1",      "1.5",    "1e5",    "0x1f",   ".inf",       "-",        "- a",
        "a: b",     "a #b",       "#",         "\n",     "a\nb\n", "\t",     "'",      "\"",         "!tag",     "!!str",
        "&a",       "*a",         "%x",        "@",      "`",      "|",      ">",      "{}",         "[]",       "2020-01-01",
        "1:30",     "1_000",      "<<",        "=",      "...",    "---",    "? ",     ",",          "é",        "日本",
        "C:\\x",    "\x01\x1b\r", "\x7f",      "\u0085", "\u2028", "\ufeff", "\uffff", "\U0001F600", "\xff\xfe", "\xc0\x80"}) {
    texts.emplace_back(word);
  }
  for (const std::string& text : texts) {
    CAPTURE(text);
    const Value stopper(Value::Map{{"class_path", "FakeStopper"}, {"init_args", Value(Value::Map{{"monitor", text}})}});
    const Value config(
        Value::Map{{"model", Value(Value::Map{{"class_path", "FakeNet"}})},
                   {"trainer", Value(Value::Map{{"callbacks", Value(Value::List{stopper, stopper})}})},
                   {"init_from", Value(Value::Map{{"path", (folder / "table.csv").string()},
                                                  {"prefix", text},
                                                  {"rename", Value(Value::Map{{text, text}, {text + "2", "b"}})}})}});
    const Value complete = write_options(read_options<RunConfig>(config));
    CHECK(complete.at("init_from").at("rename").at(text) == Value(text));
    std::ofstream(folder / "printed.yaml") << printed_config(complete);
    for (const std::filesystem::path& file : {save_config(complete, folder / "saved"), folder / "printed.yaml"}) {
      CHECK(write_options(loaded(file)) == complete);
      std::filesystem::remove(file);
    }
  }
}

TEST_CASE("an option that is linked to another one takes its value, given or default, where it is not given itself") {
  register_fake_classes();
  const TemporaryFolder folder;
  std::ofstream(folder / "table.csv") << "1\n";
  const auto inputs = [&](const std::string& text) {
    std::ofstream(folder / "run.yaml") << text;
    return loaded(folder / "run.yaml").model.init_args().at("inputs");
  };
  const std::string data = "data: {class_path: FakeTable, init_args: {file: table.csv, columns: 9}}\n";
  CHECK(inputs("model: FakeNet\n" + data) == Value(9));
  CHECK(inputs("model: FakeNet\ndata: {class_path: FakeTable, init_args: {file: table.csv}}\n") == Value(6));
  CHECK(inputs("model: {class_path: FakeNet, init_args: {inputs: 3}}\n" + data) == Value(3));
  CHECK(inputs("model: {class_path: FakeNet, init_args: {inputs: null}}\n" + data) == Value(9));
  CHECK(inputs("model: FakeNet\n") == Value(4));
  CHECK(topic_help("FakeNet").find("default 4, not given: that of data.columns") != std::string::npos);
}

TEST_CASE("an option that model and data share with other values is shown with both, unless both are defaults") {
  const Value model(
      Value::Map{{"num_classes", marked(10, 4)}, {"batch_size", Value(32)}, {"lr", marked(0.1, 5)}, {"scale", marked(1, 6)}});
  const Value data(Value::Map{
      {"num_classes", marked(3, 8)}, {"batch_size", marked(64, 9)}, {"path", marked("x", 10)}, {"scale", marked(1.0, 11)}});
  CHECK(different_shared_options(model, data) ==
        std::vector<std::string>{
            "model and data both have an option num_classes, with different values: int 10 (run.yaml:4:3) for the model, int 3 "
            "(run.yaml:8:3) for the data. For one value in both, write ${data.num_classes} for the model's.",
            "model and data both have an option batch_size, with different values: int 32 (the default) for the model, int 64 "
            "(run.yaml:9:3) for the data. For one value in both, write ${data.batch_size} for the model's."});
  const Value defaults(Value::Map{{"batch_size", Value(32)}}), others(Value::Map{{"batch_size", Value(64)}});
  CHECK(different_shared_options(defaults, others).empty());
  CHECK(different_shared_options({}, data).empty());
  CHECK(different_shared_options(model, {}).empty());
}
