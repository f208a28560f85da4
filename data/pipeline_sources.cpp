#include <algorithm>
#include <istream>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/files/paths.h"
#include "levin/core/files/remote_file.h"
#include "levin/data/input_file.h"
#include "levin/data/pipeline.h"
#include "levin/data/pipeline_steps.h"
#include "levin/data/read_file.h"

namespace levin {
namespace {

namespace fs = std::filesystem;

/// Values by index.
class IndexedNode final : public PipelineNode {
 public:
  using Value = std::function<PipelineValue(std::int64_t)>;
  using Fingerprint = std::function<std::optional<std::uint64_t>()>;

  IndexedNode(std::int64_t size, Value value, Fingerprint fingerprint)
      : size_(size), value_(std::move(value)), fingerprint_(std::move(fingerprint)) {
    if (size < 0) throw MisuseError(format("a pipeline has no source of {} elements", size));
  }

  std::unique_ptr<PipelineReader> open(const StreamEpoch& epoch) const override {
    return std::make_unique<Reader>(size_, value_, epoch);
  }
  PipelineFacts facts(const StreamEpoch& /*epoch*/) const override { return {.size = size_}; }
  std::optional<std::uint64_t> fingerprint() const override {
    return fingerprint_ ? fingerprint_() : DataFingerprint().add(size_).value();
  }

 private:
  class Reader final : public PipelineReader {
   public:
    Reader(std::int64_t size, Value value, const StreamEpoch& epoch)
        : size_(size), source_(std::make_shared<const Source>(std::move(value), epoch)) {}
    std::optional<PipelineElement> next() override {
      if (next_ == size_) return std::nullopt;
      const std::int64_t index = next_++;
      return PipelineElement(static_cast<std::uint64_t>(index), [source = source_, index] { return source->made(index); });
    }
    std::int64_t skip(std::int64_t elements) override {
      const std::int64_t passed = std::min(elements, size_ - next_);
      next_ += passed;
      return passed;
    }

   private:
    /// Stands as long as an element that has not been made.
    struct Source {
      Source(Value value, const StreamEpoch& epoch) : value(std::move(value)), epoch(epoch) {}
      /// A dataset draws the numbers that it draws in a DataLoader.
      PipelineValue made(std::int64_t index) const {
        const SampleSeedScope random(static_cast<std::int64_t>(epoch.seed), epoch.epoch);
        return value(index);
      }
      Value value;
      StreamEpoch epoch;
    };

    std::int64_t size_;
    std::int64_t next_ = 0;
    std::shared_ptr<const Source> source_;
  };

  std::int64_t size_;
  Value value_;
  Fingerprint fingerprint_;
};

/// Values that a function gives one after another, which each rank calls for itself.
class GeneratedNode final : public PipelineNode {
 public:
  using Source = std::function<pipeline_nodes::Generate(const StreamEpoch&)>;

  explicit GeneratedNode(Source source) : source_(std::move(source)) {}
  std::unique_ptr<PipelineReader> open(const StreamEpoch& epoch) const override {
    return std::make_unique<Reader>(source_(epoch));
  }
  PipelineFacts facts(const StreamEpoch& /*epoch*/) const override { return {.is_divided = true, .can_skip = false}; }

 private:
  class Reader final : public PipelineReader {
   public:
    explicit Reader(pipeline_nodes::Generate generate) : generate_(std::move(generate)) {}
    std::optional<PipelineElement> next() override {
      if (!generate_) return std::nullopt;
      PipelineValue value = generate_();
      if (value) return PipelineElement(made_++, std::move(value));
      generate_ = nullptr;  // with what it holds, such as an open file
      return std::nullopt;
    }

   private:
    pipeline_nodes::Generate generate_;
    std::uint64_t made_ = 0;
  };

  Source source_;
};

class LinesNode final : public PipelineNode {
 public:
  explicit LinesNode(fs::path file) : file_(std::move(file)) {}
  std::unique_ptr<PipelineReader> open(const StreamEpoch& /*epoch*/) const override { return std::make_unique<Reader>(file_); }
  PipelineFacts facts(const StreamEpoch& /*epoch*/) const override { return {}; }

