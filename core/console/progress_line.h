#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace levin {

/// What a progress bar shows. Plain data: who draws it, when and where, is not its business.
struct ProgressLine {
  std::string description;            ///< "Epoch 3"
  std::int64_t current = 0;           ///< iterations done
  std::optional<std::int64_t> total;  ///< unset: unknown
  double elapsed_seconds = 0;
  std::optional<double> rate;          ///< iterations a second; unset: current / elapsed
  std::optional<double> samples_rate;  ///< samples a second, over all ranks; unset: not shown
  using Figures = std::vector<std::pair<std::string, std::string>>;
  Figures details;  ///< what may be missing first: which run it is
  Figures metrics;  ///< metric and its text, see figure_text(); the last ones may be missing first
};

/// The line in tqdm's shape, at most `width` columns wide:
/// `Epoch 3:  45%|████▌     | 45/100 [00:02<00:03, 18.20it/s, 582 samples/s, v_num=0, train_loss=0.123]`.
/// The bar takes what room is left. When not even 1 column is left, parts are left out in this order: details, samples a
/// second, iterations a second, times, the bar, the count beside the percentage, and metrics from the last on, with "…" in
/// their place; what is still too long is cut. `utf8`: false draws the bar with '#' and digits.
std::string progress_line(const ProgressLine& line, int width, bool utf8);

/// The bar alone, `width` columns wide, filled from 0 to 1.
std::string progress_bar(double fraction, int width, bool utf8);

/// "582 samples/s", "7.5 samples/s", "29.1k samples/s", "1.20M samples/s": three digits.
std::string samples_rate_text(double rate);

/// "02:05", or "1:02:05" from one hour on. Negative and not finite: "?".
std::string duration_text(double seconds);

/// A metric as the progress bar shows it: three significant digits, at least five characters ("0.123", "12.50", "1e-5").
std::string figure_text(double value);

}  // namespace levin
