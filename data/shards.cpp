#include "levin/data/shards.h"

#include "levin/data/pipeline_steps.h"
#include "levin/data/tar_reader.h"

namespace levin {
namespace {

namespace fs = std::filesystem;

/// The entries of one sample.
struct Group {
  std::string key;
  std::vector<TarEntry> entries;
  std::vector<std::string> bytes;  ///< of a compressed file, in which there is no way back
};

class TarNode final : public PipelineNode {
 public:
  explicit TarNode(fs::path file) : file_(std::move(file)) {}
  std::unique_ptr<PipelineReader> open(const StreamEpoch& /*epoch*/) const override { return std::make_unique<Reader>(file_); }
  PipelineFacts facts(const StreamEpoch& /*epoch*/) const override { return {}; }

 private:
  class Reader final : public PipelineReader {
   public:
    explicit Reader(const fs::path& file) : name_(std::make_shared<const std::string>(file.string())), tar_(file) {}

    std::optional<PipelineElement> next() override {
      std::optional<Group> group = next_group(/*reads=*/true);
      if (!group) return std::nullopt;
      auto make = [tar = tar_.seekable(), group = std::move(*group)]() mutable {
        ShardSample sample{.key = std::move(group.key), .files = {}};
        for (std::size_t number = 0; number < group.entries.size(); ++number) {
          const TarEntry& entry = group.entries[number];
          std::string bytes = tar ? tar->read(entry.offset, entry.size) : std::move(group.bytes[number]);
          sample.files.emplace_back(key_and_name(entry.name).second, std::move(bytes));
        }
        return pipeline_types::made(std::move(sample));
      };
      return PipelineElement(samples_++, std::move(make), {.file = name_});
    }
    std::int64_t skip(std::int64_t elements) override {
      for (std::int64_t passed = 0; passed < elements; ++passed, ++samples_) {
        if (!next_group(/*reads=*/false)) return passed;
      }
      return elements;
    }

   private:
    /// Files of one sample stand one after another.
    std::optional<Group> next_group(bool reads) {
      Group group;
      while (true) {
        if (!waiting_) waiting_ = next_entry();
        if (!waiting_) break;
        const std::string_view key = key_and_name(waiting_->name).first;
        if (!group.entries.empty() && key != group.key) break;
        if (group.entries.empty()) group.key = key;
        if (reads && !tar_.seekable()) group.bytes.push_back(tar_.read());
        group.entries.push_back(std::move(*std::exchange(waiting_, std::nullopt)));
      }
      if (group.entries.empty()) return std::nullopt;
      return group;
    }
    std::optional<TarEntry> next_entry() {
      while (std::optional<TarEntry> entry = tar_.next()) {
        if (!key_and_name(entry->name).second.empty()) return entry;
      }
      return std::nullopt;
    }

    std::shared_ptr<const std::string> name_;
    TarReader tar_;
    std::optional<TarEntry> waiting_;  ///< the first of the next sample
    std::uint64_t samples_ = 0;
  };

  fs::path file_;
};

}  // namespace

Pipeline<ShardSample> from_shards(const std::vector<std::string>& patterns) {
  return from_files_ahead(patterns).flat_map(samples_of);
}

Pipeline<ShardSample> samples_of(const fs::path& tar_file) {
  return Pipeline<ShardSample>(std::make_shared<TarNode>(tar_file));
}

}  // namespace levin