 private:
  class Reader final : public PipelineReader {
   public:
    explicit Reader(const fs::path& file)
        : name_(std::make_shared<const std::string>(file.string())), file_(file, kMaxExpansion), stream_(&file_) {
      stream_.exceptions(std::ios::badbit);  // passes on what the file throws
    }
    std::optional<PipelineElement> next() override {
      auto line = std::make_shared<std::string>();
      if (!std::getline(stream_, *line)) return std::nullopt;
      if (line->ends_with('\r')) line->pop_back();
      ++lines_;
      return PipelineElement(static_cast<std::uint64_t>(lines_ - 1), std::move(line), {.file = name_, .line = lines_});
    }

   private:
    std::shared_ptr<const std::string> name_;
    InputFile file_;
    std::istream stream_;
    std::int64_t lines_ = 0;
  };

  fs::path file_;
};

std::vector<fs::path> matches(const std::string& pattern) {
  if (is_remote(pattern)) return files_meant_by(pattern);
  std::vector<fs::path> paths = files_meant_by(expand_home(pattern));
  std::erase_if(paths, [](const fs::path& path) { return !fs::exists(path) || fs::is_directory(path); });
  if (paths.empty()) throw ConfigError(format("no file matches '{}'", pattern));
  return paths;
}

}  // namespace

namespace pipeline_nodes {

PipelineNodePtr indexed(std::int64_t size, std::function<PipelineValue(std::int64_t)> value,
                        std::function<std::optional<std::uint64_t>()> fingerprint) {
  return std::make_shared<IndexedNode>(size, std::move(value), std::move(fingerprint));
}

PipelineNodePtr generated(std::function<Generate(const StreamEpoch&)> source) {
  return std::make_shared<GeneratedNode>(std::move(source));
}

PipelineNodePtr files(const std::vector<std::string>& patterns) {
  auto paths = std::make_shared<std::vector<fs::path>>();
  for (const std::string& pattern : patterns) {
    const std::vector<fs::path> found = matches(pattern);
    paths->insert(paths->end(), found.begin(), found.end());
  }
  const auto fingerprint = [paths]() -> std::optional<std::uint64_t> {
    DataFingerprint fingerprint;
    for (const fs::path& path : *paths) {
      std::error_code none;
      // Hosts may have the folder in different places.
      fingerprint.add(path.filename().string()).add(static_cast<std::int64_t>(fs::file_size(path, none)));
    }
    return fingerprint.value();
  };
  const auto size = static_cast<std::int64_t>(paths->size());
  return indexed(
      size, [paths](std::int64_t index) { return pipeline_types::made((*paths)[static_cast<std::size_t>(index)]); },
      fingerprint);
}

PipelineNodePtr lines(const fs::path& file) { return std::make_shared<LinesNode>(file); }

}  // namespace pipeline_nodes

Pipeline<fs::path> from_files_ahead(const std::vector<std::string>& patterns) {
  const Pipeline<fs::path> files = from_files(patterns);
  if (std::ranges::none_of(patterns, [](const std::string& pattern) { return is_remote(pattern); })) return files;
  constexpr std::int64_t kAhead = 2;
  return files.map([](const fs::path& place) { return local_copy(place.string()); }).prefetch(kAhead, kAhead);
}

Pipeline<std::string> from_lines(const std::vector<std::string>& patterns) {
  return from_files_ahead(patterns).flat_map(lines_of);
}

Pipeline<Batch> from_dataset(const DatasetPtr& dataset) {
  if (!dataset) throw MisuseError("from_dataset(): the dataset is a null pointer");
  const auto sample = [dataset](std::int64_t index) {
    const Batch row = dataset->get_batch({&index, 1});
    Batch single;
    for (const auto& [name, tensor] : row.items()) single.set(name, tensor.select(0, 0));
    return pipeline_types::made(std::move(single));
  };
  return Pipeline<Batch>(pipeline_nodes::indexed(dataset->size(), sample, [dataset] { return dataset->fingerprint(); }));
}

}  // namespace levin
