#include "levin/columns/arrow/arrow_files.h"

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/chunked_array.h>
#include <arrow/io/file.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/util/key_value_metadata.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <map>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "levin/columns/arrow/column_values.h"
#include "levin/core/base/format.h"

namespace levin::arrow_files {
namespace {

using Source = std::shared_ptr<arrow::io::RandomAccessFile>;

/// The columns that pandas made of an index, by what it writes about them into a file.
std::set<std::string> index_columns(const arrow::Schema& schema) {
  std::set<std::string> names;
  if (schema.metadata() == nullptr) return names;
  const int place = schema.metadata()->FindKey("pandas");
  if (place < 0) return names;
  const auto pandas = nlohmann::json::parse(schema.metadata()->value(place), nullptr, /*allow_exceptions=*/false);
  if (!pandas.is_object() || !pandas.contains("index_columns") || !pandas["index_columns"].is_array()) return names;
  // A range is described, and has no column.
  for (const auto& column : pandas["index_columns"])
    if (column.is_string()) names.insert(column.get<std::string>());
  return names;
}

std::vector<ColumnInfo> infos_of(const arrow::Schema& schema) {
  const std::set<std::string> indices = index_columns(schema);
  std::vector<ColumnInfo> infos;
  for (const auto& field : schema.fields()) {
    infos.push_back(info_of(*field->type()));
    infos.back().name = field->name();
    infos.back().is_index = indices.contains(field->name());
  }
  return infos;
}

/// Memory within bounds. Pools are never given back: Arrow's threads may end their work on a file after it is closed.
arrow::MemoryPool* pool_within(std::int64_t most_bytes) {
  static std::mutex mutex;
  static auto& pools = *new std::map<std::int64_t, arrow::CappedMemoryPool>();
  const std::lock_guard lock(mutex);
  return &pools.try_emplace(most_bytes, arrow::default_memory_pool(), most_bytes).first->second;
}

/// What Parquet and Arrow files have in common: memory within bounds, and where a group's rows begin.
class File : public ColumnFile {
 public:
  explicit File(std::int64_t most_bytes) : most_bytes_(most_bytes), pool_(pool_within(most_bytes)) {}
  const std::vector<ColumnInfo>& columns() const override { return columns_; }
  std::int64_t row_groups() const override { return static_cast<std::int64_t>(rows_.size()); }
  std::int64_t rows(std::int64_t group) const override { return rows_.at(static_cast<std::size_t>(group)); }
  ColumnData read(std::int64_t group, std::size_t column, const ColumnReading& reading) override {
    std::int64_t first_row = 0;
    for (std::int64_t before = 0; before < group; ++before) first_row += rows(before);
    const std::shared_ptr<arrow::ChunkedArray> values = array_of(group, column);
    if (values->length() != rows(group)) {
      throw std::runtime_error(
          levin::format("column {} has {} values in a group of {} rows", column, values->length(), rows(group)));
    }
    try {
      return values_of(*values, reading, first_row, most_bytes_);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(levin::format("column '{}', {}", columns_[column].name, error.what()));
    }
  }

 protected:
  virtual std::shared_ptr<arrow::ChunkedArray> array_of(std::int64_t group, std::size_t column) = 0;
  void add_group(std::int64_t rows) {
    std::int64_t all = rows;
    for (const std::int64_t before : rows_)
      if (__builtin_add_overflow(all, before, &all)) rows = -1;
    if (rows < 0) throw std::runtime_error("its number of rows is absurd");
    rows_.push_back(rows);
  }
  arrow::MemoryPool* pool() { return pool_; }

  std::vector<ColumnInfo> columns_;

 private:
  std::int64_t most_bytes_;
  arrow::MemoryPool* pool_;
  std::vector<std::int64_t> rows_;
};

class ParquetFile final : public File {
 public:
  ParquetFile(const Source& source, std::int64_t most_bytes) : File(most_bytes) {
    parquet::arrow::FileReaderBuilder builder;
    check(builder.Open(source, parquet::ReaderProperties(pool())));
    parquet::ArrowReaderProperties properties;
    properties.set_use_threads(false);
    properties.set_pre_buffer(false);
    check(builder.memory_pool(pool())->properties(properties)->Build(&reader_));
    std::shared_ptr<arrow::Schema> schema;
    check(reader_->GetSchema(&schema));
    columns_ = infos_of(*schema);
    const auto metadata = reader_->parquet_reader()->metadata();
    for (int group = 0; group < metadata->num_row_groups(); ++group) add_group(metadata->RowGroup(group)->num_rows());
  }
  bool reads_groups_alone() const override { return true; }

