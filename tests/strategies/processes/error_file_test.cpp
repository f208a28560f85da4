#include "levin/strategies/failure/failure_record.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/temporary_folder.h"

TEST_CASE("a failure is written in torchrun's format to the file that torchrun names") {
  const auto path = std::filesystem::temp_directory_path() / ("levin_error_file_" + std::to_string(std::rand()) + ".json");
  setenv("TORCHELASTIC_ERROR_FILE", path.c_str(), 1);
  levin::write_error_file({2, {levin::Stage::kTrain, levin::Hook::kTrainingStep, 1, 7}, "bad \"batch\"\n\xff"});
  unsetenv("TORCHELASTIC_ERROR_FILE");
  const auto content = nlohmann::json::parse(std::ifstream(path));
  const std::string message = content["message"]["message"];
  CHECK_THAT(message, Catch::StartsWith("rank 2 failed in training_step (train, epoch 1, step 7): bad \"batch\"\n"));
  CHECK(content["message"]["extraInfo"]["py_callstack"] == message);
  CHECK(std::stoll(content["message"]["extraInfo"]["timestamp"].get<std::string>()) > 1'600'000'000);
  std::filesystem::remove(path);
}

TEST_CASE("what another rank's failure entails is dated after it, and left out where ranks share one file") {
  const auto path = std::filesystem::temp_directory_path() / ("levin_error_file_" + std::to_string(std::rand()) + ".json");
  setenv("TORCHELASTIC_ERROR_FILE", path.c_str(), 1);
  const levin::FailureRecord cause{2, {levin::Stage::kTrain, levin::Hook::kTrainingStep, 1, 7}, "bad batch"};
  levin::write_error_file(cause);
  const auto first = nlohmann::json::parse(std::ifstream(path));
  setenv("LEVIN_LAUNCHED", "1", 1);
  levin::write_consequence_file("rank 0 ended", cause);
  CHECK(nlohmann::json::parse(std::ifstream(path)) == first);
  unsetenv("LEVIN_LAUNCHED");
  levin::write_consequence_file("rank 0 ended", cause);
  unsetenv("TORCHELASTIC_ERROR_FILE");
  const auto content = nlohmann::json::parse(std::ifstream(path));
  CHECK(content["message"]["message"] == "rank 0 ended\nrank 2 failed in training_step (train, epoch 1, step 7): bad batch");
  const auto seconds = [](const nlohmann::json& file) {
    return std::stoll(file["message"]["extraInfo"]["timestamp"].get<std::string>());
  };
  CHECK(seconds(content) >= seconds(first) + 2);
  std::filesystem::remove(path);
}

TEST_CASE("a link that another user laid beside the file is not followed") {
  const levin::test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "error.json";
  std::ofstream(folder / "victim") << "mine";
  std::filesystem::create_symlink(folder / "victim", path.string() + "." + std::to_string(gettid()));
  std::filesystem::create_symlink(folder / "victim", path);
  setenv("TORCHELASTIC_ERROR_FILE", path.c_str(), 1);
  levin::write_error_file({0, {}, "x"});
  unsetenv("TORCHELASTIC_ERROR_FILE");
  std::string victim;
  std::getline(std::ifstream(folder / "victim"), victim);
  CHECK(victim == "mine");
  CHECK_FALSE(std::filesystem::is_symlink(path));
  CHECK(nlohmann::json::parse(std::ifstream(path)).contains("message"));
}

TEST_CASE("without the variable, or with a path that cannot be written, a failure is no second failure") {
  unsetenv("TORCHELASTIC_ERROR_FILE");
  levin::write_error_file({0, {}, "x"});
  setenv("TORCHELASTIC_ERROR_FILE", "/nonexistent/folder/error.json", 1);
  levin::write_error_file({0, {}, "x"});
  unsetenv("TORCHELASTIC_ERROR_FILE");
  SUCCEED();
}
