#include "levin/callbacks/on_exception_checkpoint.h"

#include <system_error>

#include "levin/callbacks/checkpoint_files.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/files/paths.h"
#include "levin/core/module.h"
#include "levin/core/trainer.h"

namespace levin {

LEVIN_REGISTER_CALLBACK(OnExceptionCheckpoint, "Save the state of a run that ends with an error");

void OnExceptionCheckpointOptions::declare(OptionList<OnExceptionCheckpointOptions>& options) {
  using O = OnExceptionCheckpointOptions;
  options.add(&O::dirpath, "Folder to save in").required().not_empty();
  options.add(&O::filename, "Name of the file, without .ckpt").not_empty();
  options.rule({"dirpath"}, [](const O& saving) { return detail::problem_of_folder(saving.dirpath.native()); });
  options.rule({"filename"}, [](const O& saving) -> std::string {
    if (!leaves_folder(saving.filename)) return "";
    return format("filename is {}, which leads out of dirpath: say with dirpath where to save", quoted_text(saving.filename));
  });
}

void OnExceptionCheckpoint::on_exception(Trainer& trainer, Module&, const std::exception&) {
  if (!trainer.is_global_zero() || !trainer.fitting() || trainer.sanity_checking()) return;
  try {
    trainer.save_checkpoint(ckpt_path());
    Console::instance().info("Saved the state of the failed run as " + ckpt_path().string());
  } catch (const std::exception& save_error) {
    // The error that ended the training is what matters; it leaves the Trainer after this hook.
    Console::instance().error(format("OnExceptionCheckpoint: the state could not be saved: {}", save_error.what()));
  }
}

void OnExceptionCheckpoint::on_fit_end(Trainer& trainer, Module&) {
  std::error_code ignored;
  if (trainer.is_global_zero() && Checkpoint::is_checkpoint(ckpt_path())) std::filesystem::remove(ckpt_path(), ignored);
}

}  // namespace levin
