#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "acceptance/digits_run.h"
#include "support/program.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

/// A new project, in a place of its own: always the same, so that a compiler cache knows its sources.
class Project {
 public:
  explicit Project(const std::string& template_name) : folder_(fs::path(LEVIN_BINARY_DIR) / "tests/projects" / template_name) {
    fs::remove_all(folder_);
    fs::create_directories(folder_.parent_path());
    command({levin_program(), "new", folder_.string(), "--template", template_name}, folder_.parent_path());
  }

  void configure() const {
    // Without optimization it compiles faster.
    std::vector<std::string> arguments = {"cmake",
                                          "-G",
                                          "Ninja",
                                          "-B",
                                          "build",
                                          "-Dlevin_DIR=" LEVIN_BINARY_DIR,
                                          "-DLEVIN_PRECOMPILE=OFF",
                                          "-DCMAKE_BUILD_TYPE=None"};
    if (run({.arguments = {"ccache", "--version"}}).ok()) arguments.emplace_back("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache");
    command(arguments, folder_);
  }

  Outcome command(const std::vector<std::string>& arguments, const fs::path& folder) const {
    const Outcome outcome = run({.arguments = arguments,
                                 .folder = folder,
                                 .environment = {{"OMP_NUM_THREADS", "1"}},
                                 .limit = std::chrono::seconds(500)});
    INFO(outcome.text());
    REQUIRE(outcome.ok());
    return outcome;
  }
  Outcome levin(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), levin_program());
    return command(arguments, folder_);
  }
  const fs::path& folder() const { return folder_; }

 private:
  fs::path folder_;
};

/// Trains a project and predicts with it, as its README says. All are built as their READMEs say, and their own tests run, with
/// the whole matrix; the sample does so for one, and takes the plug-ins of the others from this build.
void build_and_train(const std::string& template_name, bool builds) {
  const Project project(template_name);
  const fs::path plugin = "lib" + template_name + ".so";
  if (builds || std::getenv("LEVIN_MATRIX") != nullptr) {
    project.configure();
    project.command({"cmake", "--build", "build"}, project.folder());
    project.command({"ctest", "--test-dir", "build", "--output-on-failure", "--no-tests=error"}, project.folder());
  } else {
    fs::create_directory(project.folder() / "build");
    fs::copy_file(fs::path(LEVIN_BINARY_DIR) / "tests/plugins" / plugin, project.folder() / "build" / plugin);
  }
  project.levin({"fit", "--config", "config.yaml", "--trainer.max_epochs=1"});
  CHECK(fs::exists(version_folder(project.folder()) / "metrics.csv"));
  const Outcome prediction = project.levin({"predict", "--config", "config.yaml", "--ckpt_path=best"});
  if (template_name == "regression") {
    project.levin(
        {"fit", "--config", "config.yaml", "--trainer.max_epochs=1", "--model.hidden=16", "--trainer.logger.name=hidden_16"});
    CHECK(fs::exists(project.folder() / "hidden_16/version_0/metrics.csv"));
  }
  if (template_name == "language-model") CHECK(prediction.text().find("The Walrus") != std::string::npos);
}

}  // namespace

TEST_CASE("a new classifier builds and trains") { build_and_train("classifier", /*builds=*/true); }
TEST_CASE("a new regression builds and trains") { build_and_train("regression", /*builds=*/false); }
TEST_CASE("a new language model builds and trains") { build_and_train("language-model", /*builds=*/false); }
TEST_CASE("a new GAN builds and trains") { build_and_train("gan", /*builds=*/false); }

}  // namespace levin::test
