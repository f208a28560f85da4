#include "levin/core/console/console.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <future>
#include <regex>
#include <set>
#include <thread>
#include <utility>

#include "core/console/pseudo_terminal.h"
#include "levin/core/base/error.h"
#include "levin/core/console/live_block.h"
#include "levin/core/console/terminal_guard.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace {

// Two files instead of standard output and error, and a console on them.
class Files {
 public:
  Files() : output_(descriptor("out")), error_(descriptor("err")), console(output_, error_) {}
  ~Files() {
    close(output_);
    close(error_);
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  int output_fd() const { return output_; }
  int error_fd() const { return error_; }
  std::string output() const { return read_text(folder_.path() / "out"); }
  std::string error() const { return read_text(folder_.path() / "err"); }

 private:
  int descriptor(const char* name) const {
    return open((folder_.path() / name).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  }
  TemporaryFolder folder_;
  int output_;
  int error_;

 public:
  Console console;
};

constexpr int kThreads = 4;
constexpr int kMessages = 200;

/// Calls print(thread, message) in several threads, each message once.
void in_threads(const std::function<void(int, int)>& print) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&print, thread] {
      for (int message = 0; message < kMessages; ++message) print(thread, message);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// The status of `body` in a forked process, which ends with what it returns.
int status_of_process(const std::function<bool()>& body) {
  const pid_t process = fork();
  if (process == 0) _exit(body() ? 0 : 1);
  int status = 1;
  waitpid(process, &status, 0);
  return status;
}

}  // namespace

TEST_CASE_METHOD(Files,
                 "information goes to standard output, warnings and errors to standard error, without colour in a file") {
  console.debug("hidden");
  console.info("hello");
  console.warn("careful");
  console.error("broken\n");
  CHECK(output() == "hello\n");
  CHECK(error() == "warning: careful\nerror: broken\n");
  CHECK_FALSE(console.has_live_line());
}

TEST_CASE_METHOD(Files,
                 "with several ranks each line of a rank carries it, those of a longer message too; blank lines stay blank") {
  console.configure({.rank = 1, .world_size = 4});
  console.warn("first\nsecond\n\nfourth\n");
  CHECK(error() == "[rank 1] warning: first\n[rank 1] second\n\n[rank 1] fourth\n");
  console.warn("\nafter a blank line");
  CHECK(error().ends_with("fourth\n[rank 1] warning: \n[rank 1] after a blank line\n"));
}

TEST_CASE_METHOD(Files, "what is only recorded goes to the log file alone") {
  const TemporaryFolder folder;
  console.configure({.level = LogLevel::kWarning, .rank = 1, .world_size = 2, .log_file = folder / "log"});
  console.record(LogLevel::kError, "one\ntwo");
  console.record(LogLevel::kInfo, "below the level");
  CHECK(output() + error() == "");
  const std::string log = read_text(folder.path() / "log.rank_1");
  CHECK(std::regex_match(log, std::regex(R"([-\d :.]+ \[rank 1\] error: one\n[-\d :.]+ \[rank 1\] error: two\n)")));
}

TEST_CASE_METHOD(Files, "what other ranks have warned of goes to the log file alone") {
  const TemporaryFolder folder;
  std::set<std::string, std::less<>> said = {"known to others"};
  console.ask_before_warning([&](std::string_view key) { return said.emplace(key).second; });
  console.configure({.rank = 1, .world_size = 2, .log_file = folder / "log"});
  console.warn_once("known to others");
  console.warn_once("new");
  console.warn_once("1 of many", "known to others too");
  console.ask_before_warning(nullptr);
  console.warn_once("unshared");
  CHECK(error() == "[rank 1] warning: new\n[rank 1] warning: 1 of many\n[rank 1] warning: unshared\n");
  CHECK(said.contains("known to others too"));
  CHECK_THAT(read_text(folder.path() / "log.rank_1"), Catch::Contains("warning: known to others\n"));
}

TEST_CASE_METHOD(Files, "a sink gets messages instead of the descriptors, with level, rank and where the thread's run is") {
  const TemporaryFolder folder;
  console.configure({.rank = 1, .world_size = 2, .log_file = folder / "log"});
  std::vector<Message> messages;
  console.set_sink([&](const Message& message) {
    messages.push_back(message);
    console.info("from the sink");
    if (message.text == "broken") throw std::runtime_error("no room");
  });
  console.debug("hidden");
  console.print(LogLevel::kInfo, "rank 0 says it", Speaker::kRun);
  {
    const PlaceOfThread place([] { return Whereabouts{Stage::kTrain, Hook::kTrainingStep, 2, 7}; });
    console.warn("two\nlines");
    console.warn_once("once");
    console.warn_once("once");
  }
  console.error("broken");
  CHECK(console.hand_to_sink(LogLevel::kError, "from a watch"));
  console.set_sink(nullptr);
  console.info("here again");
  CHECK_FALSE(console.hand_to_sink(LogLevel::kError, "too late"));

  REQUIRE(messages.size() == 4);
  CHECK(messages[0].level == LogLevel::kWarning);
  CHECK(messages[0].rank == 1);
  CHECK(messages[0].text == "two\nlines");
  REQUIRE(messages[0].place.has_value());
  CHECK(messages[0].place->hook == Hook::kTrainingStep);
  CHECK(messages[0].place->step == 7);
  CHECK(messages[1].text == "once");
  CHECK_FALSE(messages[2].place.has_value());
  CHECK(messages[3].text == "from a watch");
  const std::string mine = "[rank 1] from the sink\n";
  CHECK(output() == mine + mine + mine + mine + "[rank 1] here again\n");
  CHECK(error() == "[rank 1] error: broken\n");  // which the sink could not take
  CHECK_THAT(read_text(folder / "log.rank_1"), Catch::Contains("warning: two") && Catch::Contains("error: broken"));
}

TEST_CASE("a message that must not wait is not held up by a sink at work") {
  Files files;
  Console& console = files.console;
  std::promise<void> arrived, gate;
  console.set_sink([&, is_first = true](const Message&) mutable {
    if (!std::exchange(is_first, false)) return;
    arrived.set_value();
    gate.get_future().wait();
  });
  std::thread other([&] { console.info("first"); });
  arrived.get_future().wait();
  CHECK_FALSE(console.hand_to_sink(LogLevel::kError, "from a watch"));
  gate.set_value();
  other.join();
  CHECK(console.hand_to_sink(LogLevel::kError, "from a watch"));
  console.set_sink(nullptr);
}

TEST_CASE_METHOD(Files, "threads give a sink their messages one at a time, and none once it is gone") {
  int received = 0;  // no lock
  console.set_sink([&](const Message&) { ++received; });
  in_threads([&](int, int) { console.info("hello"); });
  console.set_sink(nullptr);
  console.info("hello");
  CHECK(received == kThreads * kMessages);
  CHECK(output() == "hello\n");
}

TEST_CASE_METHOD(Files, "an error is known as reported by the object that was thrown, not by its text") {
  const auto throw_damaged = [] { throw std::runtime_error("the sample is damaged"); };
  std::exception_ptr caught;
  try {
    try {
      throw_damaged();
    } catch (const std::exception&) {
      CHECK_FALSE(console.was_reported(std::current_exception()));
      console.mark_reported(std::current_exception());
      throw;
    }
  } catch (...) {
    caught = std::current_exception();
  }
  CHECK(console.was_reported(caught));
  caught = nullptr;
  // Another one with the same text, which may lie where the first one lay.
  try {
    throw_damaged();
  } catch (const std::runtime_error&) {
    CHECK_FALSE(console.was_reported(std::current_exception()));
  }
}

TEST_CASE_METHOD(Files, "the log file of a rank is appended to when it is opened again, and may name the rank where it likes") {
  const TemporaryFolder folder;
  ConsoleOptions options{.rank = 2, .world_size = 3, .log_file = folder / "deep/levin.log"};
  for (const char* message : {"one", "two"}) {
    console.configure(options);
    console.info(message);
  }
  CHECK(lines_with(read_text(folder / "deep/levin.rank_2.log"), "[rank 2] info: ").size() == 2);
  options.log_file = folder / "of_{rank}.txt";
  console.configure(options);
  CHECK(std::filesystem::exists(folder / "of_2.txt"));
}

TEST_CASE("labels are coloured on a terminal, and not with NO_COLOR") {
  const EnvironmentVariable term("TERM", "xterm"), no_color("NO_COLOR", nullptr);
  const PseudoTerminal terminal(80);
  Console console(terminal.fd(), terminal.fd());
  console.error("e");
  CHECK(terminal.read() == "\033[1;31merror:\033[0m e\n");
  setenv("NO_COLOR", "1", 1);
  console.error("e");
  CHECK(terminal.read() == "error: e\n");
}

TEST_CASE("lines are printed above the live line, which is drawn again in the same write") {
  const EnvironmentVariable term("TERM", "xterm"), no_color("NO_COLOR", "1");
  const PseudoTerminal terminal(20);
  Console console(terminal.fd(), terminal.fd());
  REQUIRE(console.has_live_line());
  CHECK(console.live_line_width() == 19);
  console.set_live_line("bar 1");
  CHECK(terminal.read() == "\rbar 1\033[K");
  console.info("a\nb");
  CHECK(terminal.read() == "\r\033[Ka\nb\nbar 1");
  console.warn("w");
  CHECK(terminal.read() == "\r\033[Kwarning: w\nbar 1");
  console.set_live_line("0123456789012345678901234567890\n");
  CHECK(terminal.read() == "\r0123456789012345678\033[K");
  terminal.resize(11);
  console.info("c");
  CHECK(terminal.read() == "\r\033[Kc\n0123456789");
  console.clear_live_line();
  CHECK(terminal.read() == "\r\033[K");
  console.info("d");
  CHECK(terminal.read() == "d\n");
  console.set_live_line("done");
  console.keep_live_line();
  console.keep_live_line();
  console.info("e");
  CHECK(terminal.read() == "\rdone\033[K\ne\n");
}

TEST_CASE("a live line stands on the terminal that is left when the other stream goes to a file") {
  const EnvironmentVariable term("TERM", "xterm"), no_color("NO_COLOR", "1");
  const PseudoTerminal terminal(40);
  const Files files;
  {
    Console console(terminal.fd(), files.error_fd());
    console.set_live_line("bar");
    console.warn("w");
    console.info("i");
    CHECK(terminal.read() == "\rbar\033[K\r\033[Ki\nbar");
    CHECK(files.error() == "warning: w\n");
  }
  Console console(files.output_fd(), terminal.fd());
  console.set_live_line("bar");
  console.info("i");
  console.warn("w");
  CHECK(terminal.read() == "\rbar\033[K\r\033[Kwarning: w\nbar");
  CHECK(files.output() == "i\n");
}

TEST_CASE("a rank without a live line takes another rank's away before it prints on the same terminal") {
  const EnvironmentVariable term("TERM", "xterm"), no_color("NO_COLOR", "1");
  const PseudoTerminal terminal(40);
  Console console(terminal.fd(), terminal.fd());
  console.configure({.rank = 1, .world_size = 2});
  console.info("i");
  CHECK(terminal.read() == "\r\033[K[rank 1] i\n");
}

TEST_CASE("a live block stands below what scrolls, is made again in another size, and is taken away without a trace") {
  const EnvironmentVariable term("TERM", "xterm");
  const PseudoTerminal terminal(100);
  Console console(terminal.fd(), terminal.fd());
  CHECK(console.live_size() == TerminalSize{100, 24});
  const std::string lines = "\033D\033D\033[2A\0337\033[1;22r\033[23;1Hone\033[K\033[24;1Htwo\033[K\0338";
  console.set_live_block({"one", "two"}, console.live_size());
  CHECK(terminal.read() == std::string("\0337\033[r\0338\033[J") + lines);
  console.set_live_block({"one", "two"}, console.live_size());
  CHECK(terminal.read() == "\0337\033[r\0338" + lines);
  // What is printed scrolls by itself.
  console.info("hello");
  CHECK(terminal.read() == "hello\n");
  console.set_live_block({"one", "two"}, {100, 30});
  CHECK(terminal.read().find("\033[J\033D\033D\033[2A\0337\033[1;28r\033[29;1Hone") != std::string::npos);
  // One line alone is a live line.
  console.set_live_block({"bar"}, {40, 10});
  CHECK(terminal.read() == std::string(LiveBlock::kRemove) + "\rbar\033[K");
  console.set_live_block({"one", "two"}, {100, 30});
  CHECK(terminal.read().starts_with("\r\033[K\0337"));
  console.clear_live_block();
  CHECK(terminal.read() == LiveBlock::kRemove);
  console.clear_live_block();
  CHECK(terminal.read().empty());
}

TEST_CASE("a live block is taken away when the process ends, and nothing is drawn from then on") {
  const EnvironmentVariable term("TERM", "xterm");
  const PseudoTerminal terminal(100);
  CHECK(status_of_process([&] {
          Console console(terminal.fd(), terminal.fd());
          console.set_live_block({"one", "two"}, console.live_size());
          restore_terminal();
          console.set_live_block({"three", "four"}, console.live_size());
          return true;
        }) == 0);
  const std::string shown = terminal.read();
  CHECK_THAT(shown, Catch::EndsWith(std::string(LiveBlock::kRemove)) && Catch::Contains("two") && !Catch::Contains("three"));
}

TEST_CASE("a rank gets the keys of its launcher's terminal one by one, as long as it wants them") {
  SharedKeys shared{};
  CHECK_FALSE(Keys::are_there());  // tests have no terminal
  {
    Keys launcher;
    shared.are_wanted = 1;
    launcher.pass_to(shared);
    CHECK(shared.are_offered == 0);
    CHECK(shared.key == 0);
  }
  CHECK(status_of_process([&] {
          Keys::come_from(shared);
          shared.are_offered = 1;
          shared.are_wanted = 0;
          bool is_right = Keys::are_there();
          {
            Keys keys;
            is_right &= !keys.next() && shared.are_wanted == 1;
            shared.key = 'p';
            is_right &= keys.next() == 'p' && !keys.next();
          }
          return is_right && shared.are_wanted == 0;
        }) == 0);
}

TEST_CASE_METHOD(Files, "lines of several threads do not mix") {
  const auto text = [](int thread, int line) {
    return std::to_string(thread) + ":" + std::to_string(line) + ":" + std::string(100, 'x');
  };
  in_threads([&](int thread, int line) { console.info(text(thread, line)); });
  const std::vector<std::string> lines = lines_of(output());
  std::multiset<std::string> expected;
  for (int thread = 0; thread < kThreads; ++thread) {
    for (int line = 0; line < kMessages; ++line) expected.insert(text(thread, line));
  }
  CHECK(std::multiset<std::string>(lines.begin(), lines.end()) == expected);
}
