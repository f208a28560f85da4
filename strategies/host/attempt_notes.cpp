#include "levin/strategies/host/attempt_notes.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/console/terminal.h"

namespace levin {

namespace {

/// What comes before a text. There is room for two, and a new one takes the older one's: the newer stays whole meanwhile.
struct Head {
  std::uint64_t number = 0;  ///< of texts kept so far; 0: none
  std::uint64_t length = 0;
  std::uint64_t check = 0;
};

constexpr off_t kRoom = sizeof(Head) + AttemptNotes::kLongest;

struct Kept {
  std::uint64_t number = 0;
  std::string text;
};

std::uint64_t check_of(std::uint64_t number, const std::string& text) {
  return std::hash<std::string>{}(text) ^ (number * 0x9E3779B97F4A7C15U);
}

std::optional<Kept> read_room(int descriptor, int room) {
  Head head;
  if (pread(descriptor, &head, sizeof(head), room * kRoom) != sizeof(head) || head.number == 0) return std::nullopt;
  if (head.length > AttemptNotes::kLongest) return std::nullopt;
  std::string text(head.length, '\0');
  const ssize_t count = pread(descriptor, text.data(), text.size(), room * kRoom + static_cast<off_t>(sizeof(head)));
  if (count != static_cast<ssize_t>(text.size()) || head.check != check_of(head.number, text)) return std::nullopt;
  return Kept{head.number, std::move(text)};
}

Kept newest(int descriptor) {
  Kept found;
  for (const int room : {0, 1}) {
    if (auto kept = read_room(descriptor, room); kept && kept->number > found.number) found = *std::move(kept);
  }
  return found;
}

}  // namespace

int AttemptNotes::make() {
  open_standard_descriptors();
  const int descriptor = memfd_create("levin-notes", MFD_CLOEXEC);
  if (descriptor < 0) throw IoError(format("the ranks cannot be started: memfd_create failed: {}", std::strerror(errno)));
  return descriptor;
}

std::string AttemptNotes::read() const { return newest(descriptor_).text; }

void AttemptNotes::write(const std::string& text) const {
  if (text.size() > kLongest) return;
  const std::uint64_t number = newest(descriptor_).number + 1;
  const Head head{number, text.size(), check_of(number, text)};
  const off_t begin = static_cast<off_t>(number % 2) * kRoom;
  // Until the head is written too, this room holds nothing.
  [[maybe_unused]] ssize_t written = pwrite(descriptor_, text.data(), text.size(), begin + static_cast<off_t>(sizeof(head)));
  written = pwrite(descriptor_, &head, sizeof(head), begin);
}

}  // namespace levin
