#include "levin/callbacks/checkpoint_files.h"

#include <unistd.h>

#include <cstdlib>
#include <span>
#include <system_error>
#include <vector>

#include "levin/core/console/rank_messages.h"
#include "levin/core/error.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/trainer.h"

namespace levin::detail {
namespace fs = std::filesystem;

namespace {

fs::path expand_home(const fs::path& path) {
  const char* home = std::getenv("HOME");
  if (home == nullptr || path.empty() || *path.begin() != "~") return path;
  return fs::path(home) / path.lexically_relative("~");
}

template <class Plain>
Plain plain_of_rank_zero(Trainer& trainer, const Plain& mine, const char* what) {
  if (trainer.world_size() == 1) return mine;
  std::vector<Plain> all(static_cast<std::size_t>(trainer.world_size()));
  trainer.strategy().control_group().all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                                                what);
  return all.front();
}

}  // namespace

std::string absolute_folder(const fs::path& folder) {
  std::error_code error;
  const fs::path expanded = expand_home(folder);
  const fs::path absolute = fs::weakly_canonical(expanded, error);
  return (error ? fs::absolute(expanded).lexically_normal() : absolute).string();
}

bool has_files(const std::string& folder) {
  std::error_code error;
  return fs::directory_iterator(folder, error) != fs::directory_iterator();
}

bool file_is_there(const std::string& file) {
  std::error_code error;
  return fs::exists(fs::symlink_status(file, error));
}

void link_checkpoint(const std::string& target, const std::string& link) {
  const fs::path temporary = link + ".tmp-" + std::to_string(::getpid());
  std::error_code error;
  fs::remove(temporary, error);
  fs::create_symlink(fs::path(target).lexically_relative(fs::path(link).parent_path()), temporary, error);
  if (!error) fs::rename(temporary, link, error);
  if (!error) return;
  const std::string reason = error.message();
  fs::remove(temporary, error);
  throw IoError("Could not make " + link + " a link to " + target + ": " + reason + ". Use save_last: true to write a file.");
}

void remove_checkpoint(const std::string& file, const std::string& folder) {
  const fs::path relative = fs::path(file).lexically_relative(folder);
  if (relative.empty() || *relative.begin() == "..") return;
  std::error_code error;
  fs::remove(file, error);
  if (error) rank_zero_warn("Could not remove the old checkpoint " + file + ": " + error.message() + ".");
}

std::string text_of_rank_zero(Trainer& trainer, const std::string& mine, const char* what) {
  if (trainer.world_size() == 1) return mine;
  return all_gather_text(trainer.strategy().control_group(), mine, what).front();
}

std::optional<double> number_of_rank_zero(Trainer& trainer, std::optional<double> mine, const char* what) {
  struct Number {
    double value;
    double present;
  };
  const Number number = plain_of_rank_zero(trainer, Number{mine.value_or(0.0), mine ? 1.0 : 0.0}, what);
  return number.present != 0 ? std::optional(number.value) : std::nullopt;
}

SharedInterval::Word word_of_rank_zero(Trainer& trainer, const SharedInterval::Word& mine, const char* what) {
  return plain_of_rank_zero(trainer, mine, what);
}

}  // namespace levin::detail
