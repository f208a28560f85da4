#include "levin/data/table_part.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/tensor.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/data/data_loader.h"
#include "levin/data/dataset.h"
#include "levin/data/random_parts.h"
#include "levin/data/reading_options.h"
#include "levin/data/row_blocks.h"
#include "levin/data/stream.h"
#include "levin/data/table_reader.h"
#include "levin/data/table_warnings.h"

namespace levin::detail {

TablePart::~TablePart() = default;

namespace {

// In memory.

/// A table, known by what its file holds: what is computed from that may differ in its last bit between processors.
class TableDataset final : public Dataset {
 public:
  TableDataset(Batch computed, const Batch& read, const LabelledTable& table)
      : computed_(std::move(computed)),
        fingerprint_(DataFingerprint().add(read).value()),
        file_(table.file),
        places_(table.places()) {}
  std::int64_t size() const override { return computed_.size(); }
  Batch get_batch(std::span<const std::int64_t> indices) const override { return computed_.get_batch(indices); }
  std::optional<std::uint64_t> fingerprint() const override { return fingerprint_; }
  /// Its line in the file, "houses.csv:7", where the rows are a selection of the file's.
  std::string sample_name(std::int64_t index) const override {
    return places_.rows.defined() ? place_in_file(file_, places_, row_as_read(places_.rows, index)) : std::string();
  }

 private:
  TensorDataset computed_;
  std::uint64_t fingerprint_;
  std::string file_;
  CsvTable places_;
};

class MemoryPart final : public TablePart {
 public:
  explicit MemoryPart(LabelledTable table) : table_(std::move(table)) {}
  const std::string& file() const override { return table_.file; }
  std::int64_t rows() const override { return table_.features.size(0); }
  LabelSummary labels() const override { return LabelSummary(table_.labels); }
  LoaderPtr loader(const TableEncoder& encoder, const TableDataOptions& options, bool is_training) const override {
    const at::Tensor encoded = encoder.encoded(table_);
    Batch batch{{"features", encoder.finished(encoded)}};
    Batch read{{"features", encoded.to(at::kFloat)}};
    if (table_.labels.defined()) {
      batch.set("label", encoder.labels(table_));
      read.set("label", options.task == TableTask::kRegression ? table_.labels : batch["label"]);
    }
    return DataLoader(std::make_shared<TableDataset>(std::move(batch), read, table_),
                      is_training ? training_options(options) : reading_options(options));
  }

 private:
  LabelledTable table_;
};

// As a stream.

constexpr std::uint8_t kTrain = 0;
constexpr std::uint8_t kLeftOut = 255;

/// The part of each row of a table; null: all are of the first.
using PartOfRow = std::shared_ptr<const std::vector<std::uint8_t>>;

/// The rows of a group for which this is so, by their numbers in it.
template <class Wanted>
at::Tensor rows_where(const StreamedTable::Group& group, const PartOfRow& parts, const Wanted& wanted) {
  if (!parts) return at::arange(group.rows, at::kLong);
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < group.rows; ++row)
    if (wanted((*parts)[static_cast<std::size_t>(group.first + row)])) rows.push_back(row);
  return at::tensor(rows, at::kLong);
}

at::Tensor rows_of_part(const StreamedTable::Group& group, const PartOfRow& parts, std::uint8_t part) {
  return rows_where(group, parts, [part](std::uint8_t of_row) { return of_row == part; });
}

class StreamPart final : public TablePart {
 public:
  /// `is_checked`: wrong values among its rows have been told.
  StreamPart(std::shared_ptr<const StreamedTable> table, PartOfRow parts, std::uint8_t part, LabelSummary labels,
             bool is_checked = true)
      : source_(std::make_shared<Source>(Source{std::move(table), std::move(parts), part, {}, {}})),
        labels_(std::move(labels)) {
    if (!is_checked) source_->told_wrong_values = std::make_shared<std::atomic_flag>();
    const std::vector<StreamedTable::Group>& groups = source_->table->groups();
    for (std::size_t group = 0; group < groups.size(); ++group) {
      const std::int64_t rows = source_->wanted(group).numel();
      if (rows == 0) continue;
      source_->groups.push_back(group);
      rows_of_groups_.push_back(rows);
      rows_ += rows;
    }
  }
  const std::string& file() const override { return source_->table->name(); }
  std::int64_t rows() const override { return rows_; }
  LabelSummary labels() const override { return labels_; }
  LoaderPtr loader(const TableEncoder& encoder, const TableDataOptions& options, bool is_training) const override {
    if (is_training && !options.sampler.empty()) {
      throw ConfigError(
          format("sampler: {} is read as a stream, since it needs more memory than max_memory_mb, and a sampler orders rows "
                 "in memory: use shuffle, or more memory",
                 file()));
    }
    const auto own_encoder = std::make_shared<const TableEncoder>(encoder);
    const auto read = [source = source_, own_encoder](std::int64_t group) { return source->read(group, *own_encoder); };
    const RowBlockOptions blocks{.shuffle = is_training && options.shuffle,
                                 .most_rows = is_training && options.shuffle ? rows_of_block(encoder, options) : 1,
                                 .threads = options.num_workers};
    const auto rows = rows_in_blocks({rows_of_groups_, read, source_->fingerprint()}, blocks);
    return stream(
        rows.batch(options.batch_size, batch_of_rows, {.drop_last = is_training && options.drop_last}),
        {.num_workers = options.num_workers, .prefetch_factor = options.prefetch_factor, .pin_memory = options.pin_memory});
  }

