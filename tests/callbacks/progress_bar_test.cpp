#include "levin/callbacks/progress_bar.h"

#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "callbacks/scripted_run.h"
#include "core/console/pseudo_terminal.h"
#include "levin/core/base/error.h"
#include "levin/core/console/console.h"
#include "support/patience.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

/// A clock that moves a tenth of a second at each look.
struct FakeClock {
  double now = 0;
  double operator()() { return now += 0.1; }
};

TrainerOptions with_bar(std::int64_t epochs, const std::shared_ptr<ProgressBar>& bar, const std::filesystem::path& folder) {
  TrainerOptions options = quiet_options(epochs);
  options.enable_progress_bar = true;
  options.enable_checkpointing = false;
  options.default_root_dir = folder;
  options.callbacks = {bar};
  return options;
}

/// Calls something before the bar's own on_train_end.
class AtTrainEnd final : public Callback {
 public:
  explicit AtTrainEnd(std::function<void()> call) : call_(std::move(call)) {}
  void on_train_end(Trainer&, Module&) override { call_(); }

 private:
  std::function<void()> call_;
};

/// A console that is a file, and a folder for runs.
struct FileConsole {
  ~FileConsole() { ::close(fd); }
  std::vector<std::string> lines() const {
    std::ifstream stream(folder / "out.txt");
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }
  TemporaryFolder folder;
  int fd = ::open((folder / "out.txt").c_str(), O_CREAT | O_WRONLY, 0600);
  Console console{fd, fd};
};

}  // namespace

TEST_CASE("in a file progress is one line an epoch and an evaluation") {
  FileConsole file;
  double now = 0;
  const auto bar = std::make_shared<ProgressBar>(ProgressBarOptions{}, file.console, [&now] { return now; });
  Trainer trainer(with_bar(2, bar, file.folder.path()));
  class Slow final : public ScriptedModule {
   public:
    Slow(double& now) : ScriptedModule({0.5, 0.25}), now_(now) {}
    void on_train_batch_start(const Batch&, std::int64_t) override { now_ += 0.5; }
    void on_test_batch_start(const Batch&, std::int64_t, std::int64_t) override { now_ += 2; }
    void on_validation_batch_start(const Batch&, std::int64_t, std::int64_t) override { now_ += 10; }

   private:
    double& now_;
  } module(now);
  trainer.fit(module, FixedLoader::of_rows(4, 1), {FixedLoader::of_rows(1, 1)}, {});
  trainer.test(module, {FixedLoader::of_rows(3, 1), FixedLoader::of_rows(2, 1)}, {.verbose = false});
  // Time spent in validation counts as time, not as slowness.
  const std::vector<std::string> lines = file.lines();
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "Epoch 0: 4/4 [00:12, 2.00it/s, 2.0 samples/s, train_step=3.000, val_loss=0.500]");
  CHECK(lines[1] == "Epoch 1: 4/4 [00:12, 2.00it/s, 2.0 samples/s, train_step=7.000, val_loss=0.250]");
  CHECK(lines[2].rfind("Testing: 5/5 [00:10, 0.50it/s, 0.5 samples/s", 0) == 0);
}

TEST_CASE("the bar has the learning rate where an option says so, and one for each group where they differ") {
  FileConsole file;
  const auto bar = std::make_shared<ProgressBar>(ProgressBarOptions{.show_lr = true}, file.console, [] { return 0.0; });
  struct TwoGroups final : ScriptedModule {
    explicit TwoGroups(double second_lr) : second_lr_(second_lr) {}
    OptimizerSetups configure_optimizers() override {
      const auto all = parameters();
      auto sgd = std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>{all[0]}, 0.01);
      sgd->add_param_group({{all[1]}, std::make_unique<torch::optim::SGDOptions>(second_lr_)});
      return sgd;
    }
    double second_lr_;
  } equal(0.01), different(0.0005);
  const auto loader = FixedLoader::of_rows(2, 1);
  const LoaderList validation{FixedLoader::of_rows(1, 1)};
  Trainer(with_bar(1, bar, file.folder.path())).fit(equal, loader, validation);
  Trainer(with_bar(1, bar, file.folder.path())).fit(different, loader, validation);
  Trainer(with_bar(1, bar, file.folder.path())).test(equal, validation, {.verbose = false});
  CHECK(file.lines() == std::vector<std::string>{"Epoch 0: 2/2 [00:00, lr=0.010, train_step=1.000]",
                                                 "Epoch 0: 2/2 [00:00, lr-SGD/pg1=0.010, lr-SGD/pg2=0.0005, train_step=1.000]",
                                                 "Testing: 1/1 [00:00, test_loss=0.250]"});
}

