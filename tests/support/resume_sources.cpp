#include "support/resume_sources.h"

#include <torch/torch.h>

#include <functional>
#include <map>
#include <utility>

#include "levin/columns/array_dataset.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/checkpoint/safetensors_file.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/column_file.h"
#include "levin/data/column_rows.h"
#include "levin/data/json_lines.h"
#include "levin/data/pipeline.h"
#include "levin/data/shards.h"
#include "levin/data/stream.h"
#include "levin/data/tar_reader.h"
#include "levin/images/image_dataset.h"
#include "levin/images/transforms.h"
#include "levin/text/token_dataset.h"
#include "levin/text/token_writer.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kParts = 2;

double value_of(std::int64_t index) { return 0.1 * static_cast<double>(index); }

/// Samples of the parts that files are divided into.
std::int64_t begin_of(const ResumeSource& source, std::int64_t part) { return part * source.samples / kParts; }

/// Writes a file for each part. Ranks write the same, each file at once.
std::string written(const ResumeSource& source, const std::string& ending,
                    const std::function<std::string(std::int64_t begin, std::int64_t end)>& content) {
  const std::string kind = format("{}-{}", source.name, source.samples);
  for (std::int64_t part = 0; part < kParts; ++part) {
    write_file(source.folder / format("{}-{}{}", kind, part, ending),
               content(begin_of(source, part), begin_of(source, part + 1)));
  }
  return (source.folder / format("{}-*{}", kind, ending)).string();
}

template <class T>
Pipeline<T> in_order_of(const ResumeSource& source, const Pipeline<T>& pipeline, std::optional<std::int64_t> window) {
  return source.shuffle ? pipeline.shuffle(window) : pipeline;
}

Pipeline<double> lines(const ResumeSource& source) {
  const std::string pattern = written(source, ".txt", [](std::int64_t begin, std::int64_t end) {
    std::string text;
    for (; begin < end; ++begin) text += format("{}\n", value_of(begin));
    return text;
  });
  return in_order_of(source, from_lines(pattern), 3).map([](const std::string& line) { return std::stod(line); });
}

Pipeline<double> json_lines(const ResumeSource& source) {
  const std::string pattern = written(source, ".jsonl", [](std::int64_t begin, std::int64_t end) {
    std::string text;
    for (; begin < end; ++begin) text += format("{{\"x\": {}}}\n", value_of(begin));
    return text;
  });
  const auto values = from_json_lines(pattern).prefetch(2).filter([](const Value& line) { return line.contains("x"); });
  return in_order_of(source, values, std::nullopt).map([](const Value& line) { return line.at("x").as_double(); });
}

Pipeline<double> shards(const ResumeSource& source) {
  const std::string pattern = written(source, ".tar", [](std::int64_t begin, std::int64_t end) {
    std::string tar;
    for (; begin < end; ++begin) {
      const std::string text = format("{}", value_of(begin));
      const auto size = static_cast<std::int64_t>(text.size());
      tar += tar_header(format("{:04}.txt", begin), size) + text;
      tar.append(static_cast<std::size_t>(tar_padding(size)), '\0');
    }
    return tar.append(static_cast<std::size_t>(2 * kTarBlock), '\0');
  });
  return in_order_of(source, from_shards(pattern), 4).map([](const ShardSample& sample) { return std::stod(sample["txt"]); });
}

Pipeline<double> columns(const ResumeSource& source) {
  const std::string pattern = written(source, ".parquet", [](std::int64_t begin, std::int64_t end) {
    std::vector<double> values;
    for (; begin < end; ++begin) values.push_back(value_of(begin));
    return column_format_of("a.parquet")->parquet_of({{"x", values}});
  });
  const auto rows = in_order_of(source, from_row_groups(pattern), std::nullopt).flat_map(rows_of, {.at_once = 2});
  return in_order_of(source, rows, 3).map([](const ColumnRow& row) { return row.number("x"); });
}