 private:
  /// What threads share.
  struct Source {
    std::shared_ptr<const StreamedTable> table;
    PartOfRow parts;
    std::uint8_t part;
    std::vector<std::size_t> groups;  ///< of the table, those with rows of the part
    /// Set once wrong values are told; null: they were before.
    std::shared_ptr<std::atomic_flag> told_wrong_values;

    at::Tensor wanted(std::size_t group) const { return rows_of_part(table->groups()[group], parts, part); }
    Batch read(std::int64_t number, const TableEncoder& encoder) const {
      const std::size_t group = groups[static_cast<std::size_t>(number)];
      CsvTable selected_rows = selected(table->read(group), wanted(group));
      tell_wrong_values(selected_rows, table->groups()[group]);
      const LabelledTable rows = table->take(std::move(selected_rows));
      Batch batch{{"features", encoder.finished(encoder.encoded(rows)).contiguous()}};
      if (rows.labels.defined()) batch.set("label", encoder.labels(rows).contiguous());
      return batch;
    }
    /// Of the first group that has some: to count those of all groups would need a reading of its own.
    void tell_wrong_values(const CsvTable& rows, const StreamedTable::Group& group) const {
      if (!told_wrong_values || told_wrong_values->test()) return;
      WrongValues wrong;
      wrong.add(rows, table->name());
      if (wrong.has_any() && !told_wrong_values->test_and_set())
        wrong.report(format("{}, rows {} to {}", table->name(), group.first, group.first + group.rows - 1));
    }
    std::uint64_t fingerprint() const {
      return DataFingerprint().add(static_cast<std::int64_t>(table->fingerprint())).add(std::int64_t{part}).value();
    }
  };

  /// Of three blocks that are in memory at the same time.
  static std::int64_t rows_of_block(const TableEncoder& encoder, const TableDataOptions& options) {
    constexpr double kBlocks = 3;
    const auto features = static_cast<double>(c10::multiply_integers(encoder.shape()));
    const double bytes_of_row = features * sizeof(float) + 2 * sizeof(std::int64_t);  // a label, and a place in the order
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(max_bytes(options) / kBlocks / bytes_of_row));
  }

  std::shared_ptr<Source> source_;
  std::vector<std::int64_t> rows_of_groups_;
  std::int64_t rows_ = 0;
  LabelSummary labels_;
};

/// Finds out which rows are left out because of missing values; null: none is.
std::shared_ptr<std::vector<std::uint8_t>> without_left_out(const StreamedTable& table, const TableDataOptions& options) {
  if (!options.missing.drops_rows()) return nullptr;
  auto parts = std::make_shared<std::vector<std::uint8_t>>(static_cast<std::size_t>(table.rows()), kLeftOut);
  std::int64_t remaining = 0;
  for (std::size_t group = 0; group < table.groups().size(); ++group) {
    const at::Tensor complete = table.complete_rows(table.read(group));
    const auto* const row = complete.const_data_ptr<std::int64_t>();
    for (std::int64_t place = 0; place < complete.numel(); ++place)
      (*parts)[static_cast<std::size_t>(table.groups()[group].first + row[place])] = kTrain;
    remaining += complete.numel();
  }
  if (remaining == table.rows()) return nullptr;
  tell_left_out(table.rows() - remaining, table.rows());
  return parts;
}

