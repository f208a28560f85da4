#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

namespace levin::test {

/// The parts of a text between separators.
inline std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream rest(text);
  for (std::string part; std::getline(rest, part, separator);) parts.push_back(part);
  return parts;
}

/// Settings of a scenario of a program: "name=value" texts. Each has ranks= and folder=.
class Settings {
 public:
  explicit Settings(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const auto end = text.find('=');
      values_[text.substr(0, end)] = end == std::string::npos ? "" : text.substr(end + 1);
    }
  }
  bool has(const std::string& name) const { return values_.contains(name); }
  std::string text(const std::string& name, const std::string& fallback = "") const {
    const auto found = values_.find(name);
    return found == values_.end() ? fallback : found->second;
  }
  int number(const std::string& name, int fallback = 0) const { return std::stoi(text(name, std::to_string(fallback))); }
  /// "10,9,1"
  std::vector<std::int64_t> numbers(const std::string& name) const {
    std::vector<std::int64_t> all;
    for (const std::string& part : parts_of(text(name), ',')) all.push_back(std::stoll(part));
    return all;
  }

 private:
  std::map<std::string, std::string> values_;
};

/// What a rank says at its end, as "name value" lines, for a RankRun to read.
class Report {
 public:
  Report(const std::filesystem::path& folder, int rank) : file_(folder / ("rank_" + std::to_string(rank))) {
    file_.precision(17);
  }
  template <class T>
  void add(const std::string& name, const T& value) {
    const std::lock_guard lock(*mutex_);
    file_ << name << ' ' << value << std::endl;
  }
  template <class Metrics>
  void add_all(const std::string& prefix, const Metrics& metrics) {
    for (const auto& [name, value] : metrics) add(prefix + ":" + name, value);
  }

 private:
  /// Some programs report from a thread of their own, too.
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
  std::ofstream file_;
};

}  // namespace levin::test
