#include "levin/strategies/launch/rank_start.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "levin/core/base/error.h"
#include "levin/strategies/host/shared_file.h"
#include "levin/strategies/launch/cluster_environment.h"

namespace levin {

namespace {

// CBOR takes any bytes; a name or a text may be no UTF-8.
nlohmann::json::binary_t to_binary(const std::string& text) { return {std::vector<std::uint8_t>(text.begin(), text.end())}; }

std::string to_text(const nlohmann::json& json) {
  const auto& bytes = json.get_binary();
  return {bytes.begin(), bytes.end()};
}

}  // namespace

RunInputs& RunInputs::instance() {
  static RunInputs inputs(find_cluster_environment().value_or(ClusterEnvironment{}));
  return inputs;
}

RunInputs::RunInputs(const ClusterEnvironment& environment) {
  if (!environment.inputs_fd) return;
  const SharedFile file = SharedFile::attach(Descriptor(*environment.inputs_fd));
  const auto* const first = reinterpret_cast<const std::uint8_t*>(file.data());
  const auto json = nlohmann::json::from_cbor(first, first + file.bytes(), /*strict=*/true, /*allow_exceptions=*/false);
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
  const std::vector<std::uint8_t> bytes = nlohmann::json::to_cbor(json);
  const SharedFile file = SharedFile::create(bytes.size());
  std::memcpy(file.data(), bytes.data(), bytes.size());
  return fcntl(file.descriptor(), F_DUPFD_CLOEXEC, 3);
}

}  // namespace levin
