#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "acceptance/outside_project.h"
#include "support/file_text.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

/// Trains a project and predicts with it, as its README says. All are built as their READMEs say, and their own tests run, with
/// the whole matrix; the sample does so for one, and takes the plug-in of the others, in which all are, from this build.
void build_and_train(const std::string& template_name, bool builds) {
  const OutsideProject project(template_name);
  project.command({LEVIN_BINARY_DIR "/bin/levin", "new", project.folder().string(), "--template", template_name},
                  project.folder().parent_path());
  const fs::path plugin = "lib" + template_name + ".so";
  if (builds || std::getenv("LEVIN_MATRIX") != nullptr) {
    project.build();
    // As on GitHub, whose levin is in a folder v: what is built already stays.
    const std::string workflow = read_text(project.folder() / ".github/workflows/test.yml");
    fs::create_directories(project.folder() / "v/bin");
    fs::create_symlink(LEVIN_BINARY_DIR "/bin/levin", project.folder() / "v/bin/levin");
    project.command({"bash", "-ec", workflow.substr(workflow.rfind("run: |") + std::string_view("run: |").size())});
  } else {
    fs::create_directory(project.folder() / "build");
    fs::copy_file(LEVIN_BINARY_DIR "/tests/plugins/libtemplates.so", project.folder() / "build" / plugin);
  }
  const auto run = [&](std::vector<std::string> arguments) {
    // The classifier's own module is beside one of levin's.
    if (template_name == "classifier" || template_name == "images")
      arguments.insert(arguments.begin() + 1, {"--config", "config.yaml", "--config", "module.yaml"});
    return project.levin(arguments);
  };
  run({"fit", "--trainer.max_epochs=1"});
  CHECK(fs::exists(project.folder() / "logs/version_0/metrics.csv"));
  const Outcome prediction = run({"predict", "--ckpt_path=best"});
  if (template_name == "classifier")
    CHECK(read_text(project.folder() / "logs/version_0/hparams.yaml").find("pixels: 64") != std::string::npos);
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
TEST_CASE("a new project of images builds and trains") { build_and_train("images", /*builds=*/false); }
TEST_CASE("a new GAN builds and trains") { build_and_train("gan", /*builds=*/false); }

}  // namespace levin::test
