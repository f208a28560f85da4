#include "levin/callbacks/live/live_view.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "levin/core/base/process.h"

namespace levin {

namespace {
constexpr auto kBetweenFrames = std::chrono::milliseconds(100);

/// A terminal's font has Braille dots or has none, whatever the run: as with NO_COLOR the environment says so.
bool wants_braille() {
  const char* const wanted = std::getenv("LEVIN_BRAILLE");
  return wanted != nullptr && *wanted != '\0';
}
}  // namespace

LiveView::LiveView(Trainer& trainer, Console& console)
    : trainer_(trainer),
      console_(console),
      style_{.utf8 = locale_is_utf8(), .color = console.live_colors(), .braille = wants_braille()},
      thread_(quiet_thread([this] { work(); })) {}

LiveView::~LiveView() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  end_.notify_all();
  thread_.join();
  console_.clear_live_block();
}

void LiveView::show(LiveState figures) {
  const std::lock_guard lock(mutex_);
  // An epoch that has just begun has no pace yet.
  if (figures.line.current == 0 && figures_.line.rate) {
    figures.line.rate = figures_.line.rate;
    figures.line.samples_rate = figures_.line.samples_rate;
  }
  figures_ = std::move(figures);
  figures_since_ = steady_seconds();
}

void LiveView::add(const std::vector<std::pair<std::string, double>>& values, double batches, bool is_validation) {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, value] : values) history_.add(name, batches, value, is_validation);
}

double LiveView::take_pause() {
  const std::lock_guard lock(mutex_);
  return std::exchange(pause_, 0);
}

void LiveView::work() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    while (const auto key = keys_.next()) press(*key);
    const LiveState state = now();
    const bool is_there = figures_since_ > 0;
    lock.unlock();
    const TerminalSize size = console_.live_size();
    if (is_there) console_.set_live_block(live_screen(state, size, style_), size);
    lock.lock();
    end_.wait_for(lock, kBetweenFrames, [this] { return ends_; });
  }
}

void LiveView::press(char key) {
  if (key == 'p') {
    wants_pause_ = !trainer_.paused() && !wants_pause_;
    trainer_.request(wants_pause_ ? RunCommand::kPause : RunCommand::kContinue);
  } else if (key == 's') {
    trainer_.request(RunCommand::kSaveCheckpoint);
  } else if (key == 'v') {
    trainer_.request(RunCommand::kValidate);
  } else if (key == 'q') {
    stops_after_epoch_ = !stops_after_epoch_;
    trainer_.request(stops_after_epoch_ ? RunCommand::kStopAfterEpoch : RunCommand::kCancelStop);
  } else if (key == 'm') {
    ++curve_;
  } else if (key == 'l') {
    axis_ = axis_ == Axis::kLog ? Axis::kLinear : Axis::kLog;
  } else if (key == '?') {
    shows_help_ = !shows_help_;
  }
}

LiveState LiveView::now() {
  LiveState state = figures_;
  const bool is_paused = trainer_.paused();
  const double now = steady_seconds();
  const double since = std::exchange(looked_at_, now);
  if (was_paused_) pause_ += now - since;
  if (std::exchange(was_paused_, is_paused) && !is_paused) wants_pause_ = false;
  state.line.elapsed_seconds += now - figures_since_;
  if (state.seconds_left && !is_paused) state.seconds_left = std::max(*state.seconds_left - (now - figures_since_), 0.0);
  const auto& curves = history_.curves();
  state.curves = curves.size();
  if (!curves.empty()) {
    state.curve_number = curve_ % curves.size() + 1;
    state.curve = curves[state.curve_number - 1];
  }
  state.shows_help = shows_help_;
  state.has_keys = Keys::are_there();
  state.axis = axis_;
  state.pauses = is_paused || wants_pause_;
  state.stops_after_epoch = stops_after_epoch_;
  state.status = is_paused ? "PAUSED" : wants_pause_ ? "pauses after this step" : "";
  if (stops_after_epoch_) state.status += state.status.empty() ? "stops after this epoch" : ", stops after this epoch";
  return state;
}

}  // namespace levin
