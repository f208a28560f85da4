#include "levin/core/checkpoint/background_files.h"

#include <signal.h>
#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <future>

#include "levin/core/base/error.h"
#include "support/no_threads.h"
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

/// Keeps the thread that writes from going on, until it is let go.
class Held {
 public:
  Held(BackgroundFiles& files, const std::filesystem::path& folder) {
    const auto caller = std::this_thread::get_id();
    // What is given while nothing is under way is done at once, by the caller.
    do {
      files.write(checkpoint_of(torch::zeros({1})), folder / "before.ckpt");
      files.then(
          [gate = gate_.get_future().share(), caller] {
            if (std::this_thread::get_id() != caller) gate.wait();
          },
          {{(folder / "held").string(), true}});
      if (files.is_there(folder / "held")) return;
      gate_ = {};
    } while (true);
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
    if (number % 2 == 1) continue;  // every other one is given while the last is on its way
    bool done = false;
    files.when_done([&] { done = true; });
    while (!done) files.check();
  }
  files.wait();
  for (int number = 0; number < kFiles; ++number) CHECK(first_value(folder / std::to_string(number)) == number);
}

TEST_CASE("where no thread can be had, a write is an error at once, signals come as before, and nothing waits") {
  const TemporaryFolder folder;
  BackgroundFiles files;
  {
    const NoThreads no_threads;
    CHECK_THROWS_WITH(files.write(checkpoint_of(torch::ones({1})), folder / "one.ckpt"),
                      Catch::Contains("the system gives no thread") && Catch::Contains("async to false"));
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
}

TEST_CASE("a file in the background holds the tensors as they were when it was given") {
  const TemporaryFolder folder;
  BackgroundFiles files;
  Held held(files, folder.path());
  const at::Tensor weight = torch::full({100}, 3.0);
  files.write(checkpoint_of(weight), folder / "one.ckpt");
  weight.fill_(4);
  CHECK_FALSE(std::filesystem::exists(folder / "one.ckpt"));
  CHECK(files.is_there(folder / "one.ckpt"));
  held.let_go();
  files.wait();
  CHECK(first_value(folder / "one.ckpt") == 3);
  CHECK(files.is_there(folder / "one.ckpt"));
}

TEST_CASE("work on files is done in order, and asked for as if it were done") {
  const TemporaryFolder folder;
  const std::filesystem::path one = folder / "one.ckpt";
  const std::filesystem::path two = folder / "two.ckpt";
  std::ofstream(one) << "old";
  BackgroundFiles files;
  Held held(files, folder.path());
  std::vector<std::string> told;
  files.write(checkpoint_of(torch::full({1}, 2.0)), two);
  files.when_done([&] { told.push_back(std::filesystem::exists(one) && std::filesystem::exists(two) ? "both" : "not both"); });
  files.then(
      [one, two] {
        if (std::filesystem::exists(two)) std::filesystem::remove(one);
      },
      {{one.string(), false}});
  files.when_done([&] { told.push_back(std::filesystem::exists(one) ? "one" : "gone"); });
  CHECK_FALSE(files.is_there(folder / "sub" / ".." / "one.ckpt"));
  CHECK(files.is_there(two));
  CHECK(std::filesystem::exists(one));
  files.check();
  CHECK(told.empty());
  held.let_go();
  files.wait();
  CHECK_FALSE(std::filesystem::exists(one));
  // What is told is told here, when all is over.
  CHECK(told == std::vector<std::string>{"not both", "gone"});
  CHECK_FALSE(files.has_news());
}

TEST_CASE("what fails in the background is told once with path and cause, and nothing more is done") {
  const TemporaryFolder folder;
  const std::filesystem::path old = folder / "old.ckpt";
  checkpoint_of(torch::full({1}, 1.0)).save(old);
  std::ofstream(folder / "file") << "no folder";
  BackgroundFiles files;
  files.write(checkpoint_of(torch::full({1}, 2.0)), folder / "file" / "new.ckpt");
  files.then([old] { std::filesystem::remove(old); }, {{old.string(), false}});
  const std::string name = (folder / "file" / "new.ckpt").string();
  CHECK_THROWS_MATCHES(files.wait(), IoError, Catch::Matchers::Predicate<IoError>([&](const IoError& error) {
                         const std::string text = error.what();
                         return text.find(name) != std::string::npos && text.find("Not a directory") != std::string::npos;
                       }));
  CHECK(first_value(old) == 1);
  files.wait();
  // A program that goes on writes again.
  files.write(checkpoint_of(torch::full({1}, 5.0)), folder / "next.ckpt");
  files.wait();
  CHECK(first_value(folder / "next.ckpt") == 5);
}

TEST_CASE("what a file cannot hold is an error at once") {
  BackgroundFiles files;
  CHECK_THROWS_AS(files.write(checkpoint_of(at::Tensor()), "never.ckpt"), MisuseError);
  CHECK_THROWS_AS(files.write(checkpoint_of(torch::eye(3).to_sparse()), "never.ckpt"), MisuseError);
  files.wait();
}

}  // namespace
}  // namespace levin::test
