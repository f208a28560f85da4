#include "levin/strategies/failure/failure.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/file_text.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

/// The file that torchrun names.
struct ErrorFile {
  explicit ErrorFile(const std::filesystem::path& file) : path(file) { setenv("TORCHELASTIC_ERROR_FILE", path.c_str(), 1); }
  ~ErrorFile() { unsetenv("TORCHELASTIC_ERROR_FILE"); }
  ErrorFile(const ErrorFile&) = delete;
  ErrorFile& operator=(const ErrorFile&) = delete;
  nlohmann::json message() const { return nlohmann::json::parse(read_text(path)).at("message"); }
  std::int64_t seconds() const { return std::stoll(message().at("extraInfo").at("timestamp").get<std::string>()); }

  std::filesystem::path path;
};

constexpr Whereabouts kStep{Stage::kTrain, Hook::kTrainingStep, 1, 7};

}  // namespace

TEST_CASE("a failure is written in torchrun's format to the file that torchrun names") {
  const TemporaryFolder folder;
  const ErrorFile file(folder / "error.json");
  write_error_file({2, kStep, "bad \"batch\"\n\xff"});
  const std::string message = file.message().at("message");
  CHECK_THAT(message, Catch::StartsWith("rank 2 failed in training_step (train, epoch 1, step 7): bad \"batch\"\n"));
  CHECK(file.message().at("extraInfo").at("py_callstack") == message);
  CHECK(file.seconds() > 1'600'000'000);
}

TEST_CASE("what another rank's failure entails is dated after it, and left out where ranks share one file") {
  const TemporaryFolder folder;
  const ErrorFile file(folder / "error.json");
  const FailureRecord cause{2, kStep, "bad batch"};
  write_error_file(cause);
  const std::string first = read_text(file.path);
  const std::int64_t begin = file.seconds();
  setenv("LEVIN_LAUNCHED", "1", 1);
  write_consequence_file("rank 0 ended", cause);
  unsetenv("LEVIN_LAUNCHED");
  CHECK(read_text(file.path) == first);
  write_consequence_file("rank 0 ended", cause);
  CHECK(file.message().at("message") == "rank 0 ended\nrank 2 failed in training_step (train, epoch 1, step 7): bad batch");
  CHECK(file.seconds() >= begin + 2);
}

TEST_CASE("a link that another user laid beside the file is not followed") {
  const TemporaryFolder folder;
  const ErrorFile file(folder / "error.json");
  std::ofstream(folder / "victim") << "mine";
  for (const std::string& link : {file.path.string(), file.path.string() + "." + std::to_string(gettid())}) {
    std::filesystem::create_symlink(folder / "victim", link);
  }
  write_error_file({0, {}, "x"});
  CHECK(read_text(folder / "victim") == "mine");
  CHECK_FALSE(std::filesystem::is_symlink(file.path));
  CHECK(file.message().contains("message"));
}

TEST_CASE("without the variable, or with a path that cannot be written, a failure is no second failure") {
  unsetenv("TORCHELASTIC_ERROR_FILE");
  CHECK_NOTHROW(write_error_file({0, {}, "x"}));
  const ErrorFile nowhere("/nonexistent/folder/error.json");
  CHECK_NOTHROW(write_error_file({0, {}, "x"}));
}

}  // namespace levin::test
