#include "levin/core/checkpoint/background_files.h"

#include <signal.h>
#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/patience.h"
#include "levin/core/base/process.h"
#include "levin/core/files/atomic_file.h"
#include "support/error_of.h"
#include "support/file_text.h"
#include "support/no_threads.h"
#include "support/shown_messages.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

Checkpoint checkpoint_of(const at::Tensor& tensor) {
  Checkpoint checkpoint;
  checkpoint.tensors["weight"] = tensor;
  return checkpoint;
}

double first_value(const std::filesystem::path& file) {
  return Checkpoint::load(file).tensors.at("weight").flatten()[0].item<double>();
}

/// Blocks the thread that writes until it is released.
class Held {
 public:
  explicit Held(BackgroundFiles& files) {
    files.then([gate = gate_.get_future().share()] { gate.wait(); });
  }
  void let_go() { gate_.set_value(); }

 private:
  std::promise<void> gate_;
};

TEST_CASE("files that take the memory of earlier copies hold what each was given") {
  const TemporaryFolder folder;
  BackgroundFiles files;
  const at::Tensor weight = torch::zeros({1000});
  constexpr int kFiles = 8;
  for (int number = 0; number < kFiles; ++number) {
    files.write(checkpoint_of(weight.fill_(number)), folder / std::to_string(number));
    if (number % 2 == 1) continue;  // every other one arrives while the last is being written
    bool done = false;
    files.when_done([&] { done = true; });
    while (!done) files.check();
  }
  files.wait();
  for (int number = 0; number < kFiles; ++number) CHECK(first_value(folder / std::to_string(number)) == number);
}

TEST_CASE(
    "where no thread can be had, a write is an error at once, but a file that is waited for is written; signals come as "
    "before, and nothing waits") {
  const TemporaryFolder folder;
  BackgroundFiles files;
  {
    const NoThreads no_threads;
    CHECK_THROWS_WITH(files.write(checkpoint_of(torch::ones({1})), folder / "one.ckpt"),
                      Catch::Contains("cannot start a thread") && Catch::Contains("async to false"));
    files.save(checkpoint_of(torch::full({1}, 3.0)), folder / "waited_for.ckpt");
  }
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  CHECK(sigismember(&blocked, SIGTERM) == 0);
  CHECK(sigismember(&blocked, SIGINT) == 0);
  files.wait();
  CHECK_FALSE(files.is_there(folder / "one.ckpt"));
  for (const char* name : {"two.ckpt", "three.ckpt", "four.ckpt"}) files.write(checkpoint_of(torch::ones({1})), folder / name);
  files.wait();
  CHECK(first_value(folder / "four.ckpt") == 1);
  CHECK(first_value(folder / "waited_for.ckpt") == 3);
}

TEST_CASE("work on files is done in order, and asked for as if it were done") {
  const TemporaryFolder folder;
  const std::filesystem::path one = folder / "one.ckpt";
  const std::filesystem::path two = folder / "two.ckpt";
  std::ofstream(one) << "old";
  BackgroundFiles files;
  Held held(files);
  std::vector<std::string> found;
  files.write(checkpoint_of(torch::full({1}, 2.0)), two);
  files.when_done([&] { found.push_back(std::filesystem::exists(one) && std::filesystem::exists(two) ? "both" : "not both"); });
  files.then(
      [one, two] {
        if (std::filesystem::exists(two)) std::filesystem::remove(one);
      },
      {{one.string(), false}});
  files.when_done([&] { found.push_back(std::filesystem::exists(one) ? "one" : "gone"); });
  CHECK_FALSE(files.is_there(folder / "sub" / ".." / "one.ckpt"));
  CHECK(files.is_there(two));
  CHECK(std::filesystem::exists(one));
  files.check();
  CHECK(found.empty());
  held.let_go();
  files.wait();
  CHECK_FALSE(std::filesystem::exists(one));
  // Callbacks run only here, when all is done.
  CHECK(found == std::vector<std::string>{"not both", "gone"});
  CHECK_FALSE(files.has_news());
}

TEST_CASE("what fails in the background is reported once with path and cause, and nothing more is done") {
  const TemporaryFolder folder;
  const std::filesystem::path old = folder / "old.ckpt";
  checkpoint_of(torch::full({1}, 1.0)).save(old);
  std::ofstream(folder / "file") << "no folder";
  BackgroundFiles files;
  files.write(checkpoint_of(torch::full({1}, 2.0)), folder / "file" / "new.ckpt");
  files.then([old] { std::filesystem::remove(old); }, {{old.string(), false}});
  const std::string name = (folder / "file" / "new.ckpt").string();
  CHECK_THAT(error_of<IoError>([&] { files.wait(); }), Catch::Contains(name) && Catch::Contains("Not a directory"));
  CHECK(first_value(old) == 1);
  files.wait();
  // A program that continues can write again.
  files.write(checkpoint_of(torch::full({1}, 5.0)), folder / "next.ckpt");
  files.wait();
  CHECK(first_value(folder / "next.ckpt") == 5);
}

/// A file system that does not answer until it is released: until then, the file does not show what is written.
class Hung {
 public:
  /// Writes "new" there.
  Hung(BackgroundFiles& files, const std::filesystem::path& file) {
    std::ofstream(file) << "old";
    const auto work = [this, file, gate = gate_.get_future().share()] {
      AtomicFile output(file);
      output.write("new");
      gate.wait();
      try {
        output.commit();
      } catch (const IoError&) {
      }
      done_.set_value();
    };
    files.then(work, {{file.string(), true}});
  }
  ~Hung() { let_go(); }
  /// Also waits until its thread has finished with the file.
  void let_go() {
    if (std::exchange(is_let_go_, true)) return;
    gate_.set_value();
    done_.get_future().wait();
  }

