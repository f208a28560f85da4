#include <algorithm>
#include <catch2/catch.hpp>
#include <regex>
#include <set>

#include "acceptance/digits_run.h"
#include "levin/core/base/process.h"
#include "support/temporary_folder.h"
#include "support/terminal.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Lines of standard error, but for what a machine of fewer cores than ranks is told.
Lines told_lines(const std::string& text) {
  Lines lines = lines_of(text);
  std::erase_if(lines, [](const std::string& line) { return line.starts_with("warning: trainer.devices: "); });
  return lines;
}

std::ptrdiff_t count(const Lines& lines, const std::string& pattern) {
  const std::regex regex(pattern);
  return std::count_if(lines.begin(), lines.end(), [&](const std::string& line) { return std::regex_search(line, regex); });
}

/// "[rank 1] " when there are several ranks.
std::string prefix(int rank, int ranks) { return ranks == 1 ? "" : "[rank " + std::to_string(rank) + "] "; }

/// As a pattern of the regular expressions above.
std::string prefix_pattern(int rank, int ranks) { return ranks == 1 ? "^" : "^\\[rank " + std::to_string(rank) + "\\] "; }

/// Two short epochs of the digits example, with the same global batches on any number of ranks.
Outcome short_fit(const fs::path& folder, int ranks, Lines more = {}) {
  const Lines small = {"--trainer.devices=" + std::to_string(ranks),
                       "--trainer.accelerator=cpu",
                       "--trainer.max_epochs=2",
                       "--trainer.limit_train_batches=3",
                       "--trainer.limit_val_batches=2",
                       "--trainer.log_every_n_steps=1",
                       "--model.init_args.channels=4",
                       "--data.init_args.batch_size=" + std::to_string(32 / ranks)};
  more.insert(more.begin(), small.begin(), small.end());
  return digits("fit", folder, more);
}

Outcome user_program(int ranks, const std::string& data, const TemporaryFolder& folder, const std::string& level = "info") {
  return run(
      {.arguments = {LEVIN_BINARY_DIR "/bin/printing_program", std::to_string(ranks), data, folder.path().string(), level},
       .environment = {{"OMP_NUM_THREADS", "1"}}});
}

/// The lines of the run as a whole, without what depends on the clock, on the number of ranks and on their own batches.
Lines of_the_run(const Lines& lines) {
  Lines kept;
  for (const std::string& line : lines) {
    if (line.find("device cpu") != std::string::npos) continue;
    std::string text = std::regex_replace(line, std::regex("ranks: \\d+ \\(.*\\)$"), "ranks");
    text = std::regex_replace(text, std::regex("\\[\\d\\d:\\d\\d, .*samples/s"), "[speed");
    text = std::regex_replace(text, std::regex("(train_loss|val_loss|val_acc)=[-+.e0-9]+"), "$1");
    text = std::regex_replace(text, std::regex("^configuration: .*"), "configuration");
    text = std::regex_replace(text, std::regex("^files: .*"), "files");
    kept.push_back(text);
  }
  return kept;
}

TEST_CASE("1, 2 and 4 ranks say once what holds for the run, and each rank what holds for it") {
  const TemporaryFolder folder;
  Lines of_one;
  for (const int ranks : {1, 2, 4}) {
    const fs::path root = folder / std::to_string(ranks);
    const Outcome fit = short_fit(root, ranks);
    INFO(fit.text());
    REQUIRE(fit.ok());
    // A machine of fewer cores than ranks is told of, once.
    const bool is_crowded = ranks > usable_cores();
    CHECK(count(lines_of(fit.err), "^warning: trainer.devices: ") == (is_crowded ? 1 : 0));
    CHECK(lines_of(fit.err).size() == (is_crowded ? 1 : 0));
    const Lines lines = lines_of(fit.out);
    CHECK(count(lines, "^levin \\d+\\.\\d+\\.\\d+, LibTorch \\d.*, .* \\d+\\.\\d+, \\w.*, ranks: " + std::to_string(ranks) +
                           (ranks == 1 ? " \\(single_device\\)$"
                                       : " \\(ddp, metrics over shared memory, gradients over shared memory\\)$")) == 1);
    CHECK(count(lines, "levin \\d") == 1);
    CHECK(count(lines, "^configuration: .*config\\.yaml, .*--trainer\\.devices=" + std::to_string(ranks)) == 1);
    CHECK(count(lines, "^files: " + version_folder(root).string() + "$") == 1);
    CHECK(count(lines, "Total params") == 1);
    CHECK(count(lines, "Training stopped: max_epochs=2 reached\\.") == 1);
    for (const char* epoch : {"0", "1"}) {
      CHECK(count(lines,
                  std::string("^Epoch ") + epoch + ": 3/3 \\[\\d\\d:\\d\\d, [.\\d]+it/s, [.\\dk]+ samples/s, v_num=0, ") == 1);
      CHECK(count(lines, std::string("Epoch ") + epoch) == 1);
    }
    CHECK(count(lines, "device cpu") == ranks);
    std::set<std::string> unique;
    for (const std::string& line : lines) CHECK((line.empty() || unique.insert(line).second));
    if (ranks == 1) of_one = of_the_run(lines);
    CHECK(of_the_run(lines) == of_one);
  }
}

