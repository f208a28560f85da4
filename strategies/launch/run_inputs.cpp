#include "levin/strategies/launch/run_inputs.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/error.h"
#include "levin/strategies/host/shared_file.h"
#include "levin/strategies/launch/cluster_environment.h"

namespace levin {

RunInputs& RunInputs::instance() {
  static RunInputs inputs(find_cluster_environment().value_or(ClusterEnvironment{}));
  return inputs;
}

RunInputs::RunInputs(const ClusterEnvironment& environment) {
  if (!environment.inputs_fd) return;
  const SharedFile file = SharedFile::attach(Descriptor(*environment.inputs_fd));
  ByteReader texts({file.data(), file.bytes()}, "the launcher's configuration for its ranks is not readable");
  try {
    while (texts.left() > 0) {
      std::string name = texts.text();
      handed_down_.emplace_back(std::move(name), texts.text());
    }
  } catch (const DesyncError& error) {
    throw IoError(error.what());
  }
}

std::optional<std::string> RunInputs::take(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto next =
      std::find_if(handed_down_.begin(), handed_down_.end(), [&](const auto& entry) { return entry.first == name; });
  if (next == handed_down_.end()) return std::nullopt;
  std::string text = std::move(next->second);
  handed_down_.erase(next);
  read_.emplace_back(name, text);
  return text;
}

void RunInputs::keep(const std::string& name, std::string text) {
  const std::lock_guard lock(mutex_);
  read_.emplace_back(name, std::move(text));
}

std::optional<std::string> RunInputs::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto last = std::find_if(read_.rbegin(), read_.rend(), [&](const auto& entry) { return entry.first == name; });
  return last == read_.rend() ? std::nullopt : std::optional(last->second);
}

std::optional<int> RunInputs::to_file() const {
  const std::lock_guard lock(mutex_);
  if (read_.empty()) return std::nullopt;
  std::string bytes;
  for (const auto& [name, text] : read_) {
    append_text(bytes, name);
    append_text(bytes, text);
  }
  const SharedFile file = SharedFile::create(bytes.size());
  std::memcpy(file.data(), bytes.data(), bytes.size());
  return fcntl(file.descriptor(), F_DUPFD_CLOEXEC, 3);
}

}  // namespace levin
