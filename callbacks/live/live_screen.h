#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "levin/callbacks/live/curves.h"
#include "levin/callbacks/live/styled_line.h"
#include "levin/core/console/terminal.h"

namespace levin {

/// What a rank did between the last two rows of training steps.
struct LiveRank {
  int rank = 0;
  std::optional<double> working = {};  ///< share of the time that it worked and did not wait for other ranks
  std::int64_t memory = 0;             ///< resident, in bytes; 0: not known
  std::int64_t device_memory = 0;      ///< allocated on its device; 0: none, or not known
};

/// What the live terminal shows of a run. Plain data.
struct LiveState {
  ProgressLine line = {};
  std::int64_t epoch = 0;                   ///< the one under way, from 1 on; 0: none is, or it has no limit
  std::int64_t epochs = 0;                  ///< so many there will be at most
  std::optional<double> seconds_left = {};  ///< until the run ends by the first of its limits
  Axis axis = Axis::kLinear;
  Curve curve = {};              ///< the one that is drawn
  std::size_t curve_number = 0;  ///< of `curves`, from 1 on; 0: there is none yet
  std::size_t curves = 0;
  std::vector<LiveRank> ranks = {};
  std::string checkpoint = {};  ///< when the next one is due: "in 54 steps"
  std::string last = {};        ///< the file that was written last
  std::string best = {};        ///< "val_loss=0.123"
  std::string status = {};      ///< what was requested: "PAUSED"
  bool pauses = false;          ///< or is about to: the key resumes it
  bool stops_after_epoch = false;
  bool has_keys = true;
  bool shows_help = false;
};

/// The lines of the live terminal: a curve next to figures, the progress bar, and keys. In a terminal that is too narrow or too
/// low for it the bar's line alone.
std::vector<std::string> live_screen(const LiveState& state, const TerminalSize& size, const TextStyle& style);

/// "312 MB", "1.21 GB".
std::string memory_text(std::int64_t bytes);

}  // namespace levin
