#include "levin/cli/new_project.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "levin/core/base/error.h"
#include "support/temporary_folder.h"

using Catch::Matchers::Contains;
using levin::cli::new_project;
using levin::cli::template_names;
namespace fs = std::filesystem;

namespace {

std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string error_of(const fs::path& folder, const std::string& name) {
  try {
    new_project(folder, name);
  } catch (const levin::Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a project of each template has its files, with the names of its own and no place left open") {
  const levin::test::TemporaryFolder folder;
  CHECK(template_names() == std::vector<std::string>{"classifier", "gan", "language-model", "regression"});
  for (const std::string& name : template_names()) {
    CAPTURE(name);
    const fs::path project = folder / name / "my-robot_2";
    CHECK_THAT(new_project(project, name), Contains("cmake -B build") && Contains("fit --config config.yaml"));
    for (const char* file : {"CMakeLists.txt", "module.h", "module.cpp", "test.cpp", "config.yaml", "README.md", ".gitignore"})
      CHECK(fs::exists(project / file));
    for (const auto& file : fs::directory_iterator(project)) {
      const std::string text = text_of(file);
      CAPTURE(file.path());
      CHECK(text.find("@NAME@") == std::string::npos);
      CHECK(text.find("@CLASS@") == std::string::npos);
      CHECK(text.find("@LEVIN") == std::string::npos);
    }
    CHECK_THAT(text_of(project / "config.yaml"), Contains("plugins: [build/libmy-robot_2.so]"));
    CHECK_THAT(text_of(project / "module.h"), Contains("class MyRobot2 : public levin::Module"));
  }
}

TEST_CASE("a project is not written over anything, nor half") {
  const levin::test::TemporaryFolder folder;
  std::ofstream(folder / "robot") << "mine";
  CHECK(error_of(folder / "robot", "classifier") ==
        "command line: new: '" + (folder / "robot").string() + "' is there already");
  CHECK(text_of(folder / "robot") == "mine");
  CHECK_THAT(error_of(folder / "robot/deeper", "gan"), Contains("cannot make the folder"));
}

TEST_CASE("names that no class can have, and templates that are not there") {
  const levin::test::TemporaryFolder folder;
  CHECK_THAT(error_of(folder / "2fast", "gan"), Contains("'2fast' cannot be the name of a class"));
  CHECK_THAT(error_of(folder / "a b", "gan"), Contains("'a b' cannot be the name of a class"));
  CHECK_THAT(error_of(folder / "test", "gan"), Contains("'test' is taken in every project"));
  CHECK(error_of(folder / "robot", "classifer") ==
        "command line: --template: there is no template 'classifer'; did you mean 'classifier'?");
  CHECK_FALSE(fs::exists(folder / "2fast"));
  CHECK_FALSE(fs::exists(folder / "robot"));
}
