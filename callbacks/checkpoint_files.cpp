#include "levin/callbacks/checkpoint_files.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <system_error>

#include "levin/callbacks/model_checkpoint.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/secrets.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/console/console.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/paths.h"
#include "levin/core/files/remote_file.h"

namespace levin::detail {
namespace fs = std::filesystem;

namespace {

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

std::string problem_of_folder(const std::string& folder) {
  const std::size_t scheme = folder.find("://");
  const bool is_address = scheme != std::string::npos && scheme > 0 &&
                          std::ranges::all_of(folder.substr(0, scheme),
                                              [](unsigned char letter) { return std::isalnum(letter) != 0 || letter == '+'; });
  if (!is_address) return "";
  if (!folder.starts_with("s3://"))
    return format("dirpath {} is an address that takes no files: use a folder, or s3://BUCKET/FOLDER",
                  quoted_text(without_secrets(folder)));
  const bool has_bucket = folder.size() > scheme + 3 && folder[scheme + 3] != '/';
  return has_bucket ? "" : format("dirpath {} names no bucket: s3://BUCKET/FOLDER", quoted_text(folder));
}

std::string name_of_files(const ModelCheckpointOptions& options) {
  return options.filename && !options.filename->empty() ? *options.filename : kDefaultName;
}

void check_files(const ModelCheckpointOptions& left, const ModelCheckpointOptions& right) {
  const auto folder = [](const ModelCheckpointOptions& one) { return one.dirpath ? absolute_folder(*one.dirpath) : ""; };
  const auto name = [](const ModelCheckpointOptions& one) { return name_of_files(one); };
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
  if (is_remote(folder.native())) {
    std::string place = folder.string();
    while (place.ends_with('/')) place.pop_back();
    return place;
  }
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
  if (is_remote(file)) {
    try {
      if (file.starts_with(folder + "/") && file.ends_with(ModelCheckpoint::kFileExtension)) remove_remote_file(file);
    } catch (const IoError& error) {
      rank_zero_warn(format("Could not remove the old checkpoint {}: {}.", file, error.what()));
    }
    return;
  }
  std::error_code error;
  if (!fs::exists(fs::symlink_status(file, error))) return;  // neither a file nor a link, which may point to nothing
  if (!lies_in(file, folder) || !(Checkpoint::is_checkpoint(file) || is_checkpoint_link(file))) {
    rank_zero_warn(format("The old checkpoint {} stays: levin did not write it into {}.", file, folder));
    return;
  }
  fs::remove(file, error);
  if (error) rank_zero_warn(format("Could not remove the old checkpoint {}: {}.", file, error.message()));
}

}  // namespace levin::detail