TEST_CASE("each rank tells its device, its process and its share of the data") {
  const TemporaryFolder folder;
  for (const int ranks : {1, 2, 4}) {
    const Outcome fit = short_fit(folder / std::to_string(ranks), ranks);
    INFO(fit.text());
    REQUIRE(fit.ok());
    std::set<std::string> processes;
    int train = 0, validation = 0, all_train = 0, all_validation = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string size = std::to_string(32 / ranks);
      const std::string of = ranks == 1 ? "()" : "(\\d+) of ";
      const std::regex pattern(prefix_pattern(rank, ranks) + "device cpu \\(1 thread\\), process (\\d+) on \\S+; train: " + of +
                               "(\\d+) samples( \\(\\d repeated to even out the ranks\\))?, 3 of \\d+ batches of " + size +
                               "; validation: " + of + "(\\d+) samples, 2 of \\d+ batches of " + size + "$");
      int found = 0;
      for (const std::string& line : lines_of(fit.out)) {
        std::smatch match;
        if (!std::regex_match(line, match, pattern)) continue;
        ++found;
        processes.insert(match[1]);
        all_train = std::stoi(match[3]);
        all_validation = std::stoi(match[6]);
        train += ranks == 1 ? all_train : std::stoi(match[2]);
        validation += ranks == 1 ? all_validation : std::stoi(match[5]);
      }
      CHECK(found == 1);
    }
    CHECK(static_cast<int>(processes.size()) == ranks);
    // Training data is padded to a multiple of the ranks, validation data is not.
    CHECK(train == (all_train + ranks - 1) / ranks * ranks);
    CHECK(validation == all_validation);
    CHECK(all_train + all_validation > 1400);
  }
}

TEST_CASE("a user's own program has the same lines, and its own") {
  const TemporaryFolder folder;
  for (const int ranks : {1, 2, 4}) {
    const Outcome fit = user_program(ranks, "dataset", folder);
    INFO(fit.text());
    REQUIRE(fit.ok());
    const Lines out = lines_of(fit.out);
    CHECK(count(out, "^levin \\d.*, ranks: " + std::to_string(ranks)) == 1);
    const int batches = ranks == 1 ? 5 : ranks == 2 ? 3 : 2;
    CHECK(count(out, "^epoch \\d batch \\d everywhere$") == 2 * batches);
    CHECK(count(out, "^a table$") == 1);
    CHECK(fit.out.find("a table\n\n  of the whole run\n") != std::string::npos);
    for (int rank = 0; rank < ranks; ++rank) {
      CHECK(std::count(out.begin(), out.end(), prefix(rank, ranks) + "own weights: [1, 2]") == 1);
      // What the bar's samples a second count: with the padding, which the ranks do work on.
      CHECK(count(out, prefix_pattern(rank, ranks) + "samples of all ranks: " +
                           (ranks == 1   ? "9"
                            : ranks == 2 ? "10"
                                         : "12") +
                           "$") == 2);
      for (int batch = 0; batch < batches; ++batch) {
        CHECK(std::count(out.begin(), out.end(), prefix(rank, ranks) + "epoch 1 batch " + std::to_string(batch) + " here") ==
              1);
      }
    }
    CHECK(count(out, "details") == 0);
    const Lines err = told_lines(fit.err);
    CHECK(std::count(err.begin(), err.end(), "warning: watch epoch 0") == 1);
    CHECK(std::count(err.begin(), err.end(), "warning: watch epoch 1") == 1);
    CHECK(count(err, "^(\\[rank \\d\\] )?warning: the rate is 0\\.5$") == 1);
    CHECK(count(err, "^(\\[rank \\d\\] )?warning: from LibTorch \\(LibTorch, printing\\.cpp:\\d+\\)$") == 1);
    CHECK(static_cast<int>(err.size()) == 4);
  }
}

TEST_CASE("the share of the data tells padding, loaders that divide by themselves, and unknown lengths") {
  const TemporaryFolder folder;
  const auto share = [&](const std::string& data) { return user_program(2, data, folder).out; };
  CHECK_THAT(share("dataset"), Contains("; train: 5 of 9 samples (1 repeated to even out the ranks), 3 batches of 2\n"));
  const std::string own = share("own_loader");
  CHECK_THAT(own, Contains("; train: 2 batches, as the loader divides them\n") &&
                      Contains("; train: 3 batches, as the loader divides them\n"));
  CHECK_THAT(share("unknown_length"), Contains("; train: an unknown number of batches, as the loader divides them\n"));
}