 private:
  std::shared_ptr<arrow::ChunkedArray> array_of(std::int64_t group, std::size_t column) override {
    std::shared_ptr<arrow::ChunkedArray> values;
    check(reader_->RowGroup(static_cast<int>(group))->Column(static_cast<int>(column))->Read(&values));
    return values;
  }

  std::unique_ptr<parquet::arrow::FileReader> reader_;
};

arrow::ipc::IpcReadOptions ipc_options(arrow::MemoryPool* pool) {
  arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
  options.memory_pool = pool;
  options.use_threads = false;
  return options;
}

/// Arrow's file format, which Feather is.
class ArrowFile final : public File {
 public:
  ArrowFile(const Source& source, std::int64_t most_bytes) : File(most_bytes) {
    reader_ = value_of(arrow::ipc::RecordBatchFileReader::Open(source, ipc_options(pool())));
    columns_ = infos_of(*reader_->schema());
    for (int group = 0; group < reader_->num_record_batches(); ++group) add_group(batch(group)->num_rows());
  }

 private:
  std::shared_ptr<arrow::ChunkedArray> array_of(std::int64_t group, std::size_t column) override {
    return std::make_shared<arrow::ChunkedArray>(batch(static_cast<int>(group))->column(static_cast<int>(column)));
  }
  /// A batch is read as a whole, once for all of its columns.
  const std::shared_ptr<arrow::RecordBatch>& batch(int group) {
    if (group_ != group) {
      batch_ = value_of(reader_->ReadRecordBatch(group));
      check(batch_->Validate());
      group_ = group;
    }
    return batch_;
  }

  std::shared_ptr<arrow::ipc::RecordBatchFileReader> reader_;
  std::shared_ptr<arrow::RecordBatch> batch_;
  int group_ = -1;
};

/// Arrow's stream format, in which Hugging Face's datasets are stored. Only reading says where its batches are: all stay.
class ArrowStream final : public File {
 public:
  ArrowStream(const Source& source, std::int64_t most_bytes) : File(most_bytes) {
    const auto reader = value_of(arrow::ipc::RecordBatchStreamReader::Open(source, ipc_options(pool())));
    columns_ = infos_of(*reader->schema());
    for (;;) {
      std::shared_ptr<arrow::RecordBatch> batch;
      check(reader->ReadNext(&batch));
      if (batch == nullptr) return;
      check(batch->Validate());
      add_group(batch->num_rows());
      batches_.push_back(std::move(batch));
    }
  }

 private:
  std::shared_ptr<arrow::ChunkedArray> array_of(std::int64_t group, std::size_t column) override {
    return std::make_shared<arrow::ChunkedArray>(
        batches_.at(static_cast<std::size_t>(group))->column(static_cast<int>(column)));
  }

