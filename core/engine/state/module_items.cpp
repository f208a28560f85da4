#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/device_copies.h"
#include "levin/core/engine/figures/draw_figure.h"
#include "levin/core/engine/parts/histogram.h"
#include "levin/core/engine/parts/png_image.h"
#include "levin/core/engine/state/trainer_state.h"

namespace levin {

namespace {

namespace fs = std::filesystem;

/// A call of log_image() or its like.
struct ItemCall {
  std::string_view function;
  std::string_view name;
  CallSite where;

  [[noreturn]] void misuse(const std::string& why) const {
    throw MisuseError(format("{}: {}({}): {}", where.str(), function, quoted_text(name), why));
  }
};

/// What metrics that are logged here get as their row's step.
std::int64_t step_of(const Progress& progress, Hook hook) {
  const bool after_steps = hook == Hook::kOnTrainEpochEnd || hook == Hook::kOnTrainEnd || hook == Hook::kOnFitEnd;
  return after_steps ? std::max<std::int64_t>(0, progress.logging_step - 1) : progress.logging_step;
}

void check_call(const TrainerState& run, const ItemCall& call) {
  if (!run.entry.active) call.misuse("it is called outside of a run. Log in the hooks of fit, validate, test and predict.");
  if (run.entry.thread != std::this_thread::get_id())
    call.misuse(
        "it is called in another thread than the one that runs the hooks. Keep what it is, and log it in the next hook.");
  if (call.name.empty()) call.misuse("the name is empty");
  const auto is_control = [](char one) { return static_cast<unsigned char>(one) < 0x20 || one == 0x7f; };
  if (std::ranges::any_of(call.name, is_control)) call.misuse("the name contains a line break or another control character");
  // The device repeats what it has recorded without asking the module again.
  if (run.graph.logs() != nullptr) call.misuse("a training step that logs this cannot be recorded");
}

/// What metrics logged there would not be written of either.
bool is_shown(const TrainerState& run) { return run.progress.stage != Stage::kSanityCheck && !run.resume.replaying; }

std::string kind_of(const at::Tensor& tensor) {
  return tensor.defined() ? c10::str(tensor.scalar_type(), ' ', tensor.sizes()) : "no tensor";
}

/// A tensor that belongs to the queue, where it was, with the stream that makes it.
class TensorCopy {
 public:
  TensorCopy(const at::Tensor& tensor, at::ScalarType type)
      : tensor_(tensor.detach().to(tensor.options().dtype(type), /*non_blocking=*/false, /*copy=*/true,
                                   at::MemoryFormat::Contiguous)),
        stream_(current_stream(tensor.device())) {}

  std::size_t bytes() const { return tensor_.nbytes(); }
  /// Waits for the device. Threading: any.
  at::Tensor on_host() const {
    if (tensor_.is_cpu()) return tensor_;
    const c10::StreamGuard guard(stream_);  // what has been asked for before is done before
    return tensor_.cpu();
  }

 private:
  at::Tensor tensor_;
  c10::Stream stream_;
};

template <class Number>
std::span<const Number> numbers_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<Number>(), static_cast<std::size_t>(tensor.numel())};
}

ImageShape shape_of(const at::Tensor& image, const ItemCall& call) {
  constexpr const char* kTakes =
      "it takes [H, W], [C, H, W] or [N, C, H, W], where C is 1, 3 or 4, of floats from 0 to 1 or bytes";
  const auto refuse = [&](const char* why) { call.misuse(format("got {}; {}{}", kind_of(image), kTakes, why)); };
  if (!image.defined() || image.layout() != at::kStrided || image.dim() < 2 || image.dim() > 4) refuse("");
  const auto size = [&](std::int64_t from_last) { return from_last > image.dim() ? 1 : image.size(-from_last); };
  const ImageShape shape{.number = size(4), .channels = size(3), .height = size(2), .width = size(1)};
  if (shape.channels != 1 && shape.channels != 3 && shape.channels != 4) {
    const bool channels_last = image.size(-1) == 3 || image.size(-1) == 4;
    refuse(channels_last ? ". Its channels seem to be last: permute() it first." : "");
  }
  if (!image.is_floating_point() && image.scalar_type() != at::kByte)
    refuse(". Convert it with to(torch::kFloat), and scale it.");
  if (image.numel() == 0) refuse(", and this one has no pixels");
  return shape;
}

