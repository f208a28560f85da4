#include "levin/core/files/paths.h"

#include <catch2/catch.hpp>

#include "core/console/pseudo_terminal.h"

namespace levin::test {
namespace {

TEST_CASE("a path that begins with a tilde lies in the home folder, as in a shell") {
  const EnvironmentVariable home("HOME", "/home/me");
  for (const auto& [path, expanded] :
       std::initializer_list<std::pair<const char*, const char*>>{{"~", "/home/me"},
                                                                  {"~/", "/home/me/"},
                                                                  {"~/data", "/home/me/data"},
                                                                  {"~//data", "/home/me/data"},
                                                                  {"~/../you", "/home/me/../you"},
                                                                  {"~/.", "/home/me/."},
                                                                  {"~you/data", "~you/data"},
                                                                  {"data/~", "data/~"},
                                                                  {"/~", "/~"},
                                                                  {"", ""}}) {
    CAPTURE(path);
    CHECK(expand_home(path).string() == expanded);
  }
}

TEST_CASE("without a home folder a tilde is a name") {
  const EnvironmentVariable none("HOME", nullptr);
  CHECK(expand_home("~/data") == "~/data");
}

}  // namespace
}  // namespace levin::test