Pipeline<double> several(const ResumeSource& source) {
  std::vector<Pipeline<double>> parts;
  for (std::int64_t part = 0; part < kParts; ++part) {
    std::vector<double> values;
    for (std::int64_t index = begin_of(source, part); index < begin_of(source, part + 1); ++index)
      values.push_back(value_of(index));
    parts.push_back(in_order_of(source, from_list(std::move(values)), std::nullopt));
  }
  return interleave(std::move(parts));
}

Pipeline<double> arrays(const ResumeSource& source) {
  const fs::path file = source.folder / format("arrays-{}.safetensors", source.samples);
  save_safetensors(file, {{"x", 0.1 * torch::arange(source.samples, torch::kFloat64)}}, nullptr);
  const auto dataset = std::make_shared<ArrayDataset>(std::vector<fs::path>{file});
  return in_order_of(source, from_dataset(dataset), 4).map([](const Batch& row) { return row["x"].item<double>(); });
}

Pipeline<double> tokens(const ResumeSource& source) {
  const fs::path file = source.folder / format("tokens-{}.bin", source.samples);
  TokenWriter writer(file, {.vocab_size = 100});
  std::vector<std::int64_t> document;
  for (std::int64_t token = 0; token <= 2 * source.samples; ++token) document.push_back(token % 100);
  writer.add_document(document);
  writer.finish();
  const auto windows = source.shuffle ? TokenWindows::kRandom : TokenWindows::kConsecutive;
  const auto dataset =
      std::make_shared<TokenDataset>(TokenFile(file), TokenDatasetOptions{.block_size = 2, .windows = windows});
  return in_order_of(source, from_dataset(dataset), std::nullopt).map([](const Batch& window) {
    return 0.01 * window["input"].sum().item<double>();
  });
}

/// An image of one row of four pixels (https://learn.microsoft.com/windows/win32/gdi/bitmap-storage).
std::string bmp_of(std::int64_t index) {
  std::string bytes("BM\x42\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x04\0\0\0\x01\0\0\0\x01\0\x18\0\0\0\0\0\x0c\0\0\0", 38);
  bytes.append(16, '\0');
  for (char color = 0; color < 12; ++color) bytes += static_cast<char>(index * 5 + color);
  return bytes;
}

Pipeline<double> images(const ResumeSource& source) {
  std::vector<LabelledImage> files;
  for (std::int64_t index = 0; index < source.samples; ++index) {
    files.push_back({source.folder / format("image-{:04}.bmp", index), 0});
    write_file(files.back().file, bmp_of(index));
  }
  ImageDatasetOptions options;
  if (source.shuffle) options.transforms.push_back(std::make_shared<images::RandomHorizontalFlip>());
  const auto dataset = std::make_shared<ImageDataset>(files, options);
  return in_order_of(source, from_dataset(dataset), std::nullopt).map([](const Batch& image) {
    return image["features"].flatten()[0].item<double>();
  });
}

using Maker = Pipeline<double> (*)(const ResumeSource&);

const std::map<std::string, Maker>& makers() {
  static const std::map<std::string, Maker> made = [] {
    std::map<std::string, Maker> makers = {{"lines", lines},     {"json_lines", json_lines}, {"shards", shards},
                                           {"several", several}, {"arrays", arrays},         {"tokens", tokens}};
    makers["images"] = images;
    const ColumnFormat* const format = column_format_of("a.parquet");
    if (format == nullptr) return makers;
    try {
      format->require();
      makers["columns"] = columns;
    } catch (const ConfigError&) {
      // Arrow is not installed.
    }
    return makers;
  }();
  return made;
}

}  // namespace

const std::vector<std::string>& resume_sources() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> names;
    for (const auto& [name, maker] : makers()) names.push_back(name);
    return names;
  }();
  return names;
}

LoaderPtr resume_loader(const ResumeSource& source, std::int64_t batch_size, int workers) {
  const auto rows = makers().at(source.name)(source).map([offset = source.offset](double value, Random& random) {
    return Batch{{"rows", torch::tensor({value + offset, 1.0}, torch::kFloat) + 0.01 * torch::rand({2}, random)}};
  });
  return stream(rows.batch(batch_size), {.num_workers = workers});
}

}  // namespace levin::test
