#include "levin/callbacks/prediction_writer.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/batch.h"
#include "levin/core/callback.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/column_file.h"
#include "levin/core/files/csv_text.h"
#include "levin/core/files/paths.h"
#include "levin/core/module.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/trainer.h"

namespace levin {

namespace {

namespace fs = std::filesystem;

fs::path with_ending(fs::path stem, const std::string& ending) { return stem += ending; }

/// One block of memory in row-major order on the CPU.
at::Tensor plain(const at::Tensor& tensor) { return tensor.detach().resolve_conj().resolve_neg().to(at::kCPU).contiguous(); }

/// Shortest text that reads back to the same number of this type.
template <class Number>
void append_number(std::string& text, Number number) {
  if constexpr (std::is_floating_point_v<Number>) {
    if (std::isnan(number)) {
      text += "NaN";  // as in metrics.csv
      return;
    }
  }
  std::array<char, 32> buffer;
  text.append(buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr);
}

/// A number of each row, or a text.
struct RowColumn {
  std::string header;
  at::Tensor values;
  const std::vector<std::string>* texts = nullptr;  ///< for which the numbers stand

  void append(std::string& line, std::int64_t row) const {
    if (texts != nullptr) {
      const std::int64_t number = values.const_data_ptr<std::int64_t>()[row];
      if (number >= 0 && number < std::ssize(*texts)) append_csv_text(line, (*texts)[static_cast<std::size_t>(number)]);
      return;
    }
    if (values.scalar_type() == at::kLong) return append_number(line, values.const_data_ptr<std::int64_t>()[row]);
    if (values.scalar_type() == at::kDouble) return append_number(line, values.const_data_ptr<double>()[row]);
    append_number(line, values.const_data_ptr<float>()[row]);
  }
};

/// One column, or as many as rows have numbers.
void add_columns(std::vector<RowColumn>& columns, const std::string& name, const at::Tensor& tensor) {
  const bool is_vector = tensor.dim() > 1 && tensor.numel() != tensor.size(0);
  const at::Tensor rows =
      tensor.reshape({tensor.size(0), is_vector ? tensor.numel() / std::max<std::int64_t>(1, tensor.size(0)) : 1});
  const at::ScalarType type = !rows.is_floating_point()           ? at::kLong
                              : rows.scalar_type() == at::kDouble ? at::kDouble
                                                                  : at::kFloat;
  for (std::int64_t column = 0; column < rows.size(1); ++column)
    columns.push_back({is_vector ? format("{}_{}", name, column) : name, plain(rows.select(1, column).to(type))});
}

/// `names`: those of the samples, for a first column "name"; empty: they have none. `classes`: the texts of "label", which then
/// has a column "class" beside it.
std::vector<RowColumn> columns_of(const std::vector<Batch::Item>& items, const std::vector<std::string>& names,
                                  const std::vector<std::string>& classes) {
  const auto has = [&](const char* column) {
    return std::ranges::any_of(items, [&](const Batch::Item& item) { return item.first == column; });
  };
  std::vector<RowColumn> columns;
  if (!names.empty() && !has("name")) columns.push_back({"name", at::arange(std::ssize(names), at::kLong), &names});
  const bool has_classes = has("class");
  for (const auto& [name, tensor] : items) {
    add_columns(columns, name, tensor);
    const at::Tensor numbers = columns.back().values;
    if (!classes.empty() && !has_classes && columns.back().header == "label" && numbers.scalar_type() == at::kLong)
      columns.push_back({"class", numbers, &classes});
  }
  return columns;
}

fs::path write_csv(const fs::path& stem, const std::vector<RowColumn>& columns) {
  const fs::path path = with_ending(stem, ".csv");
  AtomicFile file(path);
  std::vector<std::string> header;
  for (const RowColumn& column : columns) header.push_back(column.header);
  file.write(csv_line(header));
  std::string line;
  for (std::int64_t row = 0; row < columns.front().values.size(0); ++row) {
    line.clear();
    for (const RowColumn& column : columns) {
      if (!line.empty()) line += ',';
      column.append(line, row);
    }
    file.write(line += '\n');
  }
  file.commit();
  return path;
}

template <class Number>
std::vector<Number> numbers_in(const at::Tensor& column) {
  return {column.const_data_ptr<Number>(), column.const_data_ptr<Number>() + column.numel()};
}

ColumnToWrite parquet_column(const RowColumn& column) {
  if (column.texts != nullptr) {
    std::vector<std::optional<std::string>> texts;
    for (const std::int64_t number : numbers_in<std::int64_t>(column.values)) {
      const bool is_known = number >= 0 && number < std::ssize(*column.texts);
      texts.push_back(is_known ? std::optional((*column.texts)[static_cast<std::size_t>(number)]) : std::nullopt);
    }
    return {column.header, std::move(texts)};
  }
  if (column.values.scalar_type() == at::kLong) return {column.header, numbers_in<std::int64_t>(column.values)};
  if (column.values.scalar_type() == at::kDouble) return {column.header, numbers_in<double>(column.values)};
  return {column.header, numbers_in<float>(column.values)};
}

fs::path write_parquet(const fs::path& stem, const std::vector<RowColumn>& columns) {
  const fs::path path = with_ending(stem, ".parquet");
  std::vector<ColumnToWrite> all;
  for (const RowColumn& column : columns) all.push_back(parquet_column(column));
  write_file(path, column_format_of(path)->parquet_of(all));
  return path;
}

fs::path write_npy(const fs::path& path, const at::Tensor& tensor) {
  // bfloat16, which NumPy does not have, is written as float32.
  static const std::map<at::ScalarType, const char*> types{{at::kBool, "|b1"},  {at::kByte, "|u1"},  {at::kChar, "|i1"},
                                                           {at::kShort, "<i2"}, {at::kInt, "<i4"},   {at::kLong, "<i8"},
                                                           {at::kHalf, "<f2"},  {at::kFloat, "<f4"}, {at::kDouble, "<f8"}};
  const at::Tensor values = plain(types.contains(tensor.scalar_type()) ? tensor : tensor.to(at::kFloat));
  std::string shape;
  for (const std::int64_t size : values.sizes()) shape += format("{}, ", size);
  if (values.dim() > 1) shape.resize(shape.size() - 2);
  std::string header =
      format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", types.at(values.scalar_type()), shape);
  constexpr std::size_t kAlignment = 64;
  constexpr std::size_t kMagic = 10;  // with version and length
  while ((kMagic + header.size() + 1) % kAlignment != 0) header += ' ';
  header += '\n';
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(header.size() % 256);
  head += static_cast<char>(header.size() / 256);
  AtomicFile file(path);
  file.write(head + header);
  file.write({static_cast<const char*>(values.const_data_ptr()), static_cast<std::size_t>(values.nbytes())});
  file.commit();
  return path;
}

/// Writes tensors with a row for each sample, and gives the files: one, or of several arrays in .npy one for each.
std::vector<fs::path> write_predictions(const fs::path& stem, PredictionFormat format_of_files,
                                        const std::vector<Batch::Item>& columns, const std::vector<std::string>& names,
                                        const std::vector<std::string>& classes) {
  if (format_of_files == PredictionFormat::kCsv) return {write_csv(stem, columns_of(columns, names, classes))};
  if (format_of_files == PredictionFormat::kParquet) return {write_parquet(stem, columns_of(columns, names, classes))};
  if (format_of_files == PredictionFormat::kSafetensors) {
    Checkpoint tensors;
    for (const auto& [name, tensor] : columns) tensors.tensors[name] = tensor;
    const fs::path path = with_ending(stem, ".safetensors");
    tensors.save(path);
    return {path};
  }
  std::vector<fs::path> files;
  for (const auto& [name, tensor] : columns) {
    files.push_back(write_npy(with_ending(stem, columns.size() == 1 ? ".npy" : format("-{}.npy", name)), tensor));
  }
  return files;
}

/// The tensors with names for all: "prediction", or "prediction_0" and so on when several have none.
std::vector<Batch::Item> named(const Batch& prediction) {
  std::vector<Batch::Item> items = prediction.items();
  const auto unnamed = std::count_if(items.begin(), items.end(), [](const auto& item) { return item.first.empty(); });
  int next = 0;
  for (auto& [name, tensor] : items) {
    if (name.empty()) name = unnamed == 1 ? "prediction" : format("prediction_{}", next++);
  }
  return items;
}

void check_rows(const std::vector<Batch::Item>& items, std::int64_t samples) {
  for (const auto& [name, tensor] : items) {
    if (tensor.defined() && tensor.dim() > 0 && tensor.size(0) == samples) continue;
    std::ostringstream shape;
    if (tensor.defined()) shape << tensor.sizes();
    throw MisuseError(format(
        "PredictionWriter: predict_step gave {} of shape {} for a batch of {}: it writes one row for each sample. "
        "Return such rows, or set trainer.enable_prediction_writer to false and use what predict_step "
        "gives in on_predict_batch_end.",
        quoted_text(name), tensor.defined() ? shape.str() : "undefined", counted(static_cast<std::size_t>(samples), "sample")));
  }
}

/// What all ranks' predictions are called; a rank without a batch cannot know. Ranks: all.
std::vector<std::string> names_on_all_ranks(Trainer& trainer, const std::vector<std::vector<Batch::Item>>& batches) {
  std::string mine;
  for (const auto& [name, tensor] : batches.empty() ? std::vector<Batch::Item>() : batches.front()) mine += name + '\0';
  const std::vector<std::string> all =
      RankExchange(trainer.strategy().control_group())
          .gather_text(mine, {"PredictionWriter: names of predictions", "all have the same callbacks"});
  const auto first = std::find_if(all.begin(), all.end(), [](const std::string& names) { return !names.empty(); });
  if (first == all.end()) return {};
  if (std::any_of(all.begin(), all.end(), [&](const auto& names) { return !names.empty() && names != *first; })) {
    throw MisuseError("PredictionWriter: predict_step gives other names on some ranks than on others.");
  }
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < first->size(); begin = first->find('\0', begin) + 1)
    names.emplace_back(first->c_str() + begin);
  return names;
}

}  // namespace

