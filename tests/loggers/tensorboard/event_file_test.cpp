#include "levin/loggers/tensorboard/event_file.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "levin/core/base/error.h"
#include "loggers/tensorboard/event_reader.h"
#include "support/patience.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;
using std::chrono::hours;
using std::chrono::milliseconds;
using tensorboard::Event;
using tensorboard::EventFile;

namespace {

Event of_step(std::int64_t step) {
  Event event;
  event.set_step(step);
  event.mutable_summary()->add_value()->set_tag("loss");
  return event;
}

std::vector<std::int64_t> steps_in(const std::filesystem::path& file) {
  std::vector<std::int64_t> steps;
  for (const Event& event : events_of(file)) steps.push_back(event.step());
  return steps;
}

}  // namespace

TEST_CASE("the CRC-32C is that of RFC 3720") {
  CHECK(tensorboard::crc32c("") == 0);
  CHECK(tensorboard::crc32c("123456789") == 0xe3069283);
  CHECK(tensorboard::crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(tensorboard::crc32c(std::string(32, '\xff')) == 0x62a8ab43);
}

TEST_CASE("records are framed as TensorFlow frames them") {
  // Written by tensorboard's own RecordWriter.
  const std::string hello{"\x05\0\0\0\0\0\0\0\xea\xb2\x04>hello\xbb\x1f\x1c\x19", 21};
  CHECK(tensorboard::framed("hello") == hello);
  CHECK(records_of(tensorboard::framed("one") + tensorboard::framed("")) == std::vector<std::string>{"one", ""});
  std::string damaged = tensorboard::framed("hello");
  damaged[14] ^= 1;
  CHECK_THROWS(records_of(damaged));
}

TEST_CASE("events are in the file after flush(), in order, with the time of when they came") {
  const TemporaryFolder folder;
  EventFile file(folder.path(), hours(1));
  CHECK(file.path().filename().string().starts_with("events.out.tfevents."));
  CHECK_FALSE(file.has_events());
  file.add(of_step(3));
  CHECK(file.has_events());
  file.add(of_step(1));
  CHECK(steps_in(file.path()).empty());
  file.flush();
  CHECK(steps_in(file.path()) == std::vector<std::int64_t>{3, 1});
  const std::vector<Event> events = events_of(file.path());
  CHECK(events[0].wall_time() > 1.7e9);
  CHECK(events[1].wall_time() >= events[0].wall_time());
}

TEST_CASE("what was added comes to the file in time by itself") {
  const TemporaryFolder folder;
  EventFile file(folder.path(), milliseconds(1));
  file.add(of_step(1));
  const auto deadline = std::chrono::steady_clock::now() + patience(std::chrono::seconds(10));
  while (steps_in(file.path()).empty() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  CHECK(steps_in(file.path()) == std::vector<std::int64_t>{1});
}

TEST_CASE("two files of one folder have two names, and are found in the order in which they were made") {
  const TemporaryFolder folder;
  const EventFile first(folder.path(), hours(1));
  const EventFile second(folder.path(), hours(1));
  const std::vector<std::filesystem::path> files = EventFile::files_in(folder.path());
  CHECK(std::set<std::filesystem::path>(files.begin(), files.end()) == std::set{first.path(), second.path()});
  CHECK(EventFile::files_in(folder / "none").empty());
}

TEST_CASE("threads may add at the same time") {
  const TemporaryFolder folder;
  EventFile file(folder.path(), milliseconds(1));
  constexpr std::int64_t kEach = 200;
  const auto add_all = [&](std::int64_t first) {
    for (std::int64_t step = first; step < first + kEach; ++step) file.add(of_step(step));
  };
  std::thread other(add_all, kEach);
  add_all(0);
  other.join();
  file.flush();
  const std::vector<std::int64_t> steps = steps_in(file.path());
  CHECK(steps.size() == 2 * kEach);
  CHECK(std::set<std::int64_t>(steps.begin(), steps.end()).size() == 2 * kEach);
}

TEST_CASE("a folder that is gone is an error that names the file") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(EventFile(folder / "gone", hours(1)), Catch::Contains("gone/events.out.tfevents."));
}
