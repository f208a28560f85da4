#include "levin/core/console/console.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <ostream>

#include "support/temporary_folder.h"

namespace {

using levin::Console;
using levin::LogLevel;

/// Standard output and error of this process go to a file, and the console is that of a rank, for the length of a scope.
class ConsoleOfRank {
 public:
  ConsoleOfRank(int rank, int world_size, LogLevel level = LogLevel::kInfo) {
    const int file = open(path().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    close(file);
    Console::instance().configure({.level = level, .rank = rank, .world_size = world_size});
  }
  ~ConsoleOfRank() {
    Console::instance().configure({});
    dup2(output_, STDOUT_FILENO);
    dup2(error_, STDERR_FILENO);
    close(output_);
    close(error_);
  }
  ConsoleOfRank(const ConsoleOfRank&) = delete;
  ConsoleOfRank& operator=(const ConsoleOfRank&) = delete;

  std::string text() const {
    std::ifstream stream(path());
    return {std::istreambuf_iterator<char>(stream), {}};
  }

 private:
  std::filesystem::path path() const { return folder_.path() / "console"; }

  levin::test::TemporaryFolder folder_;
  int output_ = dup(STDOUT_FILENO);
  int error_ = dup(STDERR_FILENO);
};

struct Point {
  int x;
  int y;
};
std::ostream& operator<<(std::ostream& stream, const Point& point) { return stream << '(' << point.x << ' ' << point.y << ')'; }

/// A value that notices when it is made a text.
struct Watched {
  int* printed;
};
std::ostream& operator<<(std::ostream& stream, const Watched& watched) {
  ++*watched.printed;
  return stream;
}

void print_everything() {
  levin::rank_debug("d", 1);
  levin::rank_info("i ", 0.25, " ", true, ' ', Point{3, 4});
  levin::rank_warn("w");
  levin::rank_error("e", std::string("!"));
  levin::rank_zero_debug("zd");
  levin::rank_zero_info("zi ", 2);
  levin::rank_zero_warn("zw");
}

}  // namespace

TEST_CASE("messages of a rank carry it, messages of the run come from rank 0 without") {
  std::string shown;
  for (const int rank : {0, 1}) {
    const ConsoleOfRank console(rank, 2);
    print_everything();
    shown += console.text();
  }
  CHECK(shown ==
        "[rank 0] i 0.25 true (3 4)\n[rank 0] warning: w\n[rank 0] error: e!\nzi 2\nwarning: zw\n"
        "[rank 1] i 0.25 true (3 4)\n[rank 1] warning: w\n[rank 1] error: e!\n");
}

TEST_CASE("a run of one process has no ranks to tell") {
  const ConsoleOfRank console(0, 1, LogLevel::kDebug);
  print_everything();
  CHECK(console.text() == "debug: d1\ni 0.25 true (3 4)\nwarning: w\nerror: e!\ndebug: zd\nzi 2\nwarning: zw\n");
}

TEST_CASE("a message that is not shown is not made") {
  int printed = 0;
  {
    const ConsoleOfRank console(1, 2, LogLevel::kWarning);
    levin::rank_info(Watched{&printed});
    levin::rank_zero_warn(Watched{&printed});
    CHECK(printed == 0);
    levin::rank_warn(Watched{&printed});
  }
  CHECK(printed == 1);
}

TEST_CASE("a warning given once") {
  const ConsoleOfRank console(1, 2);
  for (int time = 0; time < 3; ++time) levin::rank_warn_once("slow by ", 2, " s");
  levin::rank_warn_once("slow by ", 3, " s");
  CHECK(console.text() == "[rank 1] warning: slow by 2 s\n[rank 1] warning: slow by 3 s\n");
}

TEST_CASE("rank_zero_only calls on rank 0") {
  int calls = 0;
  for (const int rank : {0, 1, 2}) {
    const ConsoleOfRank console(rank, 3);
    levin::rank_zero_only([&] { ++calls; });
  }
  CHECK(calls == 1);
}
