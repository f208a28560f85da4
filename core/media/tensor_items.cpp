#include "levin/core/media/tensor_items.h"

#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/device_copies.h"
#include "levin/core/media/draw_figure.h"
#include "levin/core/media/histogram.h"
#include "levin/core/media/png_image.h"

namespace levin {

namespace {

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
    const c10::StreamGuard guard(stream_);  // earlier work on the stream is done before
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

}  // namespace

void ItemCall::misuse(const std::string& why) const {
  throw MisuseError(format("{}: {}({}): {}", where.str(), function, quoted_text(name), why));
}

WaitingItem image_item(const at::Tensor& image, const ItemCall& call) {
  const ImageShape shape = shape_of(image, call);
  const bool is_bytes = image.scalar_type() == at::kByte;
  const TensorCopy copy(image, is_bytes ? at::kByte : at::kFloat);
  const auto encode = [shape, is_bytes, copy](LoggedItem& item) {
    const at::Tensor pixels = copy.on_host();
    item.content =
        is_bytes ? encode_png(numbers_of<std::uint8_t>(pixels), shape) : encode_png(numbers_of<float>(pixels), shape);
  };
  return waiting_with(LoggedImage(), encode, copy.bytes());
}

WaitingItem histogram_item(const at::Tensor& values, const ItemCall& call) {
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
}

WaitingItem figure_item(Figure figure, const ItemCall& call) {
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
}

WaitingItem text_item(std::string text) { return waiting_with(LoggedText{std::move(text)}); }

WaitingItem table_item(Table table, const ItemCall& call) {
  check_table(table, call);
  return waiting_with(std::move(table));
}

}  // namespace levin
