#include <catch2/catch.hpp>
#include <fstream>

#include "acceptance/digits_run.h"
#include "support/csv_table.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

/// `levin COMMAND` of a small digits model in the experiment `name`.
Outcome small(const std::string& command, const fs::path& folder, const std::string& name, std::vector<std::string> more) {
  more.insert(more.end(), {"--trainer.logger=CSVLogger", "--trainer.logger.name=" + name, "--model.init_args.channels=8",
                           "--trainer.limit_train_batches=8"});
  return digits(command, folder, more);
}

}  // namespace

TEST_CASE("best and last mean this experiment, on every number of ranks, and each load says what it loads") {
  const TemporaryFolder folder;
  const int ranks = GENERATE(1, 2, 4);
  const std::string devices = "--trainer.devices=" + std::to_string(ranks);
  REQUIRE(small("fit", folder.path(), "a", {"--trainer.max_epochs=1"}).ok());
  REQUIRE(small("fit", folder.path(), "b", {"--trainer.max_epochs=2"}).ok());
  const fs::path file = folder / "a/version_0/checkpoints/epoch=0-step=8.ckpt";
  const double loss = CsvTable::read(folder / "a/version_0/metrics.csv").values("val_loss").front();

  const Outcome test = small("validate", folder.path(), "a", {"--ckpt_path=best", devices});
  INFO(test.text());
  REQUIRE(test.ok());
  CHECK_THAT(test.out, Contains("validate uses the weights of " + file.string() + " (epoch 0, step 8, val_loss "));
  CHECK(CsvTable::read(folder / "a/version_1/metrics.csv").values("val_loss").front() == Approx(loss).epsilon(1e-5));

  const Outcome fit = small("fit", folder.path(), "a",
                            {"--trainer.max_epochs=2", "--ckpt_path=" + (folder / "b/version_0").string() + ":last"});
  INFO(fit.text());
  REQUIRE(fit.ok());
  CHECK_THAT(fit.out,
             Contains("fit goes on from " + (folder / "b/version_0/checkpoints/last.ckpt").string() + " (epoch 1, step 16"));

  const Outcome none = small("test", folder.path(), "c", {"--ckpt_path=best", devices});
  INFO(none.text());
  CHECK(none.status == 2);
  CHECK_THAT(none.err, Contains("ckpt_path: 'best'") && Contains((folder / "c/version_0/checkpoints").string()));
}

TEST_CASE("evaluation without a checkpoint warns once, and an empty one is an error") {
  const TemporaryFolder folder;
  const std::string command = GENERATE("validate", "test", "predict");
  const Outcome outcome = digits(command, folder.path());
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  const std::string warning = command + " without a checkpoint: the weights are those that the model begins with";
  const std::size_t first = outcome.err.find(warning);
  REQUIRE(first != std::string::npos);
  CHECK(outcome.err.find(warning, first + 1) == std::string::npos);
  CHECK_THAT(outcome.err, Contains("--ckpt_path=best"));

  const Outcome empty = digits(command, folder.path(), {"--ckpt_path="});
  CHECK(empty.status == 2);
  CHECK_THAT(empty.err, Contains("--ckpt_path: it is empty"));
}

TEST_CASE("a run that fails or is interrupted prints the command that goes on, and it does") {
  const TemporaryFolder folder;
  const int ranks = GENERATE(1, 2);
  // Interrupted when the first checkpoint is there, of a run that would go on for long.
  const char* const script = R"sh(
    "$0" fit --config "$1" --trainer.default_root_dir="$2" --trainer.max_epochs="$3" --trainer.devices="$4" \
      --model.init_args.channels=8 '--trainer.callbacks=[]' &
    until [ -n "$(ls "$2"/logs/version_0/checkpoints/*.ckpt 2>/dev/null)" ]; do kill -0 $! || exit 99; done
    kill -TERM $!
    wait $!)sh";
  Command command;
  command.arguments = {
      "sh", "-c", script, levin_program(), digits_config(), folder.path().string(), "100000", std::to_string(ranks)};
  const Outcome outcome = run(command);
  INFO(outcome.text());
  CHECK(outcome.status == 143);
  const std::string start = "The run goes on with: ";
  const std::size_t at = outcome.out.find(start);
  REQUIRE(at != std::string::npos);
  const std::size_t begin = at + start.size();
  const std::string resume = outcome.out.substr(begin, outcome.out.find('\n', begin) - begin);
  CHECK_THAT(resume, Contains(levin_program() + " fit --config ") && Contains(" --ckpt_path="));

  Command again;
  again.arguments = {"sh", "-c", resume + " --trainer.max_epochs=1"};
  const Outcome resumed = run(again);
  INFO(resumed.text());
  CHECK(resumed.ok());
  CHECK_THAT(resumed.out, Contains("fit goes on from "));
}

}  // namespace levin::test
