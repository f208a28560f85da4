#include "levin/core/diagnostics/announcements.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <utility>

#include "levin/core/accelerator.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/console/terminal.h"
#include "levin/core/files/paths.h"

namespace levin {
namespace {

std::string text_of(const SampleShare& share) {
  std::string text = share.ranks > 1 ? format("{} of ", share.mine) : "";
  text += counted(static_cast<std::size_t>(share.all), "sample");
  if (share.evened_out == 0) return text;
  const char* how = share.evened_out > 0 ? "repeated" : "left out";
  return format("{} ({} {} to even out the ranks)", text, std::abs(share.evened_out), how);
}

std::string batch_share(const LoaderInUse& used) {
  const auto available = used.loader->size();
  std::string text = "an unknown number of batches";
  if (used.batches) {
    const std::int64_t batches = available.value_or(*used.batches);
    const std::string of = !available ? "at most " : *available != *used.batches ? format("{} of ", *used.batches) : "";
    text = format("{}{} {}", of, batches, batches == 1 ? "batch" : "batches");
  }
  const auto size = used.loader->batch_size();
  return size ? format("{} of {}", text, *size) : text;
}

}  // namespace

void announce_checkpoint(Stage stage, const std::filesystem::path& file, const std::string& summary) {
  const char* does = stage == Stage::kTrain ? "fit resumes from" : "uses the weights of";
  const std::string stage_text = stage == Stage::kTrain ? "" : std::string(stage_name(stage)) + " ";
  rank_zero_info(stage_text, does, " ", as_typed(file), summary.empty() ? "" : " (" + summary + ")");
}

void announce_resume(const std::filesystem::path& checkpoint, std::int64_t lost,
                     const std::function<std::string(const std::filesystem::path&)>& command) {
  const std::string file = as_typed(checkpoint);
  const Speaker speaker = Console::instance().rank() == 0 ? Speaker::kRun : Speaker::kRank;
  if (lost > 0) {
    detail::print_parts(
        LogLevel::kInfo, speaker,
        format("{} since the newest checkpoint {} lost; save_on_exception of the callback that saves would save them.",
               counted(static_cast<std::size_t>(lost), "step"), lost == 1 ? "is" : "are"));
  }
  detail::print_parts(LogLevel::kInfo, speaker,
                      command ? "Resume the run with: " + command(file)
                              : "To resume from the newest checkpoint, give it as ckpt_path: " + file);
}

std::vector<LoaderInUse> evaluation_loaders(Stage stage, const LoaderList& loaders, const std::vector<std::int64_t>& batches) {
  std::vector<LoaderInUse> used;
  for (std::size_t index = 0; index < loaders.size(); ++index) {
    const std::string name = stage == Stage::kValidate ? "validation" : std::string(stage_name(stage));
    used.push_back({loaders.size() == 1 ? name : format("{} {}", name, index), loaders[index].get(),
                    batches[index] < 0 ? std::nullopt : std::optional(batches[index])});
  }
  return used;
}

void announce_rank(const Strategy& strategy, const std::vector<LoaderInUse>& loaders) {
  std::string text =
      format("device {}, process {} on {}", strategy.accelerator().describe(strategy.device()), getpid(), host_name());
  for (const LoaderInUse& used : loaders) {
    const auto samples = used.loader->sample_share();
    text += format("; {}: {}{}", used.name, samples ? text_of(*samples) + ", " : "", batch_share(used));
    // Only the user's loader knows which part of the data it gives to which rank.
    if (strategy.world_size() > 1 && !samples) text += ", as the loader divides them";
  }
  rank_info(text);
}

namespace {

/// An element of a matrix, by its key: "confusion_2_7", "confusion_2_7/dataloader_idx_1".
struct Cell {
  std::string matrix;
  std::size_t row = 0;
  std::size_t column = 0;
};

std::optional<Cell> cell_of(const std::string& key) {
  static const std::regex form(R"((.+)_(\d{1,9})_(\d{1,9})(/dataloader_idx_.*)?)");
  std::smatch parts;
  if (!std::regex_match(key, parts, form)) return std::nullopt;
  return Cell{parts[1].str() + parts[4].str(), std::stoul(parts[2]), std::stoul(parts[3])};
}

using Numbers = std::map<std::pair<std::size_t, std::size_t>, double>;

/// All rows have all columns, from 0 on, and there are several of both.
bool is_matrix(const Numbers& numbers) {
  const auto [last_row, last_column] = numbers.rbegin()->first;
  const bool fills_all = numbers.size() == (last_row + 1) * (last_column + 1);
  const auto is_within = [last = last_column](const auto& number) { return number.first.second <= last; };
  return last_row > 0 && last_column > 0 && fills_all && std::ranges::all_of(numbers, is_within);
}

std::string matrix_text(const std::string& name, const Numbers& numbers) {
  const auto [last_row, last_column] = numbers.rbegin()->first;
  constexpr std::size_t kMostColumns = 24;
  if (last_column >= kMostColumns)
    return format("{}: {} rows of {} numbers, in the logs.", name, last_row + 1, last_column + 1);
  TextTable table{.header = {name}, .rows = {}, .align = {Align::kLeft}};
  for (std::size_t column = 0; column <= last_column; ++column) {
    table.header.push_back(std::to_string(column));
    table.align.push_back(Align::kRight);
  }
  for (std::size_t row = 0; row <= last_row; ++row) {
    std::vector<std::string>& cells = table.rows.emplace_back(std::vector<std::string>{std::to_string(row)});
    for (std::size_t column = 0; column <= last_column; ++column) {
      const double value = numbers.at({row, column});
      cells.push_back(value == std::trunc(value) ? format("{:.0f}", value) : format("{:.4g}", value));
    }
  }
  return table.str();
}

}  // namespace

std::string evaluation_report(Stage stage, const std::vector<MetricMap>& results) {
  TextTable table{.header = {std::string(stage_name(stage)) + " metric"}, .rows = {}, .align = {Align::kLeft}};
  std::set<std::string> names;
  std::map<std::string, Numbers> matrices;
  for (std::size_t loader = 0; loader < results.size(); ++loader) {
    table.header.push_back(results.size() == 1 ? "value" : format("loader {}", loader));
    table.align.push_back(Align::kRight);
    for (const auto& [name, value] : results[loader]) {
      names.insert(name);
      if (const auto cell = cell_of(name)) matrices[cell->matrix][{cell->row, cell->column}] = value;
    }
  }
  if (names.empty()) return std::string(stage_name(stage)) + ": nothing was logged.";
  std::erase_if(matrices, [](const auto& matrix) { return !is_matrix(matrix.second); });
  for (const std::string& name : names) {
    if (const auto cell = cell_of(name); cell && matrices.contains(cell->matrix)) continue;
    std::vector<std::string> row{name};
    for (const MetricMap& metrics : results) {
      const auto found = metrics.find(name);
      row.push_back(found == metrics.end() ? "" : float_text(found->second));
    }
    table.rows.push_back(std::move(row));
  }
  std::vector<std::string> parts;
  if (!table.rows.empty()) parts.push_back(table.str());
  for (const auto& [name, numbers] : matrices) parts.push_back(matrix_text(name, numbers));
  return join(parts, "\n\n");
}

}  // namespace levin
