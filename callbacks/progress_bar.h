#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "levin/core/callback.h"
#include "levin/core/console/console.h"
#include "levin/core/options/options.h"

namespace levin {

struct ProgressBarOptions {
  std::int64_t refresh_rate = 1;  ///< look every so many batches whether to redraw; 0: no progress at all
  bool leave = false;             ///< keep each epoch's bar on the terminal
  bool show_lr = false;           ///< training's learning rates, before the metrics

  static void declare(OptionList<ProgressBarOptions>& options);
};

/// For tests, with a console and a clock (seconds) that outlive it.
std::shared_ptr<Callback> make_progress_bar(const ProgressBarOptions& options, Console& console,
                                            std::function<double()> clock = nullptr);

}  // namespace levin
