#include "levin/core/run_check.h"

#include <algorithm>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

void RunCheck::on_fit_start(Trainer& trainer, Module& module) {
  const TrainerState& run = TrainerState::of(trainer);
  findings_.clear();
  remarks_.clear();
  if (run.resume.replaying) return;
  check(trainer, module);
  const std::string name = class_name();
  std::vector<std::vector<std::string>> by_rank;
  bool interrupted = false;
  for (const std::string& text :
       run.rank_exchange().gather_text(run.wishes.received_signal() != 0 ? "\n" : join(findings_, "\n"),
                                       ExchangeSite(name, "all ranks have this callback"))) {
    interrupted = interrupted || text == "\n";
    by_rank.push_back(text.empty() ? std::vector<std::string>() : split(text, "\n"));
  }
  findings_.clear();
  if (interrupted) return;  // partly read data proves nothing, and the run ends at its next boundary
  const auto has = [](const auto& list, const std::string& line) { return std::ranges::find(list, line) != list.end(); };
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    for (const std::string& line : by_rank[rank]) {
      const bool on_all = std::ranges::all_of(by_rank, [&](const auto& lines) { return has(lines, line); });
      const std::string text = on_all ? line : format("rank {}: {}", rank, line);
      if (!has(findings_, text)) findings_.push_back(text);
    }
  }
  if (findings_.empty()) return rank_zero_info(name, ": ", remarks_.empty() ? "ok" : "nothing found; " + join(remarks_, "; "));
  std::vector<std::string> lines = findings_;
  lines.insert(lines.end(), remarks_.begin(), remarks_.end());
  const std::string text = format("{}: before training\n  {}", name, join(lines, "\n  "));
  if (finding_is_error()) throw MisuseError(text);
  rank_zero_warn(text);
}

}  // namespace levin