  std::vector<std::shared_ptr<arrow::RecordBatch>> batches_;
};

std::unique_ptr<ColumnFile> open_source(const Source& source, std::int64_t most_bytes) {
  constexpr std::int64_t kLongest = 6;
  const auto first = value_of(source->ReadAt(0, kLongest));
  const std::string_view begin(reinterpret_cast<const char*>(first->data()), static_cast<std::size_t>(first->size()));
  check(source->Seek(0));
  if (begin.starts_with("PAR1") || begin.starts_with("PARE")) return std::make_unique<ParquetFile>(source, most_bytes);
  if (begin.starts_with("ARROW1")) return std::make_unique<ArrowFile>(source, most_bytes);
  if (begin.starts_with("FEA1")) {
    throw std::runtime_error("it is a Feather file of version 1: write it again, with the to_feather() of a pandas of today");
  }
  if (begin.starts_with(std::string_view("\xFF\xFF\xFF\xFF", 4))) return std::make_unique<ArrowStream>(source, most_bytes);
  throw std::runtime_error("it is neither a Parquet nor an Arrow (Feather) file, or its beginning is damaged");
}

/// The same file, whose functions throw nothing but std::runtime_error and std::invalid_argument.
template <class Step>
auto with_plain_errors(const Step& step) {
  try {
    return step();
  } catch (const std::invalid_argument&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw std::runtime_error("there is not enough memory for it");
  } catch (const std::exception& error) {  // parquet's
    throw std::runtime_error(error.what());
  }
}

class GuardedFile final : public ColumnFile {
 public:
  explicit GuardedFile(std::unique_ptr<ColumnFile> file) : file_(std::move(file)) {}
  const std::vector<ColumnInfo>& columns() const override { return file_->columns(); }
  std::int64_t row_groups() const override { return file_->row_groups(); }
  std::int64_t rows(std::int64_t group) const override { return file_->rows(group); }
  bool reads_groups_alone() const override { return file_->reads_groups_alone(); }
  ColumnData read(std::int64_t group, std::size_t column, const ColumnReading& reading) override {
    return with_plain_errors([&] { return file_->read(group, column, reading); });
  }

 private:
  std::unique_ptr<ColumnFile> file_;
};

std::unique_ptr<ColumnFile> open(const std::string& path, std::int64_t most_bytes) {
  return with_plain_errors([&] {
    return std::unique_ptr<ColumnFile>(
        std::make_unique<GuardedFile>(open_source(value_of(arrow::io::ReadableFile::Open(path)), most_bytes)));
  });
}

std::unique_ptr<ColumnFile> open_memory(std::span<const std::byte> file, std::int64_t most_bytes) {
  return with_plain_errors([&] {
    const auto buffer = arrow::Buffer::FromString(std::string(reinterpret_cast<const char*>(file.data()), file.size()));
    return std::unique_ptr<ColumnFile>(
        std::make_unique<GuardedFile>(open_source(std::make_shared<arrow::io::BufferReader>(buffer), most_bytes)));
  });
}

// Writing.

template <class Builder, class Number>
std::shared_ptr<arrow::Array> array_of(const std::vector<Number>& numbers) {
  Builder builder;
  check(builder.AppendValues(numbers));
  return value_of(builder.Finish());
}
std::shared_ptr<arrow::Array> array_of(const std::vector<std::optional<std::string>>& texts) {
  arrow::StringBuilder builder;
  for (const auto& text : texts) check(text ? builder.Append(*text) : builder.AppendNull());
  return value_of(builder.Finish());
}
std::shared_ptr<arrow::Array> array_of(const std::vector<double>& numbers) { return array_of<arrow::DoubleBuilder>(numbers); }
std::shared_ptr<arrow::Array> array_of(const std::vector<float>& numbers) { return array_of<arrow::FloatBuilder>(numbers); }
std::shared_ptr<arrow::Array> array_of(const std::vector<std::int64_t>& numbers) {
  return array_of<arrow::Int64Builder>(numbers);
}

std::string parquet_of(const std::vector<ColumnToWrite>& columns) {
  return with_plain_errors([&] {
    std::vector<std::shared_ptr<arrow::Field>> fields;
    std::vector<std::shared_ptr<arrow::Array>> arrays;
    for (const ColumnToWrite& column : columns) {
      arrays.push_back(std::visit([](const auto& values) { return array_of(values); }, column.values));
      fields.push_back(arrow::field(column.name, arrays.back()->type()));
    }
    const auto table = arrow::Table::Make(arrow::schema(fields), arrays);
    const auto sink = value_of(arrow::io::BufferOutputStream::Create());
    constexpr std::int64_t kRowsInGroup = 1 << 20;
    parquet::WriterProperties::Builder properties;
    properties.compression(parquet::Compression::SNAPPY);
    check(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), sink, kRowsInGroup, properties.build()));
    return value_of(sink->Finish())->ToString();
  });
}

constexpr ArrowFiles kFiles = {.open = open, .open_memory = open_memory, .parquet_of = parquet_of};

}  // namespace
}  // namespace levin::arrow_files

extern "C" const levin::ArrowFiles* levin_arrow_files() { return &levin::arrow_files::kFiles; }