LEVIN_REGISTER_CALLBACK(PredictionWriter, "Write predictions to files");

void PredictionWriterOptions::declare(OptionList<PredictionWriterOptions>& options) {
  using O = PredictionWriterOptions;
  options.add(&O::dirpath, "Folder to write to; null: the logger's folder, or default_root_dir");
  options.add(&O::filename, "Name of the file, without .csv and the like").not_empty();
  options.add(&O::format, "What the file is");
  options.add(
      &O::write_interval,
      "One file of all predictions at the end (epoch), one for each batch (batch: for more than memory holds), or both");
  options.rule({"filename"}, [](const O& writer) -> std::string {
    if (!leaves_folder(writer.filename)) return "";
    return levin::format("filename is {}, which leads out of the folder: say with dirpath where to write",
                         quoted_text(writer.filename));
  });
}

void PredictionWriter::on_predict_start(Trainer& trainer, Module&) {
  // What is missing is told before anything is computed.
  if (options_.format == PredictionFormat::kParquet) column_format_of("predictions.parquet")->require();
  folder_ = expand_home(options_.dirpath.value_or(trainer.log_dir()));
  kept_.assign(trainer.num_evaluation_batches().size(), {});
  written_.clear();
  classes_ = trainer.data_module() == nullptr ? std::vector<std::string>() : trainer.data_module()->facts().class_names;
}