void check_table(const Table& table, const ItemCall& call) {
  for (const std::vector<Value>& row : table.rows) {
    const auto number = static_cast<std::size_t>(&row - table.rows.data());
    if (row.size() != table.columns.size()) {
      call.misuse(format("row {} has {}, but there {}", number, counted(row.size(), "cell"),
                         table.columns.size() == 1 ? "is 1 column" : format("are {} columns", table.columns.size())));
    }
    if (std::ranges::any_of(row, [](const Value& cell) { return cell.is_list() || cell.is_map(); }))
      call.misuse(format("row {} has a cell that is a list or a map; a cell is a number, a text, true, false or null", number));
  }
}

void check_figure(const Figure& figure, const ItemCall& call) {
  const bool is_map = figure.kind == FigureKind::kHeatMap;
  if (figure.series.empty()) call.misuse("it has nothing to draw");
  for (const Figure::Series& series : figure.series) {
    const auto refuse = [&](const std::string& why) {
      call.misuse(series.name.empty() ? why : format("{}: {}", quoted_text(series.name), why));
    };
    const auto check = [&](const at::Tensor& numbers) {
      if (!numbers.defined() || numbers.layout() != at::kStrided || numbers.is_complex() || numbers.dim() != (is_map ? 2 : 1))
        refuse(
            format("got {}; it takes a dense tensor of real numbers [{}]", kind_of(numbers), is_map ? "rows, columns" : "N"));
    };
    check(series.y);
    if (series.x.defined()) check(series.x);
    if (series.x.defined() && series.x.numel() != series.y.numel())
      refuse(format("it has {} x, but {} y", series.x.numel(), series.y.numel()));
    const auto columns = static_cast<std::int64_t>(figure.columns.size());
    if (figure.kind != FigureKind::kLines && columns > 0 && series.y.size(-1) != columns)
      refuse(format("names of columns: {} are given for {}", columns, series.y.size(-1)));
    const auto rows = static_cast<std::int64_t>(figure.rows.size());
    if (is_map && rows > 0 && series.y.size(0) != rows)
      refuse(format("names of rows: {} are given for {}", rows, series.y.size(0)));
  }
}

std::vector<double> plain_numbers(const at::Tensor& tensor) {
  const at::Tensor wide = tensor.to(at::kDouble).contiguous();
  const auto numbers = numbers_of<double>(wide);
  return {numbers.begin(), numbers.end()};
}

WaitingItem waiting_with(decltype(LoggedItem::content) content, std::function<void(LoggedItem&)> complete = {},
                         std::size_t bytes = 0) {
  WaitingItem waiting;
  waiting.item.content = std::move(content);
  waiting.complete = std::move(complete);
  waiting.bytes = bytes;
  return waiting;
}

/// Gives an item of this run to its loggers. `prepare`: checks what it is, and gives it.
template <class Prepare>
void give_item(const Trainer& trainer, const ItemCall& call, const Prepare& prepare) {
  TrainerState& run = TrainerState::of(trainer);
  check_call(run, call);
  WaitingItem waiting = prepare();
  if (!is_shown(run)) return;
  waiting.item.name = call.name;
  waiting.item.step = step_of(run.progress, run.tracker.hook());
  waiting.item.epoch = run.progress.epoch;
  waiting.item.rank = run.strategy().rank();
  run.items.give(std::move(waiting));
}

}  // namespace

// What a module calls to show something beside numbers.

void Module::log_image(std::string_view name, const at::Tensor& image, SourceLocation where) {
  const ItemCall call{"log_image", name, where};
  if (ModuleAttachment::metrics(*this, name, where, call.function) == nullptr) return;
  give_item(*attachment_.trainer, call, [&]() -> WaitingItem {
    const ImageShape shape = shape_of(image, call);
    const bool is_bytes = image.scalar_type() == at::kByte;
    const TensorCopy copy(image, is_bytes ? at::kByte : at::kFloat);
    const auto encode = [shape, is_bytes, copy](LoggedItem& item) {
      const at::Tensor pixels = copy.on_host();
      item.content =
          is_bytes ? encode_png(numbers_of<std::uint8_t>(pixels), shape) : encode_png(numbers_of<float>(pixels), shape);
    };
    return waiting_with(LoggedImage(), encode, copy.bytes());
  });
}