/// Gives the rows that are not left out their parts.
PartOfRow drawn_parts(std::shared_ptr<std::vector<std::uint8_t>> left_out, std::int64_t rows,
                      const std::vector<double>& fractions, std::int64_t seed) {
  if (fractions[0] == 1.0) return left_out;
  if (!left_out) return std::make_shared<const std::vector<std::uint8_t>>(random_parts(rows, fractions, seed));
  const auto remaining = rows - std::count(left_out->begin(), left_out->end(), kLeftOut);
  const std::vector<std::uint8_t> drawn = random_parts(remaining, fractions, seed);
  auto next = drawn.begin();
  for (std::uint8_t& part : *left_out)
    if (part != kLeftOut) part = *next++;
  return left_out;
}

constexpr std::size_t kParts = 3;

/// Reads all rows once. Returns what the labels of each part are.
std::array<LabelSummary, kParts> learn_by_groups(const StreamedTable& table, const PartOfRow& parts, TableLearner* learner) {
  std::array<LabelSummary, kParts> labels;
  WrongValues wrong;
  for (std::size_t number = 0; number < table.groups().size(); ++number) {
    const StreamedTable::Group& group = table.groups()[number];
    const at::Tensor wanted = rows_where(group, parts, [](std::uint8_t part) { return part != kLeftOut; });
    if (wanted.numel() == 0) continue;
    CsvTable read = selected(table.read(number), wanted);
    wrong.add(read, table.name());
    const LabelledTable all = table.take(std::move(read));
    for (std::size_t part = 0; part < kParts; ++part) {
      if (!parts && part != kTrain) continue;
      const at::Tensor own = rows_of_part(group, parts, static_cast<std::uint8_t>(part));
      // By their places among those that were taken, both in order.
      const at::Tensor places = at::searchsorted(wanted, own);
      const LabelledTable of_part = parts ? rows_of(all, places) : all;
      labels[part].add(of_part.labels);
      if (learner != nullptr && part == kTrain) learner->add(of_part);
    }
  }
  wrong.report(table.name());
  return labels;
}

std::vector<double> fractions_of(double val, double test) { return {1.0 - val - test, val, test}; }

}  // namespace

std::shared_ptr<const TablePart> whole_part(LabelledTable table) { return std::make_shared<MemoryPart>(std::move(table)); }

std::shared_ptr<const TablePart> whole_part(std::shared_ptr<const StreamedTable> table, const TableDataOptions& options,
                                            bool has_labels) {
  const PartOfRow parts = without_left_out(*table, options);
  if (parts && !has_labels) refuse_incomplete_rows(table->name());
  LabelSummary labels = has_labels ? learn_by_groups(*table, parts, nullptr)[kTrain] : LabelSummary();
  return std::make_shared<StreamPart>(std::move(table), parts, kTrain, std::move(labels), /*is_checked=*/has_labels);
}

TableParts divided(const LabelledTable& table, double val, double test, const TableDataOptions& options,
                   TableLearner& learner) {
  const std::vector<double> fractions = fractions_of(val, test);
  const auto whole = std::make_shared<TensorDataset>(Batch{{"label", table.labels}});
  const auto parts = random_split(whole, fractions, options.split_seed);
  const auto part_of = [&](const Subset& part) { return rows_of(table, at::tensor(part.indices(), at::kLong)); };
  // Where nothing is divided off, rows stay in the file's order, for runs that do not shuffle.
  LabelledTable train = fractions[0] < 1.0 ? part_of(*parts[0]) : table;
  learner.add(train);
  return {whole_part(std::move(train)), whole_part(part_of(*parts[1])), whole_part(part_of(*parts[2]))};
}

TableParts divided(const std::shared_ptr<const StreamedTable>& table, double val, double test, const TableDataOptions& options,
                   TableLearner& learner) {
  const PartOfRow parts =
      drawn_parts(without_left_out(*table, options), table->rows(), fractions_of(val, test), options.split_seed);
  const std::array<LabelSummary, kParts> labels = learn_by_groups(*table, parts, &learner);
  if (labels[kTrain].rows() == 0) throw ConfigError(format("{}: there is no data in it", table->name()));
  const auto part_of = [&](std::uint8_t part) { return std::make_shared<StreamPart>(table, parts, part, labels[part]); };
  if (!parts) return {part_of(kTrain), nullptr, nullptr};  // all rows are of the first
  return {part_of(kTrain), part_of(1), part_of(2)};
}

}  // namespace levin::detail