 private:
  std::promise<void> gate_;
  std::promise<void> done_;
  bool is_let_go_ = false;
};

TEST_CASE("a file system that does not answer is given up after the limit, and nothing of it comes true later") {
  const TemporaryFolder folder, other;
  BackgroundFiles files;
  const std::filesystem::path file = folder / "a.ckpt", best = folder / "best.ckpt";
  checkpoint_of(torch::full({1}, 1.0)).save(best);
  Hung hung(files, file);
  bool called = false;
  files.write(checkpoint_of(torch::full({1}, 2.0)), folder / "next.ckpt");
  files.then([best] { std::filesystem::remove(best); }, {{best.string(), false}});
  files.when_done([&] { called = true; });
  files.begin({.report_after = std::chrono::milliseconds(150), .longest = std::chrono::milliseconds(400)});
  const ShownMessages shown;
  const double begin = steady_seconds();
  CHECK_THAT(error_of<IoError>([&] { files.wait(); }), Catch::Contains("'" + file.string() + "'") &&
                                                           Catch::Contains("has not responded for") &&
                                                           Catch::Contains("all later work is dropped"));
  CHECK(steady_seconds() - begin >= 0.4);
  CHECK_THAT(shown.text(), Catch::Contains("Waiting for '" + file.string() + "'"));
  // The folder is no longer used, but others are.
  CHECK_FALSE(files.is_there(best));
  CHECK_THROWS_WITH(files.write(checkpoint_of(torch::ones({1})), folder / "later.ckpt"), Catch::Contains("later.ckpt"));
  CHECK_THROWS_WITH(files.save(checkpoint_of(torch::ones({1})), folder / "later.ckpt"), Catch::Contains("stopped responding"));
  files.then([best] { std::filesystem::remove(best); }, {{best.string(), false}});
  files.write(checkpoint_of(torch::full({1}, 5.0)), other / "b.ckpt");
  files.save(checkpoint_of(torch::full({1}, 6.0)), other / "c.ckpt");
  CHECK(first_value(other / "b.ckpt") == 5);
  CHECK(first_value(other / "c.ckpt") == 6);
  hung.let_go();
  CHECK(read_text(file) == "old");
  CHECK(first_value(best) == 1);
  CHECK_FALSE(std::filesystem::exists(folder / "next.ckpt"));
  CHECK_FALSE(called);
  // Another entry point tries it again.
  files.begin({});
  files.save(checkpoint_of(torch::full({1}, 7.0)), folder / "later.ckpt");
  CHECK(first_value(folder / "later.ckpt") == 7);
}

TEST_CASE("a step that waits for the memory of copies gives a file system up, too, and a program that ends does") {
  const TemporaryFolder folder;
  std::optional<BackgroundFiles> files(std::in_place);
  Hung hung(*files, folder / "a.ckpt");
  files->begin({.longest = std::chrono::milliseconds(200)});
  const auto write = [&](const char* name) { files->write(checkpoint_of(torch::ones({1})), folder / name); };
  SECTION("a step") {
    write("1.ckpt");
    write("2.ckpt");
    CHECK_THROWS_WITH(write("3.ckpt"), Catch::Contains("a.ckpt"));
  }
  SECTION("the end") {
    const ShownMessages shown;
    files.reset();
    CHECK_THAT(shown.text(), Catch::Contains("a.ckpt") && Catch::Contains("has not responded"));
  }
}

TEST_CASE("a file system that is slow is waited for as long as it takes something") {
  const TemporaryFolder folder;
  BackgroundFiles files;
  Held held(files);
  const auto slow = [&] {
    AtomicFile output(folder / "slow");
    for (int part = 0; part < 8; ++part) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      output.write("part");
    }
    output.commit();
  };
  files.then(slow, {{(folder / "slow").string(), true}});
  files.begin({.longest = std::chrono::milliseconds(1000)});
  held.let_go();
  files.wait();
  CHECK(read_text(folder / "slow").size() == 32);
}

TEST_CASE("a signal that asks again ends the wait for a file system, and the first one does not") {
  struct Settled {
    ~Settled() { HeededSignals::settle(); }
  } settled;
  const TemporaryFolder folder;
  BackgroundFiles files;
  Hung hung(files, folder / "a.ckpt");
  HeededSignals::note();
  auto asks = std::async(std::launch::async, [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    HeededSignals::note(/*again=*/true);
  });
  const double begin = steady_seconds();
  CHECK_THROWS_WITH(files.wait(), Catch::Contains("a second signal came") && Catch::Contains("a.ckpt"));
  CHECK(steady_seconds() - begin >= 0.4);
  hung.let_go();
  CHECK(read_text(folder / "a.ckpt") == "old");
}

TEST_CASE("what a file cannot hold is an error at once") {
  BackgroundFiles files;
  CHECK_THROWS_AS(files.write(checkpoint_of(at::Tensor()), "never.ckpt"), MisuseError);
  CHECK_THROWS_AS(files.write(checkpoint_of(torch::eye(3).to_sparse()), "never.ckpt"), MisuseError);
  files.wait();
}

}  // namespace
}  // namespace levin::test
