#include "levin/callbacks/checkpoint_files.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <system_error>
#include <utility>

#include "levin/callbacks/checkpoint_name.h"
#include "levin/callbacks/model_checkpoint.h"
#include "levin/callbacks/monitoring.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/paths.h"

namespace levin {

TopKCheckpoints::TopKCheckpoints(std::int64_t k, bool minimize)
    : k_(k), minimize_(minimize), worst_possible_((minimize ? 1 : -1) * std::numeric_limits<double>::infinity()) {}

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

// The options of ModelCheckpoint, and what it keeps in a checkpoint and takes over from one.
namespace levin {

SaveLast OptionType<SaveLast>::read(const Value& value) {
  if (value.is_bool()) return value.as_bool();
  if (value.is_string() && value.as_string() == "link") return SaveLast::kLink;
  detail::throw_wrong_type(value, name());
}

Value OptionType<SaveLast>::write(const SaveLast& save_last) {
  return save_last.link() ? Value("link") : Value(save_last.enabled());
}

Value OptionType<SaveLast>::schema() {
  return detail::any_of({detail::schema_of_type("boolean"), Value(Value::Map{{"const", "link"}})});
}

LEVIN_REGISTER_CALLBACK(ModelCheckpoint, "Save the best or the newest checkpoints");

void ModelCheckpointOptions::declare(OptionList<ModelCheckpointOptions>& options) {
  using O = ModelCheckpointOptions;
  options.add(&O::dirpath, "Folder to save in; null: checkpoints/ in the logger's folder");
  options.add(&O::filename, "Name without extension, such as '{epoch}-{val_loss:.2f}'; null or empty: '{epoch}-{step}'");
  options.add(&O::monitor, "Metric that says which checkpoints are best, or step or epoch; null: the newest is").not_empty();
  options.add(&O::verbose, "Say what is saved and why");
  options.add(&O::save_last, "Keep the newest state as last.ckpt too; 'link': as a symbolic link");
  options.add(&O::save_top_k, "How many of the best checkpoints are kept; -1: all, 0: none").min(-1).instead("-1 keeps all");
  options.add(&O::save_on_exception, "Rank 0 also saves when training ends with an error; null: only when a signal ends it");
  options.add(&O::save_weights_only, "Leave out optimizers, schedulers and callbacks");
  options.add(&O::mode, "Whether the metric should become small or large");
  options.add(&O::auto_insert_metric_name, "'{epoch}' becomes 'epoch=3', not '3'");
  options.add(&O::every_n_train_steps, "Optimizer steps between checkpoints; 0: not by steps")
      .min(0)
      .instead("0 saves none by steps");
  options.add(&O::train_time_interval, "Time between checkpoints, DD:HH:MM:SS");
  options.add(&O::every_n_epochs, "Epochs between checkpoints; 0: not by epochs, but last.ckpt")
      .min(0)
      .instead("0 saves none by epochs");
  options.add(&O::save_on_train_epoch_end,
              "Save when a training epoch ends; false: when validation ends; null: by the validation interval");
  options.add(&O::enable_version_counter, "Add -v1, -v2, … to a name that is taken; false: replace the file");
  options.add(&O::async, "Write in the background, from a copy; false: the step waits for the disk");
  options.rule({"every_n_train_steps", "every_n_epochs", "train_time_interval"}, [](const O& saving) {
    const int triggers = (saving.every_n_train_steps.value_or(0) > 0) + (saving.every_n_epochs.value_or(0) > 0) +
                         saving.train_time_interval.has_value();
    return triggers > 1
               ? "every_n_train_steps, every_n_epochs and train_time_interval exclude each other; use one callback for each"
               : "";
  });
  options.rule({"save_top_k"}, [](const O& saving) {
    return !saving.monitor && saving.save_top_k > 1
               ? "without a monitor nothing says which checkpoints are best: set 'monitor', or save_top_k to -1, 0 or 1; "
                 "with monitor: step and mode: max the newest are kept"
               : "";
  });
  options.rule({"filename"}, [](const O& saving) -> std::string {
    if (!saving.filename || saving.filename->empty()) return "";
    // Reads the pattern in any case: one that is not understood is an error. What the fields become are numbers.
    const std::string name = checkpoint_name(*saving.filename, saving.auto_insert_metric_name, 0, 0, {});
    if (!leaves_folder(name) || (saving.dirpath && saving.dirpath->is_absolute())) return "";
    return "filename is " + quoted_text(*saving.filename) +
           ", which leads out of the folder for checkpoints: say with dirpath where to save, or give an absolute dirpath that "
           "the name starts from";
  });
}

Value ModelCheckpoint::state_dict() const {
  const Value own = write_options(state_);
  Value state(Value::Map{});
  const auto add = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) state[name] = own.at(name);
  };
  // In Lightning's order.
  state["monitor"] = OptionType<std::optional<std::string>>::write(options_.monitor);
  add({"best_model_score", "best_model_path", "current_score", "dirpath"});
  Value& files = state["best_k_models"] = Value(Value::Map{});
  for (const auto& [file, score] : top_k_->files()) files[file] = score;
  state["kth_best_model_path"] = top_k_->kth_file();
  state["kth_value"] = top_k_->kth_value();
  add({"last_model_path", "saved_as"});
  state["decisions"] = write_options(decisions_);
  return state;
}

void ModelCheckpoint::load_state_dict(const Value& state) {
  State saved;
  detail::read_state(state, saved);
  if (const Value* decisions = state.find("decisions")) {
    decisions_ = {};
    detail::read_state(*decisions, decisions_);
    resumed_ = decisions_.triggered_step >= 0;  // else training had not begun
  }
  state_.best_model_path = saved.best_model_path;
  if (saved.dirpath != state_.dirpath) {
    // Each run has a folder of its own, so that this is so whenever one goes on from another.
    rank_zero_info(
        format("ModelCheckpoint: the files of the run before stay in {}, and count no more but for the best of them; "
               "those of this one are kept in {}.",
               as_typed(saved.dirpath), as_typed(state_.dirpath)));
    decisions_.displaced.clear();
    decisions_.unranked.clear();
    return;
  }
  resumed_file_ = std::exchange(saved.saved_as, "");
  state_ = std::move(saved);
  std::vector<std::pair<std::string, double>> files;
  if (const Value* kept = state.find("best_k_models")) {
    for (const auto& [file, score] : kept->as_map()) files.emplace_back(file, score.as_double());
  }
  for (std::string& file : top_k_->restore(std::move(files))) decisions_.displaced.push_back(std::move(file));
  while (options_.save_top_k >= 0 && decisions_.unranked.size() > static_cast<std::size_t>(options_.save_top_k)) {
    decisions_.displaced.push_back(decisions_.unranked.front());
    decisions_.unranked.erase(decisions_.unranked.begin());
  }
  // It was written on the way out of a run that goes on here.
  if (!resumed_file_.empty() && resumed_file_ == decisions_.exceptional_file) decisions_.displaced.push_back(resumed_file_);
}

}  // namespace levin
