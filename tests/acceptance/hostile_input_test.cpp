// What a hostile or broken configuration, command line or data file may do to the program: end it with status 1 or 2 and a
// message, in seconds, and within a few times its own size of memory.
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>

#include "acceptance/digits_run.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

/// Runs `levin ARGUMENTS…` with 6 GB of address space, of which LibTorch alone takes up to 4, and 60 s: many times what
/// refusing an input takes.
Outcome confined(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), loaded_levin_program());
  return run({.arguments = std::move(arguments),
              .environment = {{"OMP_NUM_THREADS", "1"},
                              {"LEVIN_TEST_ADDRESS_SPACE", std::to_string(6'000'000'000)},
                              {"LEVIN_TEST_CPU_SECONDS", "60"}},
              .limit = std::chrono::seconds(60),
              .copied = true});
}

/// The same with more arguments than a copy can be told.
Outcome confined_and_loaded(std::vector<std::string> arguments) {
  const std::string script = "ulimit -v 6000000 -t 60; exec \"$0\" \"$@\"";
  arguments.insert(arguments.begin(), {"bash", "-c", script, levin_program()});
  return run({.arguments = std::move(arguments), .environment = {{"OMP_NUM_THREADS", "1"}}, .limit = std::chrono::seconds(60)});
}

/// What a person may see: no character that controls a terminal.
bool is_printable(const std::string& text) {
  return std::none_of(text.begin(), text.end(), [](unsigned char c) { return (c < 0x20 && c != '\n') || c == 0x7f; });
}

void check_refused(const Outcome& outcome, const std::string& what) {
  INFO(outcome.text().substr(0, 3000));
  CHECK(outcome.status == 2);
  CHECK_FALSE(outcome.timed_out);
  CHECK_THAT(outcome.err, Contains(what));
  CHECK(is_printable(outcome.err));
  CHECK(outcome.err.size() < 30'000);
}

/// The text of a configuration that would run, in `folder`, with `more` under `trainer:` and the data in `data`.
std::string good_config(const TemporaryFolder& folder, const std::string& more, const std::string& data) {
  return "plugins: [libdigits.so]\nmodel: Digits\ndata: {class_path: TableDataModule, init_args: {shape: [1, 8, 8], path: \"" +
         data + "\"}}\ntrainer:\n  max_epochs: 1\n  default_root_dir: \"" + folder.path().string() + "\"\n" + more;
}

const std::string kDigits = LEVIN_SOURCE_DIR "/examples/digits/data/digits.csv";

Outcome fit_confined(const TemporaryFolder& folder, const std::string& yaml) {
  std::ofstream(folder / "run.yaml", std::ios::binary) << yaml;
  return confined({"fit", "--config", (folder / "run.yaml").string()});
}

TEST_CASE("!!binary of another alphabet is refused at its place") {
  const TemporaryFolder folder;
  check_refused(confined({"fit", "--model=!!binary ä"}), "--model");
  check_refused(fit_confined(folder, "model: !!binary ä\n"), "run.yaml:1:8: this is no base64");
  check_refused(fit_confined(folder, "trainer: {!!binary ä: 1}\n"), "run.yaml:1:11: this is no base64");
}

TEST_CASE("a NUL in a path or a name is refused at its place") {
  const TemporaryFolder folder;
  for (const std::string option :
       {"default_root_dir: \"a\\0b\"", "logger: {class_path: CSVLogger, init_args: {version: \"a\\0b\"}}",
        "logger: {class_path: CSVLogger, init_args: {name: \"a\\0b\"}}",
        "logger: {class_path: CSVLogger, init_args: {save_dir: \"a\\0b\"}}", "log_file: \"a\\0b\"",
        "callbacks: [{class_path: ModelCheckpoint, init_args: {filename: \"a\\0b\"}}]",
        "callbacks: [{class_path: ModelCheckpoint, init_args: {dirpath: \"a\\0b\"}}]"}) {
    CAPTURE(option);
    check_refused(fit_confined(folder, "plugins: [libdigits.so]\nmodel: Digits\ndata: {class_path: TableDataModule, " +
                                           ("init_args: {path: " + kDigits) + "}}\ntrainer: {" + option + "}\n"),
                  "run.yaml:4:");
  }
  check_refused(fit_confined(folder, "plugins: [\"libdigits.so\\0x\"]\nmodel: Digits\n"), "run.yaml:1:11");
  check_refused(confined({"fit", "--config", digits_config(), "--trainer.logger.version=\"a\\0b\""}),
                "command line: --trainer.logger.version");
}

TEST_CASE("dashes alone are a usage error") {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--"}, {"fit", "--", "--"}, {"fit", "---"}, {"--", "fit"}, {"list", "--"}, {"fit", "-", "-"}}) {
    CAPTURE(arguments);
    const Outcome outcome = confined(arguments);
    INFO(outcome.text());
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err, !Contains("basic_string") && Contains("command"));
  }
}

