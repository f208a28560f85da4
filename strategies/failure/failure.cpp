#include "levin/strategies/failure/failure.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>

#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/secrets.h"
#include "levin/core/console/console.h"
#include "levin/core/files/atomic_file.h"

namespace levin {

namespace {

/// More than it takes torchrun to notice the end of the rank that failed first.
constexpr auto kAfterTheCause = std::chrono::seconds(5);

/// `text()`: the error.
template <class Text>
void write_error(const Text& text, std::chrono::system_clock::time_point time) noexcept {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path == nullptr || *path == '\0') return;
  try {
    const std::string message = without_secrets(text());
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
    const nlohmann::json content = {
        {"message",
         {{"message", message}, {"extraInfo", {{"py_callstack", message}, {"timestamp", std::to_string(seconds)}}}}}};
    // torchrun may read at any moment.
    AtomicFile file(path, AtomicFile::MissingFolder::kRefuse);
    // An error text may hold any bytes; JSON holds UTF-8 only.
    file.write(content.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    file.commit(AtomicFile::Disk::kLeaveToKernel);
  } catch (const std::bad_alloc&) {
    // The error itself is on stderr.
  } catch (const std::exception& error) {
    print_report(format("TORCHELASTIC_ERROR_FILE={} could not be written: {}", path, error.what()));
  }
}

}  // namespace

std::string FailureRecord::place() const { return format("rank {} failed {}", rank, describe_place(where)); }

std::string FailureRecord::str() const { return format("{}: {}", place(), error); }

std::string consequence(int rank, const Whereabouts& where, const FailureRecord& cause) {
  return format("rank {} ended {}, because {}", rank, describe_place(where), cause.place());
}

void print_report(const std::string& unmasked) {
  const std::string text = without_secrets(unmasked);
  if (Console::instance().hand_to_sink(LogLevel::kError, text)) return;
  // A progress bar may stand on the terminal's last line.
  const std::string line = format("{}{}\n", isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "", text);
  // One write: lines of several processes do not mix. Nothing can be done when stderr is closed.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

void print_failure(const FailureRecord& failure) noexcept {
  if (!OwnProcess::is_one()) return;
  try {
    print_report("levin: " + failure.str());
  } catch (const std::exception&) {
    // Out of memory: the record itself needs none.
  }
}

void write_error_file(const FailureRecord& failure) noexcept {
  write_error([&] { return failure.str(); }, std::chrono::system_clock::now());
}

void write_consequence_file(const std::string& consequence, const FailureRecord& cause) noexcept {
  if (std::getenv("LEVIN_LAUNCHED") != nullptr) return;
  write_error([&] { return format("{}\n{}", consequence, cause.str()); }, std::chrono::system_clock::now() + kAfterTheCause);
}

}  // namespace levin
