#include "levin/core/console/progress_line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string_view>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/terminal.h"

namespace levin {
namespace {

constexpr std::array<std::string_view, 9> kBlocks = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
constexpr std::array<std::string_view, 11> kAscii = {" ", "1", "2", "3", "4", "5", "6", "7", "8", "9", "#"};

template <std::size_t N>
std::string bar_of(const std::array<std::string_view, N>& symbols, double fraction, int width) {
  constexpr int kParts = static_cast<int>(N) - 1;
  const int filled_parts = static_cast<int>(fraction * width * kParts);
  const int full = filled_parts / kParts;
  std::string bar;
  for (int cell = 0; cell < width; ++cell)
    bar += cell < full ? symbols.back() : symbols[cell == full ? filled_parts % kParts : 0];
  return bar;
}

// Shortest text that reads back to the same double, with an exponent for very small or large numbers only.
std::string exact_text(double value) {
  const double magnitude = std::abs(value);
  const bool plain = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  std::array<char, 64> buffer;
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format).ptr;
  std::string text(buffer.data(), end);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

// Three significant digits, exponents without leading zeros: 1e-5.
std::string rounded_text(double value) {
  std::string text = format("{:.3g}", value);
  const std::size_t exponent = text.find('e');
  if (exponent != std::string::npos && text[exponent + 2] == '0') text.erase(exponent + 2, 1);
  return text;
}

/// What a line leaves out where room is short, one after the other.
enum Omission : int { kNothing, kDetails, kSamplesRate, kRate, kTimes, kBar, kCount };

/// A line but for its bar.
struct LineParts {
  std::string left;
  std::string right;
  double fraction = 0;
};

LineParts parts_of(const ProgressLine& line, int omitted, std::size_t shown_metrics, bool utf8) {
  const bool known = line.total && *line.total > 0 && line.current <= *line.total;
  const double mean_rate = line.elapsed_seconds > 0 ? static_cast<double>(line.current) / line.elapsed_seconds : 0.0;
  const double rate = line.rate.value_or(mean_rate);
  const bool has_rate = std::isfinite(rate) && rate > 0;
  LineParts parts;
  parts.fraction = known ? static_cast<double>(line.current) / static_cast<double>(*line.total) : 0.0;
  parts.left = line.description.empty() ? "" : one_line(line.description) + ": ";
  if (known) parts.left += format("{:3.0f}%", parts.fraction * 100);
  const bool has_count = omitted < kCount || !known;
  if (has_count) parts.right = format(" {}/{}", line.current, known ? std::to_string(*line.total) : "?");

  const auto figure_of = [](const auto& figure) { return format("{}={}", one_line(figure.first), one_line(figure.second)); };
  std::vector<std::string> texts;
  if (omitted < kTimes) {
    const bool tells_end = known && has_rate;
    texts.push_back(duration_text(line.elapsed_seconds) + "<" +
                    (tells_end ? duration_text(static_cast<double>(*line.total - line.current) / rate) : "?"));
  }
  if (omitted < kRate) texts.push_back((has_rate ? format("{:5.2f}", rate) : "?") + "it/s");
  if (omitted < kSamplesRate && line.samples_rate) texts.push_back(samples_rate_text(*line.samples_rate));
  if (omitted < kDetails) std::transform(line.details.begin(), line.details.end(), std::back_inserter(texts), figure_of);
  const auto metrics_end = line.metrics.begin() + static_cast<std::ptrdiff_t>(shown_metrics);
  std::transform(line.metrics.begin(), metrics_end, std::back_inserter(texts), figure_of);
  if (shown_metrics < line.metrics.size()) texts.emplace_back(utf8 ? "…" : "...");
  if (!texts.empty()) parts.right += " [" + join(texts) + "]";
  return parts;
}

std::string without_bar(const LineParts& parts) {
  const bool has_space = parts.left.ends_with(' ');
  return parts.left + parts.right.substr(has_space ? 1 : 0);
}

}  // namespace

std::string progress_bar(double fraction, int width, bool utf8) {
  fraction = std::isnan(fraction) ? 0.0 : std::clamp(fraction, 0.0, 1.0);
  width = std::max(width, 0);
  return utf8 ? bar_of(kBlocks, fraction, width) : bar_of(kAscii, fraction, width);
}

std::string duration_text(double seconds) {
  constexpr double kLongest = 1e15;
  if (!(seconds >= 0 && seconds < kLongest)) return "?";
  const auto whole = static_cast<std::int64_t>(seconds);
  const auto [hours, minutes, rest] = std::array{whole / 3600, whole / 60 % 60, whole % 60};
  return hours > 0 ? format("{}:{:02}:{:02}", hours, minutes, rest) : format("{:02}:{:02}", minutes, rest);
}

std::string figure_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  constexpr std::size_t kShortest = 5;
  const std::string exact = exact_text(value);
  std::string text = rounded_text(value);
  if (exact.size() <= text.size()) text = exact;
  if (text.find('e') != std::string::npos) return text;
  if (text.find('.') == std::string::npos && text.size() < kShortest) text += '.';
  if (text.size() < kShortest) text.append(kShortest - text.size(), '0');
  return text;
}

std::string samples_rate_text(double rate) {
  if (!std::isfinite(rate) || rate < 0) return "? samples/s";
  constexpr std::array kUnits = {"", "k", "M", "G", "T"};
  std::size_t unit = 0;
  // 999.5 would be written with four digits.
  for (; rate >= 999.5 && unit + 1 < kUnits.size(); rate /= 1000) ++unit;
  if (rate >= 99.95) return format("{:.0f}{} samples/s", rate, kUnits[unit]);
  if (rate >= 9.995 || unit == 0) return format("{:.1f}{} samples/s", rate, kUnits[unit]);
  return format("{:.2f}{} samples/s", rate, kUnits[unit]);
}

std::string progress_line(const ProgressLine& line, int width, bool utf8) {
  for (int omitted = kNothing; omitted < kBar; ++omitted) {
    const LineParts parts = parts_of(line, omitted, line.metrics.size(), utf8);
    const int room = width - static_cast<int>(display_width(parts.left) + display_width(parts.right)) - 2;
    if (room >= 1) return parts.left + "|" + progress_bar(parts.fraction, room, utf8) + "|" + parts.right;
  }
  const auto columns = static_cast<std::size_t>(std::max(width, 0));
  std::size_t metrics = line.metrics.size();
  std::string text = without_bar(parts_of(line, kBar, metrics, utf8));
  if (display_width(text) > columns) text = without_bar(parts_of(line, kCount, metrics, utf8));
  while (metrics > 0 && display_width(text) > columns) text = without_bar(parts_of(line, kCount, --metrics, utf8));
  return fit_to_width(text, columns);
}

}  // namespace levin