TEST_CASE("on a terminal there are bars, for known and unknown lengths") {
  const EnvironmentVariable term("TERM", "xterm");
  const PseudoTerminal terminal(100);
  const TemporaryFolder folder;
  Console console(terminal.fd(), terminal.fd());
  const auto bar = std::make_shared<ProgressBar>(ProgressBarOptions{}, console, FakeClock());
  ScriptedModule module({0.5});
  Trainer(with_bar(1, bar, folder.path())).fit(module, FixedLoader::of_rows(4, 1), {FixedLoader::of_rows(2, 1)});
  const std::string shown = terminal.read();
  for (const char* part : {"Sanity Checking:", "Epoch 0:", "2/4", "Validation:", "4/4", "val_loss=0.500"}) {
    INFO(part);
    CHECK(shown.find(part) != std::string::npos);
  }
  Trainer(with_bar(1, bar, folder.path())).fit(module, FixedLoader::of_rows(3, 1, /*knows_size=*/false));
  const std::string of_unknown = terminal.read();
  CHECK(of_unknown.find("3/?") != std::string::npos);
  CHECK(of_unknown.find("3/3") == std::string::npos);
}

TEST_CASE("what progress says is how it is shown") {
  const EnvironmentVariable term("TERM", "xterm");
  // The region that scrolls is the mark of a live view.
  const std::string region = "\033[1;12r";
  const auto shown = [&](ProgressView view) {
    const PseudoTerminal terminal(120);
    std::string text;
    const auto is_there = [&](const std::string& part) {
      text += terminal.read();
      return text.find(part) != std::string::npos;
    };
    Console console(terminal.fd(), terminal.fd());
    const TemporaryFolder folder;
    TrainerOptions options = with_bar(2, std::make_shared<ProgressBar>(ProgressBarOptions{}, console), folder.path());
    options.progress = view;
    // The view draws ten times a second, and the run takes less.
    const auto wait_for_curve = [&] {
      const auto end = std::chrono::steady_clock::now() + patience(std::chrono::seconds(10));
      while (!is_there("val_loss 0.") && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    };
    if (view == ProgressView::kLive)
      options.callbacks.insert(options.callbacks.begin(), Component<Callback>(std::make_shared<AtTrainEnd>(wait_for_curve)));
    ScriptedModule module({0.5, 0.25});
    Trainer(options).fit(module, FixedLoader::of_rows(4, 1), {FixedLoader::of_rows(2, 1)});
    return text + terminal.read();
  };
  // In the end it has the bar of the last epoch.
  const std::string live = shown(ProgressView::kLive);
  INFO(live);
  CHECK(live.find(region) != std::string::npos);
  CHECK(live.find("val_loss 0.") != std::string::npos);
  CHECK(live.rfind("\033[r\0338\033[J") < live.rfind("\rEpoch 1: 100%|"));
  // auto: nobody is at the keys of a test.
  for (const ProgressView view : {ProgressView::kBar, ProgressView::kAuto}) {
    const std::string bar = shown(view);
    CHECK(bar.find("\rEpoch 1: 100%|") != std::string::npos);
    CHECK(bar.find("\033[r") == std::string::npos);
  }
  const std::string lines = shown(ProgressView::kLines);
  CHECK(lines.find('\033') == std::string::npos);
  CHECK(lines.find("Epoch 1: 4/4 [") != std::string::npos);
}

TEST_CASE("refresh_rate 0 shows nothing") {
  FileConsole file;
  const auto bar = std::make_shared<ProgressBar>(ProgressBarOptions{.refresh_rate = 0}, file.console);
  Trainer trainer(with_bar(1, bar, file.folder.path()));
  ScriptedModule module({0.5});
  trainer.fit(module, FixedLoader::of_rows(4, 1), {FixedLoader::of_rows(1, 1)});
  CHECK(file.lines().empty());
}

TEST_CASE("a second progress bar is an error before the run, and one of a module's replaces the Trainer's") {
  const TemporaryFolder folder;
  TrainerOptions options = with_bar(1, std::make_shared<ProgressBar>(), folder.path());
  std::size_t own_bars = 0;
  const auto fit = [&] {
    struct OwnBar final : ScriptedModule {
      std::vector<std::shared_ptr<Callback>> configure_callbacks() override { return bars; }
      std::vector<std::shared_ptr<Callback>> bars;
    } module;
    module.bars.assign(own_bars, std::make_shared<ProgressBar>());
    Trainer trainer(options);
    trainer.fit(module, FixedLoader::of_rows(1, 1));
    return trainer.callbacks_of<ProgressBar>().size();
  };
  CHECK(fit() == 1);
  own_bars = 1;
  CHECK(fit() == 1);
  own_bars = 2;
  CHECK_THROWS_WITH(fit(), Catch::Contains("there are 2 ProgressBars"));
  own_bars = 0;
  options.callbacks.emplace_back("ProgressBar");
  CHECK_THROWS_AS(fit(), ConfigError);
}
