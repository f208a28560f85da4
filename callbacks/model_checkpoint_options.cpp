#include "levin/callbacks/model_checkpoint.h"

#include "levin/callbacks/checkpoint_name.h"
#include "levin/core/base/text.h"

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
  Value link(Value::Map{});
  link["const"] = "link";
  Value either(Value::Map{});
  either["anyOf"] = Value(Value::List{detail::schema_of_type("boolean"), link, detail::schema_of_type("null")});
  return either;
}

void ModelCheckpointOptions::declare(OptionList<ModelCheckpointOptions>& options) {
  using O = ModelCheckpointOptions;
  options.add("dirpath", &O::dirpath, "Folder to save in; null: checkpoints/ in the logger's folder");
  options.add("filename", &O::filename, "Name without extension, such as '{epoch}-{val_loss:.2f}'; null: '{epoch}-{step}'");
  options.add("monitor", &O::monitor, "Metric that says which checkpoints are best; null: the newest is").not_empty();
  options.add("verbose", &O::verbose, "Say what is saved and why");
  options.add("save_last", &O::save_last, "Keep the newest state as last.ckpt too; 'link': as a symbolic link");
  options.add("save_top_k", &O::save_top_k, "How many of the best checkpoints are kept; -1: all, 0: none").min(-1);
  options.add("save_on_exception", &O::save_on_exception,
              "Rank 0 also saves when training ends with an error; null: only when a signal ends it");
  options.add("save_weights_only", &O::save_weights_only, "Leave out optimizers, schedulers and callbacks");
  options.add("mode", &O::mode, "Whether the metric should become small or large");
  options.add("auto_insert_metric_name", &O::auto_insert_metric_name, "'{epoch}' becomes 'epoch=3', not '3'");
  options.add("every_n_train_steps", &O::every_n_train_steps, "Optimizer steps between checkpoints").min(0);
  options.add("train_time_interval", &O::train_time_interval, "Time between checkpoints, DD:HH:MM:SS");
  options.add("every_n_epochs", &O::every_n_epochs, "Epochs between checkpoints; 0: only last.ckpt").min(0);
  options.add("save_on_train_epoch_end", &O::save_on_train_epoch_end,
              "Save when a training epoch ends; false: when validation ends; null: by the validation interval");
  options.add("enable_version_counter", &O::enable_version_counter,
              "Add -v1, -v2, … to a name that is taken; false: replace the file");
  options.add("async", &O::async, "Write in the background, from a copy; false: the step waits for the disk");
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
    // Reads the pattern in any case: one that is not understood is an error.
    const bool leaves_folder = CheckpointName(*saving.filename, saving.auto_insert_metric_name).leaves_folder();
    if (!leaves_folder || (saving.dirpath && saving.dirpath->is_absolute())) return "";
    return "filename is " + quoted_text(*saving.filename) +
           ", which leads out of the folder for checkpoints: say with dirpath where to save, or give an absolute dirpath that "
           "the name starts from";
  });
}

}  // namespace levin
