#include "levin/core/console/console.h"

#include <catch2/catch.hpp>
#include <map>
#include <ostream>

using namespace levin;

namespace {

/// For the length of a scope, the console is that of a rank, and its messages are stored.
class ConsoleOfRank {
 public:
  ConsoleOfRank(int rank, int world_size, LogLevel level = LogLevel::kInfo) {
    Console::instance().configure({.level = level, .rank = rank, .world_size = world_size});
    set_message_sink([this](const Message& message) {
      const bool of_run = message.speaker == Speaker::kRun;
      text_ += (of_run ? "run" : "rank " + std::to_string(message.rank)) + names_.at(message.level) + message.text + "\n";
    });
  }
  ~ConsoleOfRank() {
    set_message_sink(nullptr);
    Console::instance().configure({});
  }
  ConsoleOfRank(const ConsoleOfRank&) = delete;
  ConsoleOfRank& operator=(const ConsoleOfRank&) = delete;

  const std::string& text() const { return text_; }

 private:
  const std::map<LogLevel, std::string> names_ = {{LogLevel::kDebug, " debug: "},
                                                  {LogLevel::kInfo, ": "},
                                                  {LogLevel::kWarning, " warning: "},
                                                  {LogLevel::kError, " error: "}};
  std::string text_;
};

struct Point {
  int x;
  int y;
};
std::ostream& operator<<(std::ostream& stream, const Point& point) { return stream << '(' << point.x << ' ' << point.y << ')'; }

/// A value that records its conversion to text.
struct Watched {
  int* printed;
};
std::ostream& operator<<(std::ostream& stream, const Watched& watched) {
  ++*watched.printed;
  return stream;
}

void print_everything() {
  rank_debug("d", 1);
  rank_info("i ", 0.25, " ", true, ' ', Point{3, 4});
  rank_warn("w");
  rank_error("e", std::string("!"));
  rank_zero_debug("zd");
  rank_zero_info("zi ", 2);
  rank_zero_warn("zw");
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
        "rank 0: i 0.25 true (3 4)\nrank 0 warning: w\nrank 0 error: e!\nrun: zi 2\nrun warning: zw\n"
        "rank 1: i 0.25 true (3 4)\nrank 1 warning: w\nrank 1 error: e!\n");
}

TEST_CASE("a message that is not shown is not made") {
  int printed = 0;
  {
    const ConsoleOfRank console(1, 2, LogLevel::kWarning);
    rank_info(Watched{&printed});
    rank_zero_warn(Watched{&printed});
    CHECK(printed == 0);
    rank_warn(Watched{&printed});
  }
  CHECK(printed == 1);
}

TEST_CASE("a warning given once") {
  const ConsoleOfRank console(1, 2);
  for (int time = 0; time < 3; ++time) rank_warn_once("slow by ", 2, " s");
  rank_warn_once("slow by ", 3, " s");
  CHECK(console.text() == "rank 1 warning: slow by 2 s\nrank 1 warning: slow by 3 s\n");
}

TEST_CASE("rank_zero_only calls on rank 0") {
  int calls = 0;
  for (const int rank : {0, 1, 2}) {
    const ConsoleOfRank console(rank, 3);
    rank_zero_only([&] { ++calls; });
  }
  CHECK(calls == 1);
}
