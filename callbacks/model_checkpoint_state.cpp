// The options of ModelCheckpoint, and what it keeps in a checkpoint and takes over from one.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/callbacks/checkpoint_files.h"
#include "levin/callbacks/checkpoint_name.h"
#include "levin/callbacks/model_checkpoint.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/files/paths.h"
#include "levin/core/options/registry.h"

namespace levin {

SaveLast OptionType<SaveLast>::read(const Value& value) {
  if (value.is_null()) return false;
  if (value.is_bool()) return value.as_bool();
  if (value.is_string() && value.as_string() == "link") return SaveLast::kLink;
  detail::throw_wrong_type(value, name());
}

Value OptionType<SaveLast>::write(const SaveLast& save_last) {
  return save_last.link() ? Value("link") : Value(save_last.enabled());
}

Value OptionType<SaveLast>::schema() {
  return detail::any_of(
      {detail::schema_of_type("boolean"), Value(Value::Map{{"const", "link"}}), detail::schema_of_type("null")});
}

LEVIN_REGISTER_CALLBACK(ModelCheckpoint, "Save the best or the newest checkpoints");

void ModelCheckpointOptions::declare(OptionList<ModelCheckpointOptions>& options) {
  using O = ModelCheckpointOptions;
  options.add(&O::dirpath, "Folder to save in; null: checkpoints/ in the logger's folder");
  options.add(&O::filename, "Name without extension, such as '{epoch}-{val_loss:.2f}'; null: '{epoch}-{step}'");
  options.add(&O::monitor, "Metric that says which checkpoints are best; null: the newest is").not_empty();
  options.add(&O::verbose, "Say what is saved and why");
  options.add(&O::save_last, "Keep the newest state as last.ckpt too; 'link': as a symbolic link");
  options.add(&O::save_top_k, "How many of the best checkpoints are kept; -1: all, 0: none").min(-1);
  options.add(&O::save_on_exception, "Rank 0 also saves when training ends with an error; null: only when a signal ends it");
  options.add(&O::save_weights_only, "Leave out optimizers, schedulers and callbacks");
  options.add(&O::mode, "Whether the metric should become small or large");
  options.add(&O::auto_insert_metric_name, "'{epoch}' becomes 'epoch=3', not '3'");
  options.add(&O::every_n_train_steps, "Optimizer steps between checkpoints").min(0);
  options.add(&O::train_time_interval, "Time between checkpoints, DD:HH:MM:SS");
  options.add(&O::every_n_epochs, "Epochs between checkpoints; 0: only last.ckpt").min(0);
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
               ? "without a monitor nothing says which checkpoints are best: set 'monitor', or save_top_k to -1, 0 or 1"
               : "";
  });
  options.rule({"filename"}, [](const O& saving) -> std::string {
    if (!saving.filename) return "";
    // Reads the pattern in any case: one that is not understood is an error. What the fields become are numbers.
    const std::string name = checkpoint_name(*saving.filename, saving.auto_insert_metric_name, 0, 0, {});
    if (!leaves_folder(name) || (saving.dirpath && saving.dirpath->is_absolute())) return "";
    return "filename is " + quoted_text(*saving.filename) +
           ", which leads out of the folder for checkpoints: say with dirpath where to save, or give an absolute dirpath that "
           "the name starts from";
  });
}

namespace {

template <class T>
Value written(const T& value) {
  return OptionType<T>::write(value);
}

/// Empty when the state is of an earlier levin, which did not know it.
template <class T>
void read(const Value& state, const char* name, T& value) {
  const Value* const found = state.find(name);
  value = found == nullptr || found->is_null() ? T() : OptionType<T>::read(*found);
}

}  // namespace

Value ModelCheckpoint::state_dict() const {
  Value state(Value::Map{});
  state["monitor"] = written(options_.monitor);
  state["best_model_score"] = written(best_model_score_);
  state["best_model_path"] = best_model_path_;
  state["current_score"] = written(current_score_);
  state["dirpath"] = dirpath_;
  Value files(Value::Map{});
  for (const auto& [file, score] : top_k_->files()) files[file] = score;
  state["best_k_models"] = std::move(files);
  state["kth_best_model_path"] = top_k_->kth_file();
  state["kth_value"] = top_k_->kth_value();
  state["last_model_path"] = last_model_path_;
  // Beyond Lightning's keys: the file this state goes into, which a run that goes on from it must not remove.
  state["saved_as"] = written_file_;
  state["decisions"] = write_options(decisions_);
  return state;
}

void ModelCheckpoint::load_state_dict(const Value& state) {
  if (const Value* saved = state.find("decisions")) {
    decisions_ = {};
    for (const auto& entry : option_list<Decisions>().entries()) {
      const Value* const value = saved->find(entry->info.name);
      if (value != nullptr && !value->is_null()) entry->read(decisions_, *value);
    }
    resumed_ = decisions_.triggered_step >= 0;  // else training had not begun
  }
  read(state, "best_model_path", best_model_path_);
  std::string saved_in;
  read(state, "dirpath", saved_in);
  if (saved_in != dirpath_) {
    rank_zero_warn(
        format("ModelCheckpoint: the checkpoint was saved by a run that kept its files in '{}'; this one uses '{}'. Of its "
               "state only best_model_path is taken over: the files there stay, and count no more.",
               saved_in, dirpath_));
    decisions_.displaced.clear();
    decisions_.unranked.clear();
    return;
  }
  read(state, "best_model_score", best_model_score_);
  read(state, "current_score", current_score_);
  read(state, "last_model_path", last_model_path_);
  read(state, "saved_as", resumed_file_);
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