TEST_CASE("an override cannot lead deeper than a file") {
  std::string deep = "--trainer";
  for (int level = 0; level < 40'000; ++level) deep += ".a";
  check_refused(confined({"fit", deep + "=1"}), "too deep");
  check_refused(confined({"fit", "--trainer.a" + std::string(80'000, 'b') + "=[1, 2, 3]"}), "1000 characters");
  check_refused(confined({"fit", "--trainer.a=" + std::string(99, '[') + std::string(99, ']')}), "too deep");
}

TEST_CASE("large configurations take time and memory in proportion") {
  const TemporaryFolder folder;
  const auto many = [](int count, const auto& piece) {
    std::string text;
    for (int i = 0; i < count; ++i) text += piece(i);
    return text;
  };
  const auto number = [](int i) { return std::to_string(i); };
  SECTION("keys at the top") {
    const auto outcome = fit_confined(folder, many(150'000, [&](int i) { return "key" + number(i) + ": 1\n"; }));
    check_refused(outcome, "run.yaml:1:1: unknown key 'key0'");
    CHECK_THAT(outcome.err, Contains("at least 80 more errors"));
  }
  SECTION("one long line") {
    check_refused(
        fit_confined(folder, "{" + many(150'000, [&](int i) { return "key_of_a_long_name" + number(i) + ": 1, "; }) + "}"),
        "run.yaml:1:2: unknown key");
  }
  SECTION("one long line of characters beyond ASCII") {
    check_refused(fit_confined(folder, "trainer: {callbacks: [" + many(150'000, [](int) { return "ä, "; }) + "]}"),
                  "run.yaml:1:23: trainer: callbacks: unknown callback class");
  }
  SECTION("long keys that resemble an option's") {
    const std::string near = "accumulate_grad_batches_of_many_steps_in_an_epoch_that_is_long_and_goes_on_without_an_end";
    check_refused(fit_confined(folder, "trainer:\n" + many(100'000, [&](int i) { return "  " + near + number(i) + ": 1\n"; })),
                  "run.yaml:2:3: trainer: unknown key");
  }
  SECTION("too many nodes") {
    check_refused(fit_confined(folder, "model: [" + many(300'000, [](int) { return "1,"; }) + "]\n"), "more than 200000 nodes");
  }
  SECTION("one long text") {
    check_refused(fit_confined(folder, "model: " + std::string(3'000'000, 'x') + "\n"), "unknown model class 'xxxx");
  }
  SECTION("one long key") {
    check_refused(fit_confined(folder, "? " + std::string(3'000'000, 'x') + "\n: 1\n"), "unknown key 'xxxx");
  }
}

TEST_CASE("many overrides take time in proportion") {
  std::vector<std::string> arguments = {"fit"};
  for (int i = 0; i < 30'000; ++i) arguments.push_back("--trainer.callbacks+=X");
  check_refused(confined_and_loaded(arguments), "unknown callback class 'X'");
}

TEST_CASE("a checkpoint's name takes no gigabytes") {
  const TemporaryFolder folder;
  for (const std::string name : {"{epoch:2000000000}", "{val_loss:.2000000000f}", "{epoch:c}"}) {
    CAPTURE(name);
    const Outcome outcome = fit_confined(
        folder, good_config(folder, "  callbacks: [{class_path: ModelCheckpoint, init_args: {filename: \"" + name + "\"}}]\n",
                            kDigits));
    INFO(outcome.text());
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err, Contains(name));
  }
}

TEST_CASE("a pipe or a device as data is refused at once") {
  const TemporaryFolder folder;
  REQUIRE(mkfifo((folder / "pipe.csv").c_str(), 0600) == 0);
  fs::create_symlink("/dev/zero", folder / "zero.csv");
  fs::create_directory(folder / "folder.npy");
  for (const auto& [name, what] : std::vector<std::pair<std::string, std::string>>{
           {"pipe.csv", "it is a pipe"}, {"zero.csv", "it is a device"}, {"folder.npy", "it is a folder"}}) {
    const Outcome outcome = fit_confined(folder, good_config(folder, "", (folder / name).string()));
    INFO(outcome.text());
    CHECK(outcome.status == 1);
    CHECK_THAT(outcome.err, Contains(name) && Contains(what));
  }
}

TEST_CASE("a compressed file that expands too much is refused") {
  const TemporaryFolder folder;
  const std::string file = (folder / "zeros.csv.gz").string();
  const gzFile stream = gzopen(file.c_str(), "wb9");
  REQUIRE(stream != nullptr);
  std::string row;
  for (int column = 0; column < 64; ++column) row += "0,";
  const std::string piece = row + "0\n";
  std::string block;
  while (block.size() < (1u << 20)) block += piece;
  for (int written = 0; written < 96; ++written)
    REQUIRE(gzwrite(stream, block.data(), static_cast<unsigned>(block.size())) > 0);
  gzclose(stream);
  REQUIRE(fs::file_size(file) < 400'000);

  const Outcome refused = fit_confined(folder, good_config(folder, "", file));
  INFO(refused.text());
  CHECK(refused.status == 1);
  CHECK_THAT(refused.err, Contains("zeros.csv.gz") && Contains("expand") && Contains("max_expansion"));
}

TEST_CASE("escape sequences of a configuration do not reach the terminal") {
  const TemporaryFolder folder;
  check_refused(fit_confined(folder, "\"\\e]0;title\\a\\e[31m\": 1\n"), "unknown key '\\x1b]0;title\\x07\\x1b[31m'");
  check_refused(fit_confined(folder, "model: \"\\e[31m\\x9b\"\n"), "'\\x1b[31m\\xc2\\x9b'");
  check_refused(confined({"fit", "--trainer.\x1b[31m=1"}), "--trainer.\\x1b[31m");
  check_refused(confined({"fit", "--\x1b[31m"}), "\\x1b[31m");
  check_refused(confined({"--help=\x1b[31m"}), "\\x1b[31m");
  check_refused(confined({"list", "\x1b[31m"}), "\\x1b[31m");
  check_refused(confined({"fit", "--config", "\x1b[31m.yaml"}), "\\x1b[31m.yaml");
  const Outcome run = confined({"fit", "--config", digits_config(), "--trainer.fast_dev_run=true",
                                "--trainer.default_root_dir=" + folder.path().string(),
                                "--trainer.callbacks+={class_path: EarlyStopping, init_args: {monitor: \"\\e[31m\"}}"});
  INFO(run.text());
  CHECK(is_printable(run.out));
}

TEST_CASE("a folder named like the highest version there can be does not stop a run") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "logs" / "version_9223372036854775807");
  fs::create_directories(folder / "logs" / "version_3");
  const Outcome outcome =
      fit_confined(folder, good_config(folder, "  limit_train_batches: 1\n  limit_val_batches: 1\n", kDigits));
  INFO(outcome.text());
  CHECK(outcome.ok());
  CHECK(fs::exists(folder / "logs" / "version_4" / "metrics.csv"));
}

TEST_CASE("a shape without a product in 64 bits is refused") {
  const TemporaryFolder folder;
  const Outcome outcome = confined({"fit", "--config", digits_config(), "--trainer.default_root_dir=" + folder.path().string(),
                                    "--data.shape=[4294967296, 4294967296, 64]"});
  INFO(outcome.text());
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.err, Contains("shape: holds more than 2^63 features"));
}

}  // namespace
}  // namespace levin::test
