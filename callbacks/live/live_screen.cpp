#include "levin/callbacks/live/live_screen.h"

#include <algorithm>
#include <array>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {
namespace {

constexpr int kLeastColumns = 80;
constexpr int kLeastRows = 16;
constexpr int kLeastHeight = 7;  ///< of a curve, and of what keys do
constexpr int kOtherLines = 3;   ///< legend, bar, keys
constexpr std::size_t kBarWidth = 8;
constexpr std::size_t kWidePanel = 46;

/// "log axis, without 3 values <= 0, " of a logarithmic one.
std::string axis_text(const LiveState& state) {
  if (state.axis == Axis::kLinear) return "";
  const std::size_t left_out = values_not_above_zero(state.curve);
  return left_out == 0 ? "log axis, " : format("log axis, without {} <= 0, ", counted(left_out, "value"));
}

/// "loss: train_loss 0.123, val_loss 0.456" at the left of a rule, "2 of 3" at its right.
StyledLine legend(const LiveState& state, std::size_t width, const TextStyle& style) {
  const std::string dash = style.utf8 ? "─" : "-";
  StyledLine line = {{dash + dash + " ", SpanStyle::kDim}};
  std::string right;
  if (state.curve_number > 0) {
    const auto add = [&](const Series& series, const char* mark, SpanStyle span_style) {
      if (series.points.empty()) return;
      line.push_back({format("{} {} {}  ", mark, one_line(series.name), figure_text(series.points.back().second)), span_style});
    };
    const char* const mark = !style.utf8 ? "***" : style.braille ? "⣀⠤⠒" : "▄▄▀";
    add(state.curve.training, mark, SpanStyle::kTraining);
    add(state.curve.validation, !style.utf8 ? "ooo" : style.color ? mark : "•••", SpanStyle::kValidation);
    right = format(" {}{} of {} {}{}", axis_text(state), state.curve_number, state.curves, dash, dash);
  }
  const std::size_t used_width = std::min(width, width_of(line));
  line = fitted(std::move(line), used_width);
  std::string rule;
  for (std::size_t used = width_of(line) + display_width(right); used < width; ++used) rule += dash;
  line.push_back({rule + right, SpanStyle::kDim});
  return line;
}

StyledLine labeled(std::string_view label, std::string text) {
  return {{format("{:<11}", label), SpanStyle::kDim}, {std::move(text)}};
}

StyledLine line_of(const LiveRank& rank, std::size_t width, const TextStyle& style) {
  StyledLine line = {{format("{:<11}", format("rank {}", rank.rank)), SpanStyle::kDim}};
  if (rank.working) {
    const double share = std::clamp(*rank.working, 0.0, 1.0);
    line.push_back({progress_bar(share, kBarWidth, style.utf8), SpanStyle::kTraining});
    line.push_back({format("|{:3.0f}% work ", 100 * share)});
    if (width >= kWidePanel) line.push_back({format("{:2.0f}% wait ", 100 * (1 - share))});
  }
  std::string memory = rank.memory > 0 ? memory_text(rank.memory) : "";
  if (rank.device_memory > 0) memory += format(" + {} on GPU", memory_text(rank.device_memory));
  line.push_back({memory});
  return line;
}

/// As many as there is room for: those that others wait for.
std::vector<StyledLine> rank_lines(std::vector<LiveRank> ranks, std::size_t room, std::size_t width, const TextStyle& style) {
  std::size_t shown = ranks.size();
  if (shown > room) {
    std::stable_sort(ranks.begin(), ranks.end(),
                     [](const LiveRank& one, const LiveRank& other) { return one.working > other.working; });
    shown = room > 0 ? room - 1 : 0;
  }
  std::vector<StyledLine> lines;
  for (std::size_t i = 0; i < shown; ++i) lines.push_back(line_of(ranks[i], width, style));
  if (shown < ranks.size() && room > 0)
    lines.push_back(labeled("", format("{} more ranks, which wait longer", ranks.size() - shown)));
  return lines;
}

std::vector<StyledLine> panel(const LiveState& state, std::size_t width, std::size_t height, const TextStyle& style) {
  std::vector<StyledLine> lines;
  std::string speed = state.line.rate ? format("{:.2f} it/s", *state.line.rate) : "?";
  if (state.line.samples_rate) speed += ", " + samples_rate_text(*state.line.samples_rate);
  lines.push_back(labeled("speed", speed));
  if (state.seconds_left) lines.push_back(labeled("run", format("{} left", duration_text(*state.seconds_left))));
  std::vector<StyledLine> last;
  if (!state.checkpoint.empty()) last.push_back(labeled("checkpoint", state.checkpoint));
  if (!state.last.empty()) last.push_back(labeled("", one_line(state.last)));
  if (!state.best.empty()) last.push_back(labeled("best", one_line(state.best)));
  const std::size_t used = lines.size() + last.size();
  for (StyledLine& line : rank_lines(state.ranks, height > used ? height - used : 0, width, style))
    lines.push_back(std::move(line));
  std::move(last.begin(), last.end(), std::back_inserter(lines));
  lines.resize(height);
  return lines;
}

constexpr std::array kHelp = {
    "p  pause after the next step, on all ranks; again: resume",
    "s  save a checkpoint after the next step",
    "v  validate after the next step",
    "q  stop after this epoch; again: do not",
    "m  the next metric",
    "l  a logarithmic axis, without values <= 0; again: a linear one",
    "?  close this",
};

/// What keys do now, in full or, where there is no room for it, in short.
std::string keys_text(const LiveState& state, std::size_t room) {
  const std::string gap(3, ' ');
  const char* const pause = state.pauses ? "p resume" : "p pause";
  const char* const axis = state.axis == Axis::kLog ? "l linear" : "l log";
  const std::string begin = format("{}{}s save{}v validate{}", pause, gap, gap, gap);
  const char* const stop = state.stops_after_epoch ? "q keep training" : "q stop after this epoch";
  const std::string text = format("{}{}{}m next metric{}{} axis{}? help", begin, stop, gap, gap, axis, gap);
  if (text.size() <= room) return text;
  return format("{}{}{}m metric{}{}{}?", begin, state.stops_after_epoch ? "q keep training" : "q stop", gap, gap, axis, gap);
}

StyledLine keys_line(const LiveState& state, std::size_t width) {
  StyledLine line = {{" "}};
  if (!state.status.empty()) line.push_back({state.status + "   ", SpanStyle::kAlert});
  if (state.has_keys) line.push_back({keys_text(state, width - std::min(width, width_of(line))), SpanStyle::kDim});
  return line;
}

}  // namespace