void Module::log_histogram(std::string_view name, const at::Tensor& values, SourceLocation where) {
  const ItemCall call{"log_histogram", name, where};
  if (ModuleAttachment::metrics(*this, name, where, call.function) == nullptr) return;
  give_item(*attachment_.trainer, call, [&]() -> WaitingItem {
    if (!values.defined() || values.layout() != at::kStrided || values.is_complex())
      call.misuse(format("got {}; it takes a dense tensor of real numbers", kind_of(values)));
    // A float holds what the narrower types do.
    const bool is_wide = values.scalar_type() == at::kDouble || !values.is_floating_point();
    const TensorCopy copy(values, is_wide && !values.is_mps() ? at::kDouble : at::kFloat);
    const auto count = [copy](LoggedItem& item) {
      const at::Tensor numbers = copy.on_host();
      item.content = numbers.scalar_type() == at::kDouble ? histogram_of(numbers_of<double>(numbers))
                                                          : histogram_of(numbers_of<float>(numbers));
    };
    return waiting_with(LoggedHistogram(), count, copy.bytes());
  });
}

void Module::log_figure(std::string_view name, Figure figure, SourceLocation where) {
  const ItemCall call{"log_figure", name, where};
  if (ModuleAttachment::metrics(*this, name, where, call.function) == nullptr) return;
  give_item(*attachment_.trainer, call, [&]() -> WaitingItem {
    check_figure(figure, call);
    LoggedFigure logged;
    logged.kind = figure.kind;
    logged.title = std::move(figure.title);
    logged.x_label = std::move(figure.x_label);
    logged.y_label = std::move(figure.y_label);
    logged.columns = std::move(figure.columns);
    logged.rows = std::move(figure.rows);
    if (figure.kind == FigureKind::kHeatMap) logged.width = static_cast<std::size_t>(figure.series.front().y.size(1));
    std::vector<std::array<std::optional<TensorCopy>, 2>> numbers;
    std::size_t bytes = 0;
    for (Figure::Series& series : figure.series) {
      logged.series.push_back({std::move(series.name), {}});
      auto& [y, x] = numbers.emplace_back();
      bytes += y.emplace(series.y, series.y.scalar_type()).bytes();
      if (series.x.defined()) bytes += x.emplace(series.x, series.x.scalar_type()).bytes();
    }
    const auto draw = [numbers = std::move(numbers)](LoggedItem& item) {
      auto& drawn = std::get<LoggedFigure>(item.content);
      for (std::size_t index = 0; index < numbers.size(); ++index) {
        const auto& [y, x] = numbers[index];
        drawn.series[index].y = plain_numbers(y->on_host());
        if (x) drawn.series[index].x = plain_numbers(x->on_host());
      }
      drawn.image = draw_figure(drawn);
    };
    return waiting_with(std::move(logged), draw, bytes);
  });
}

void Module::log_text(std::string_view name, std::string text, SourceLocation where) {
  const ItemCall call{"log_text", name, where};
  if (ModuleAttachment::metrics(*this, name, where, call.function) == nullptr) return;
  give_item(*attachment_.trainer, call, [&]() -> WaitingItem { return waiting_with(LoggedText{std::move(text)}); });
}

void Module::log_table(std::string_view name, Table table, SourceLocation where) {
  const ItemCall call{"log_table", name, where};
  if (ModuleAttachment::metrics(*this, name, where, call.function) == nullptr) return;
  give_item(*attachment_.trainer, call, [&]() -> WaitingItem {
    check_table(table, call);
    return waiting_with(std::move(table));
  });
}

void Module::log_file(std::string_view name, const fs::path& file, SourceLocation where) {
  const ItemCall call{"log_file", name, where};
  if (ModuleAttachment::metrics(*this, name, where, call.function) == nullptr) return;
  give_item(*attachment_.trainer, call, [&]() -> WaitingItem {
    std::error_code error;
    if (!fs::is_regular_file(file, error)) {
      throw IoError(format("{}: log_file({}): there is no file {}", call.where.str(), quoted_text(name), file));
    }
    return waiting_with(LoggedFile{fs::absolute(file)});
  });
}

}  // namespace levin