void PredictionWriter::on_predict_batch_end(Trainer& trainer, Module&, const Batch& prediction, const Batch& batch,
                                            std::int64_t batch_idx, std::int64_t dataloader_idx) {
  if (trainer.options().fast_dev_run || prediction.empty()) return;
  std::vector<Batch::Item> items = named(prediction);
  check_rows(items, batch.batch_size());
  for (auto& [name, tensor] : items) tensor = tensor.detach().to(at::kCPU);
  if (writes_epoch()) {
    auto& batches = kept_[static_cast<std::size_t>(dataloader_idx)];
    const auto name_of = [](const std::vector<Batch::Item>& one) {
      return join(one, ", ", [](const Batch::Item& item) { return item.first; });
    };
    if (!batches.empty() && name_of(batches.front()) != name_of(items)) {
      throw MisuseError(
          format("PredictionWriter: predict_step gave {} for batch {}, and {} for the first: every batch needs the same names.",
                 name_of(items), batch_idx, name_of(batches.front())));
    }
    batches.push_back(items);
  }
  if (!writes_batches()) return;
  std::vector<std::string> names;
  if (const auto samples = samples_of_batch(trainer)) {
    names = names_of_samples(trainer, *samples, dataloader_idx);
    items.insert(items.begin(), {"sample", at::tensor(*samples, at::kLong)});
  }
  const std::filesystem::path folder = folder_ / options_.filename;
  write_predictions(folder / format("loader_{}-rank_{}-batch_{}", dataloader_idx, trainer.rank(), batch_idx), options_.format,
                    items, names, classes_);
  if (written_.empty()) written_.push_back(as_typed(folder) + "/");
}

