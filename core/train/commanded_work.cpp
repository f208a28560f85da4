#include "levin/core/train/commanded_work.h"

#include <chrono>
#include <thread>

#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/console/console.h"
#include "levin/core/files/paths.h"
#include "levin/core/state/checkpoint_state.h"

namespace levin {

namespace {
/// How often paused ranks ask one another whether to continue: short enough not to be noticed, and no core is busy.
constexpr auto kBetweenLooks = std::chrono::milliseconds(50);
}  // namespace

void CommandedWork::take(const Votes& agreed, Iteration& iteration) {
  run_.wishes.adopt_commands(agreed);
  saves_ |= agreed.save_checkpoint;
  iteration.validates = agreed.validate && run_.progress.validates;
}

void CommandedWork::save_if_asked() {
  if (std::exchange(saves_, false)) save();
}

bool CommandedWork::obey() {
  if (!run_.wishes.is_paused()) {
    end_pause();
    return false;
  }
  if (!std::exchange(pause_is_reported_, true)) rank_zero_info("Training pauses ", run_.progress.where(), ".");
  const WorkScope work(run_.work, Work::kNone);
  while (run_.wishes.is_paused()) {
    std::this_thread::sleep_for(kBetweenLooks);
    ThreadExitGuard::block_if_exiting();
    // Every rank reaches this because all agreed to pause, and no rank continues alone.
    const Votes agreed = run_.boundaries.meet(BoundaryKind::kPause).votes;
    run_.wishes.adopt_commands(agreed);
    if (agreed.save_checkpoint) save();
    save_requested(run_);
    run_.files.check();
    if (agreed.validate && run_.progress.validates) return true;
    if (run_.wishes.signal() != 0 || stop_.ends_epoch()) run_.wishes.set_paused(false);
  }
  end_pause();
  return false;
}

void CommandedWork::end_pause() {
  if (std::exchange(pause_is_reported_, false) && run_.wishes.signal() == 0) rank_zero_info("Training continues.");
}

void CommandedWork::save() {
  // Every rank reaches this because all agreed to save.
  const ExchangeSite site("the name of a requested checkpoint", "all agreed to save it");
  const std::filesystem::path file =
      run_.rank_exchange().broadcast_text(run_.is_global_zero() ? free_file().string() : "", site);
  save_run(run_, file, {.in_background = true});
  if (run_.is_global_zero()) run_.files.when_done([file] { rank_zero_info("Saved ", as_typed(file), "."); });
}

std::filesystem::path CommandedWork::free_file() const {
  std::filesystem::path folder = run_.trainer.log_dir() / "checkpoints";
  for (const auto& callback : run_.parts.callbacks) {
    const std::string own = callback->checkpoint_folder();
    if (own.empty()) continue;
    folder = own;
    break;
  }
  const std::string name = format("manual-epoch={}-step={}", run_.progress.epoch, run_.progress.global_step);
  std::filesystem::path file = folder / (name + ".ckpt");
  for (int version = 1; run_.files.is_there(file); ++version) file = folder / format("{}-v{}.ckpt", name, version);
  return file;
}

}  // namespace levin
