#include "levin/strategies/host/attempt_notes.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

using levin::AttemptNotes;

TEST_CASE("the text that was kept last is read, by whoever has the descriptor") {
  const int descriptor = AttemptNotes::make();
  const AttemptNotes notes(descriptor);
  CHECK(notes.read().empty());
  for (const std::string text : {"one", "a longer one", "", "last"}) {
    notes.write(text);
    CHECK(AttemptNotes(descriptor).read() == text);
  }
  notes.write(std::string(AttemptNotes::kLongest, 'x'));
  CHECK(notes.read().size() == AttemptNotes::kLongest);
  notes.write(std::string(AttemptNotes::kLongest + 1, 'y'));
  CHECK(notes.read() == std::string(AttemptNotes::kLongest, 'x'));
  close(descriptor);
}

TEST_CASE("a process that is killed while it keeps a text leaves the one before, or the new one, whole") {
  const int descriptor = AttemptNotes::make();
  const AttemptNotes notes(descriptor);
  notes.write(std::string(1000, 'a'));
  for (int round = 0; round < 50; ++round) {
    const pid_t writer = fork();
    if (writer == 0) {
      for (int number = 0;; ++number)
        notes.write(std::string(static_cast<std::size_t>(number % 3000), static_cast<char>('b' + number % 20)));
    }
    usleep(200);
    kill(writer, SIGKILL);
    waitpid(writer, nullptr, 0);
    const std::string text = notes.read();
    CHECK(text.find_first_not_of(text.substr(0, 1)) == std::string::npos);
  }
  close(descriptor);
}