void PredictionWriter::on_predict_epoch_end(Trainer& trainer, Module& module) {
  if (trainer.options().fast_dev_run || !writes_epoch()) return;
  for (std::size_t index = 0; index < kept_.size(); ++index) write_epoch(trainer, module, index);
}

void PredictionWriter::on_predict_end(Trainer& trainer, Module&) {
  if (trainer.options().fast_dev_run) return;
  if (!written_.empty()) {
    rank_zero_info("predictions: ", join(written_));
  } else if (writes_epoch()) {
    rank_zero_warn("PredictionWriter: predict_step returned nothing, so no predictions are written.");
  }
}

/// For the rank that writes; empty on others, and where samples have none, or files no texts. Ranks: all.
std::vector<std::string> PredictionWriter::names_of_rows(const Trainer& trainer, std::int64_t dataloader_idx,
                                                         const std::vector<Batch::Item>& columns) const {
  if (options_.format != PredictionFormat::kCsv && options_.format != PredictionFormat::kParquet) return {};
  const std::vector<std::int64_t> samples = samples_of_gathered_rows(trainer, dataloader_idx);
  if (!trainer.is_global_zero() || std::ssize(samples) != columns.front().second.size(0)) return {};
  return names_of_samples(trainer, samples, dataloader_idx);
}

void PredictionWriter::write_epoch(Trainer& trainer, Module& module, std::size_t dataloader_idx) {
  const auto batches = std::move(kept_[dataloader_idx]);
  std::vector<Batch::Item> columns;
  const std::vector<std::string> names = names_on_all_ranks(trainer, batches);
  for (std::size_t position = 0; position < names.size(); ++position) {
    std::vector<at::Tensor> rows;
    for (const auto& items : batches) rows.push_back(items[position].second);
    columns.emplace_back(names[position], module.gather_for_metrics(rows, static_cast<std::int64_t>(dataloader_idx)));
  }
  if (columns.empty()) return;
  const std::vector<std::string> sample_names = names_of_rows(trainer, static_cast<std::int64_t>(dataloader_idx), columns);
  if (!trainer.is_global_zero()) return;
  const std::string name = kept_.size() == 1 ? options_.filename : format("{}-{}", options_.filename, dataloader_idx);
  for (const auto& file : write_predictions(folder_ / name, options_.format, columns, sample_names, classes_)) {
    written_.push_back(
        format("{} ({})", as_typed(file), counted(static_cast<std::size_t>(columns.front().second.size(0)), "sample")));
  }
}

}  // namespace levin
