#include "levin/strategies/failure/error_file.h"

#include <chrono>
#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>

#include "levin/core/base/format.h"
#include "levin/core/files/atomic_file.h"
#include "levin/strategies/failure/print_report.h"

namespace levin {

namespace {

/// More than it takes torchrun to notice the end of the rank that failed first.
constexpr auto kAfterTheCause = std::chrono::seconds(5);

void write(const std::string& message, std::chrono::system_clock::time_point time) noexcept {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path == nullptr || *path == '\0') return;
  try {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
    const nlohmann::json content = {
        {"message",
         {{"message", message}, {"extraInfo", {{"py_callstack", message}, {"timestamp", std::to_string(seconds)}}}}}};
    // torchrun may read at any moment.
    AtomicFile file(path, AtomicFile::MissingFolder::kRefuse);
    // An error text may hold any bytes; JSON holds UTF-8 only.
    file.write(content.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    file.commit(AtomicFile::Disk::kLeaveToKernel);
  } catch (const std::exception& error) {
    print_report(format("TORCHELASTIC_ERROR_FILE={} could not be written: {}", path, error.what()));
  }
}

}  // namespace

void write_error_file(const FailureRecord& failure) noexcept {
  try {
    write(failure.str(), std::chrono::system_clock::now());
  } catch (const std::bad_alloc&) {
    // The error itself is on stderr.
  }
}

void write_consequence_file(const std::string& consequence, const FailureRecord& cause) noexcept {
  if (std::getenv("LEVIN_LAUNCHED") != nullptr) return;
  try {
    write(format("{}\n{}", consequence, cause.str()), std::chrono::system_clock::now() + kAfterTheCause);
  } catch (const std::bad_alloc&) {
    // The consequence itself is on stderr.
  }
}

}  // namespace levin