std::string memory_text(std::int64_t bytes) {
  const double megabytes = static_cast<double>(bytes) / 1e6;
  return megabytes < 999.5 ? format("{:.0f} MB", megabytes) : format("{:.2f} GB", megabytes / 1e3);
}

std::vector<std::string> live_screen(const LiveState& state, const TerminalSize& size, const TextStyle& style) {
  // The last column would make some terminals wrap.
  const int width = std::max(size.columns - 1, 1);
  if (size.columns < kLeastColumns || size.rows < kLeastRows) return {progress_line(state.line, width, style.utf8)};
  ProgressLine bar = state.line;  // what stands above it is not said twice
  bar.samples_rate.reset();
  bar.details.clear();
  if (state.epoch > 0) bar.description = format("Epoch {} of {}", state.epoch, state.epochs);
  const auto columns = static_cast<std::size_t>(width);
  // Half of the terminal is for what is printed above.
  const auto height = static_cast<std::size_t>(std::max(size.rows / 2 - kOtherLines, kLeastHeight));
  const std::size_t panel_width = columns < 99 ? 34 : kWidePanel;
  const std::vector<StyledLine> left = draw(state.curve, columns - panel_width - 2, height, style, state.axis);
  const std::vector<StyledLine> right = panel(state, panel_width, height, style);
  std::vector<std::string> lines = {text_of(legend(state, columns, style), columns, style.color)};
  for (std::size_t row = 0; row < height; ++row) {
    StyledLine line = left[row];
    if (state.shows_help) {
      line = {{std::string(4, ' ')}, {row < kHelp.size() ? kHelp[row] : ""}};
    } else {
      line.push_back({"  "});
      line.insert(line.end(), right[row].begin(), right[row].end());
    }
    lines.push_back(text_of(line, columns, style.color));
  }
  lines.push_back(progress_line(bar, width, style.utf8));
  lines.push_back(text_of(keys_line(state, columns), columns, style.color));
  return lines;
}

}  // namespace levin
