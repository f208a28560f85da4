#include "levin/strategies/launch/rank_start.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/console/terminal.h"
#include "levin/strategies/launch/cluster_environment.h"

namespace levin {

namespace {

[[noreturn]] void throw_inputs_failed(const std::string& what) {
  throw IoError(format("the configuration that the launcher hands to its ranks: {} failed: {}", what, std::strerror(errno)));
}

void write_all(int file, const std::vector<std::uint8_t>& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t written = write(file, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno != EINTR) throw_inputs_failed("writing");
    if (written > 0) done += static_cast<std::size_t>(written);
  }
}

// All ranks have inherited one file with one offset, so it is read by place.
std::vector<std::uint8_t> read_all(int file) {
  struct stat status {};
  if (fstat(file, &status) != 0) throw_inputs_failed(format("descriptor {}", file));
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(status.st_size));
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = pread(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (count == 0 || (count < 0 && errno != EINTR)) throw_inputs_failed("reading");
    if (count > 0) done += static_cast<std::size_t>(count);
  }
  return bytes;
}

// CBOR takes any bytes; a name or a text may be no UTF-8.
nlohmann::json::binary_t to_binary(const std::string& text) { return {std::vector<std::uint8_t>(text.begin(), text.end())}; }

std::string to_text(const nlohmann::json& json) {
  const auto& bytes = json.get_binary();
  return {bytes.begin(), bytes.end()};
}

}  // namespace

RunInputs& RunInputs::instance() {
  static RunInputs inputs = [] {
    try {
      return RunInputs(detect_cluster_environment());
    } catch (const ConfigError&) {
      // Whoever needs the variables of a launcher says what is wrong with them.
      return RunInputs(ClusterEnvironment{});
    }
  }();
  return inputs;
}

RunInputs::RunInputs(const ClusterEnvironment& environment) {
  if (!environment.inputs_fd) return;
  const auto json = nlohmann::json::from_cbor(read_all(*environment.inputs_fd), /*strict=*/true, /*allow_exceptions=*/false);
  close(*environment.inputs_fd);
  if (!json.is_array()) throw IoError("the configuration that the launcher hands to its ranks is not readable");
  for (std::size_t i = 0; i + 1 < json.size(); i += 2) handed_down_.emplace_back(to_text(json[i]), to_text(json[i + 1]));
}

std::optional<std::string> RunInputs::take(const std::string& name) {
  const auto next =
      std::find_if(handed_down_.begin(), handed_down_.end(), [&](const auto& entry) { return entry.first == name; });
  if (next == handed_down_.end()) return std::nullopt;
  std::string text = std::move(next->second);
  handed_down_.erase(next);
  read_.emplace_back(name, text);
  return text;
}

void RunInputs::keep(const std::string& name, std::string text) { read_.emplace_back(name, std::move(text)); }

std::optional<std::string> RunInputs::find(const std::string& name) const {
  const auto last = std::find_if(read_.rbegin(), read_.rend(), [&](const auto& entry) { return entry.first == name; });
  return last == read_.rend() ? std::nullopt : std::optional(last->second);
}

std::optional<int> RunInputs::to_file() const {
  if (read_.empty()) return std::nullopt;
  nlohmann::json json = nlohmann::json::array();
  for (const auto& [name, text] : read_) {
    json.push_back(nlohmann::json::binary(to_binary(name)));
    json.push_back(nlohmann::json::binary(to_binary(text)));
  }
  open_standard_descriptors();
  const int file = memfd_create("levin-inputs", MFD_CLOEXEC);
  if (file < 0) throw_inputs_failed("memfd_create");
  try {
    write_all(file, nlohmann::json::to_cbor(json));
  } catch (...) {
    close(file);
    throw;
  }
  return file;
}

}  // namespace levin
