// A user's own main(), whose program ends as its argument says. Run by cases/classes.txt.
#include <levin/cli/run_main.h>
#include <levin/core/base/error.h>

#include <stdexcept>
#include <string>

int main(int argc, char** argv) {
  return levin::run_main([&] {
    const std::string end = argc > 1 ? argv[1] : "";
    if (end == "config") throw levin::ConfigError("max_epochs: must be at least -1");
    if (end == "standard") throw std::runtime_error("no such camera");
    if (end == "other") throw 3;
  });
}
