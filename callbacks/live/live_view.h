#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "levin/callbacks/live/live_screen.h"
#include "levin/core/console/console.h"
#include "levin/core/console/terminal_guard.h"
#include "levin/core/trainer.h"

namespace levin {

/// Draws the live terminal, ten times a second, and does what keys request, on its own thread: also while a
/// step takes long, or training pauses. Threading: made, given figures and ended by the thread that trains.
class LiveView {
 public:
  /// Both outlive the view.
  LiveView(Trainer& trainer, Console& console);
  /// Takes the lines off the terminal.
  ~LiveView();
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;

  /// The newest figures; curves, keys and requests are the view's own.
  void show(LiveState figures);
  /// Seconds that training has paused since the last call.
  double take_pause();
  /// As CurveHistory::add().
  void add(const std::vector<std::pair<std::string, double>>& values, double batches, bool is_validation);

 private:
  void work();
  void press(char key);
  LiveState now();

  Trainer& trainer_;
  Console& console_;
  const TextStyle style_;
  mutable std::mutex mutex_;
  std::condition_variable end_;
  bool ends_ = false;
  // Below the mutex:
  LiveState figures_;
  double figures_since_ = 0;
  CurveHistory history_;
  std::size_t curve_ = 0;
  bool shows_help_ = false;
  Axis axis_ = Axis::kLinear;
  bool wants_pause_ = false;
  bool was_paused_ = false;
  double looked_at_ = 0;  ///< whether training pauses, in seconds of a clock
  double pause_ = 0;
  bool stops_after_epoch_ = false;
  Keys keys_;
  std::thread thread_;
};

}  // namespace levin
