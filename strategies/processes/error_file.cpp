#include "levin/strategies/processes/error_file.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace levin {

void write_error_file(const FailureRecord& failure) noexcept {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path == nullptr || *path == '\0') return;
  try {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
    const nlohmann::json content = {
        {"message",
         {{"message", failure.str()},
          {"extraInfo", {{"py_callstack", failure.str()}, {"timestamp", std::to_string(seconds)}}}}}};
    // Written beside and renamed: torchrun may read at any moment.
    const std::string temporary = std::string(path) + "." + std::to_string(getpid());
    // An error text may hold any bytes; JSON holds UTF-8 only.
    std::ofstream(temporary) << content.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    std::filesystem::rename(temporary, path);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "TORCHELASTIC_ERROR_FILE=%s could not be written: %s\n", path, error.what());
  }
}

}  // namespace levin
