#include "levin/callbacks/checkpoint_files.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <system_error>

#include "levin/callbacks/model_checkpoint.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/console/console.h"
#include "levin/core/files/atomic_file.h"

namespace levin {

TopKCheckpoints::TopKCheckpoints(std::int64_t k, bool minimize)
    : k_(k), minimize_(minimize), worst_possible_((minimize ? 1 : -1) * std::numeric_limits<double>::infinity()) {}

bool TopKCheckpoints::accepts(double score) const {
  if (k_ == 0) return false;
  if (!full()) return true;
  return better(score, kth_value());
}

std::optional<std::string> TopKCheckpoints::next_displaced() const {
  if (!full()) return std::nullopt;
  return kth_file();
}

void TopKCheckpoints::add(const std::string& file, double score) {
  if (std::isnan(score)) score = worst_possible_;
  if (full()) files_.erase(worst());
  const auto known = std::find_if(files_.begin(), files_.end(), [&](const auto& entry) { return entry.first == file; });
  if (known != files_.end()) {
    known->second = score;
  } else {
    files_.emplace_back(file, score);
  }
}

std::vector<std::pair<std::string, double>>::const_iterator TopKCheckpoints::worst() const {
  return std::min_element(files_.begin(), files_.end(),
                          [this](const auto& left, const auto& right) { return better(right.second, left.second); });
}

std::optional<std::pair<std::string, double>> TopKCheckpoints::best() const {
  if (files_.empty()) return std::nullopt;
  return *std::min_element(files_.begin(), files_.end(),
                           [this](const auto& left, const auto& right) { return better(left.second, right.second); });
}

std::vector<std::string> TopKCheckpoints::restore(std::vector<std::pair<std::string, double>> files) {
  files_ = std::move(files);
  std::vector<std::string> displaced;
  while (k_ != -1 && files_.size() > static_cast<std::size_t>(k_)) {
    displaced.push_back(worst()->first);
    files_.erase(worst());
  }
  return displaced;
}

}  // namespace levin

namespace levin::detail {
namespace fs = std::filesystem;

namespace {

fs::path expand_home(const fs::path& path) {
  const char* home = std::getenv("HOME");
  if (home == nullptr || path.empty() || *path.begin() != "~") return path;
  return fs::path(home) / path.lexically_relative("~");
}

// The folder that the file's name is looked up in, whatever links and ".." lead there, is `folder` or one below it.
bool lies_in(const fs::path& file, const fs::path& folder) {
  std::error_code error;
  const fs::path name = file.filename();
  if (name.empty() || name == "." || name == "..") return false;
  const fs::path from = fs::canonical(file.parent_path(), error);
  if (error) return false;
  const fs::path to = fs::canonical(folder, error);
  if (error) return false;
  return std::mismatch(to.begin(), to.end(), from.begin(), from.end()).first == to.end();
}

// What link_checkpoint() makes: a link to a checkpoint of the same folder.
bool is_checkpoint_link(const fs::path& file) {
  std::error_code error;
  const fs::path target = fs::read_symlink(file, error);
  return !error && target.is_relative() && *target.begin() != ".." && target.extension() == ".ckpt";
}

}  // namespace

void check_files(const ModelCheckpointOptions& left, const ModelCheckpointOptions& right) {
  const auto folder = [](const ModelCheckpointOptions& one) { return one.dirpath ? absolute_folder(*one.dirpath) : ""; };
  const auto name = [](const ModelCheckpointOptions& one) { return one.filename.value_or(kDefaultName); };
  // With the counter a name that is taken gets a number.
  const bool counted = left.enable_version_counter && right.enable_version_counter;
  if (counted || folder(left) != folder(right)) return;
  const bool both_save = left.save_top_k != 0 && right.save_top_k != 0;
  const bool same_last = left.save_last.enabled() && right.save_last.enabled();
  if (!same_last && (!both_save || name(left) != name(right))) return;
  throw ConfigError(
      format("trainer: callbacks: two ModelCheckpoints would write the same files ('{}'): give one of them another "
             "dirpath or filename, or leave enable_version_counter true in both.",
             (same_last ? ModelCheckpoint::kNameLast : name(left)) + ModelCheckpoint::kFileExtension));
}

std::string absolute_folder(const fs::path& folder) {
  std::error_code error;
  const fs::path expanded = expand_home(folder);
  // Absolute first: of a relative path of which nothing exists yet it would stay relative.
  const fs::path absolute = fs::weakly_canonical(fs::absolute(expanded), error);
  return (error ? fs::absolute(expanded).lexically_normal() : absolute).string();
}

void link_checkpoint(const std::string& target, const std::string& link) {
  try {
    replace_link(link, fs::path(target).lexically_relative(fs::path(link).parent_path()));
  } catch (const IoError& error) {
    throw IoError(format("{} Use save_last: true to write a file.", error.what()));
  }
}

void remove_checkpoint(const std::string& file, const std::string& folder) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(file, error))) return;  // neither a file nor a link, which may point to nothing
  if (!lies_in(file, folder) || !(Checkpoint::is_checkpoint(file) || is_checkpoint_link(file))) {
    rank_zero_warn(format("The old checkpoint {} is left where it is: it is not one that levin wrote into {}.", file, folder));
    return;
  }
  fs::remove(file, error);
  if (error) rank_zero_warn(format("Could not remove the old checkpoint {}: {}.", file, error.message()));
}

}  // namespace levin::detail