TEST_CASE("an evaluation's line tells of all ranks, also of those with more batches than rank 0") {
  const TemporaryFolder folder;
  const auto [data, ranks, batches, samples] =
      GENERATE(table<std::string, int, int, int>({{"dataset", 1, 5, 9},
                                                  {"dataset", 2, 3, 9},
                                                  {"dataset", 4, 2, 9},
                                                  {"own_loader", 1, 2, 8},
                                                  {"own_loader", 4, 5, 4 * (2 + 3 + 4 + 5)},
                                                  {"unknown_length", 2, 3, 4 * (2 + 3)}}));
  const Outcome test = user_program(ranks, "test_" + data, folder);
  INFO(test.text());
  REQUIRE(test.ok());
  const Lines lines = lines_of(test.out);
  const std::string done = std::to_string(batches);
  CHECK(count(lines, "^Testing: " + done + "/" + done + " \\[\\d\\d:\\d\\d, [.\\dk]+it/s, [.\\dk]+ samples/s\\]$") == 1);
  CHECK(count(lines, "Testing") == 1);
  CHECK(count(lines, "tested " + done + " batches, " + std::to_string(samples) + " samples$") == ranks);
}

TEST_CASE("log_level hides what is below it, and debug shows more") {
  const TemporaryFolder folder;
  const Outcome quiet = user_program(2, "dataset", folder, "warning");
  INFO(quiet.text());
  REQUIRE(quiet.ok());
  CHECK(quiet.out == "");
  CHECK(count(lines_of(quiet.err), "^warning: watch epoch 1$") == 1);
  CHECK(user_program(2, "dataset", folder, "error").err == "");
  const Outcome all = user_program(2, "dataset", folder, "debug");
  CHECK(count(lines_of(all.out), "^\\[rank 0\\] debug: details$") == 6);
  CHECK(count(lines_of(all.out), "^\\[rank 1\\] debug: details$") == 6);
}

TEST_CASE("log_file: a file for each rank, with all of its lines, their time and level") {
  const TemporaryFolder folder;
  for (const int ranks : {1, 2}) {
    const fs::path logs = folder / ("new/folder" + std::to_string(ranks));
    const Outcome fit = short_fit(folder.path(), ranks, {"--trainer.log_file=" + (logs / "run.log").string()});
    INFO(fit.text());
    REQUIRE(fit.ok());
    std::multiset<std::string> shown, logged;
    for (const std::string& line : lines_of(fit.out + fit.err)) shown.insert(line);
    for (int rank = 0; rank < ranks; ++rank) {
      const fs::path file = logs / (ranks == 1 ? "run.log" : "run.rank_" + std::to_string(rank) + ".log");
      for (const std::string& line : lines_of(read_text(file))) {
        std::smatch match;
        REQUIRE(std::regex_match(
            line, match,
            std::regex("\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d\\.\\d{3} (\\[rank \\d\\] )?(info|warning): (.*)")));
        logged.insert(match[1].str() + (match[2] == "info" ? "" : "warning: ") + match[3].str());
      }
    }
    CHECK(logged == shown);
    CHECK(static_cast<int>(std::distance(fs::directory_iterator(logs), {})) == ranks);
  }
}

TEST_CASE("in a terminal rank 0 alone draws the bar, and no line of another rank is torn") {
  const TemporaryFolder folder;
  const int ranks = GENERATE(1, 2, 4);
  const TerminalOutcome fit = run_in_terminal({.arguments = {LEVIN_BINARY_DIR "/bin/printing_program", std::to_string(ranks),
                                                             "dataset", folder.path().string(), "info"},
                                               .environment = {{"OMP_NUM_THREADS", "1"}, {"NO_COLOR", "1"}, {"LC_ALL", "C"}}},
                                              200);
  INFO(fit.text());
  REQUIRE(fit.status == 0);
  CHECK(fit.bytes.find("\rEpoch 0:") != std::string::npos);
  CHECK(fit.bytes.find("bar_of_rank=0") != std::string::npos);
  CHECK_FALSE(std::regex_search(fit.bytes, std::regex("bar_of_rank=[^0]")));
  const int batches = ranks == 1 ? 5 : ranks == 2 ? 3 : 2;
  const std::string bar =
      "Epoch 1: 100%\\|#+\\| " + std::to_string(batches) + "/" + std::to_string(batches) + " \\[.*samples/s.*\\]";
  // The bar of the last epoch is what stays; every other line is one that a rank printed, whole.
  CHECK(count(fit.lines, "^" + bar + "$") == 1);
  CHECK(count(fit.lines, "Epoch ") == 1);
  const std::regex whole(
      "levin \\d.*ranks: \\d \\(.*\\)|(\\[rank \\d\\] )?device cpu .*batches of 2|a table||  of the whole run|" + bar +
      "|(\\[rank \\d\\] )?own weights: \\[1, 2\\]|(\\[rank \\d\\] )?epoch \\d batch \\d here|epoch \\d batch \\d everywhere|"
      "(\\[rank \\d\\] )?samples of all ranks: \\d+|warning: watch epoch \\d|warning: trainer.devices: .*|(\\[rank \\d\\] "
      ")?warning: (the rate is "
      "0\\.5|from "
      "LibTorch .*)|Training stopped: "
      "max_epochs=2 reached\\.");
  for (const std::string& line : fit.lines) {
    INFO(line);
    CHECK(std::regex_match(line, whole));
  }
  for (int rank = 0; rank < ranks; ++rank) {
    CHECK(count(fit.lines, prefix_pattern(rank, ranks) + "epoch \\d batch \\d here$") == 2 * batches);
  }
}

}  // namespace
}  // namespace levin::test
