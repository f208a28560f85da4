// Batches that Python has written, as data of a run: the plug-in with which exported modules are compared with Lightning.
#include <levin/levin.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace levin::test {

struct RecordedBatchesOptions {
  std::filesystem::path path = {};

  static void declare(OptionList<RecordedBatchesOptions>& options) {
    options.add("path", &RecordedBatchesOptions::path, "Safetensors with tensors train.0.NAME, train.1.NAME, …, val.0.NAME, …")
        .required();
  }
};

namespace {

/// Each rank reads its rows of each batch, one rank's after another's.
class RecordedLoader : public BatchLoader {
 public:
  explicit RecordedLoader(std::vector<Batch> batches) : batches_(std::move(batches)) {}

  std::optional<std::int64_t> size() const override { return static_cast<std::int64_t>(batches_.size()); }
  void set_shard(const Shard& shard) override { shard_ = shard; }
  void start_epoch(std::int64_t) override { next_ = 0; }

  std::optional<Batch> next() override {
    if (next_ == batches_.size()) return std::nullopt;
    const Batch& whole = batches_[next_++];
    const std::int64_t size = whole.batch_size();
    const std::int64_t begin = size * shard_.rank / shard_.world_size;
    const std::int64_t end = size * (shard_.rank + 1) / shard_.world_size;
    Batch mine;
    for (const auto& [name, tensor] : whole.items()) {
      const bool has_rows = tensor.dim() > 0 && tensor.size(0) == size && shard_.world_size > 1;
      mine.set(name, has_rows ? tensor.slice(0, begin, end).clone() : tensor.clone());
    }
    return mine;
  }

 private:
  std::vector<Batch> batches_;
  std::size_t next_ = 0;
  Shard shard_;
};

class RecordedBatches : public DataModule {
 public:
  using Options = RecordedBatchesOptions;

  explicit RecordedBatches(Options options) : options_(std::move(options)) {}

  void setup(Stage) override {
    if (!stages_.empty()) return;
    const TensorFile file = TensorFile::open(options_.path);
    for (const std::string& name : file.names) {
      const std::size_t first = name.find('.');
      const std::size_t second = name.find('.', first + 1);
      auto& batches = stages_[name.substr(0, first)];
      batches[std::stoi(name.substr(first + 1, second - first - 1))].set(name.substr(second + 1),
                                                                         file.content.tensors.at(name));
    }
  }

  LoaderPtr train_dataloader() override { return loader("train"); }
  LoaderList val_dataloaders() override { return loaders("val"); }
  LoaderList test_dataloaders() override { return loaders("test"); }
  LoaderList predict_dataloaders() override { return loaders("predict"); }

 private:
  std::shared_ptr<BatchLoader> loader(const std::string& stage) const {
    const auto found = stages_.find(stage);
    if (found == stages_.end()) return nullptr;
    std::vector<Batch> batches;
    for (const auto& [index, batch] : found->second) batches.push_back(batch);
    return std::make_shared<RecordedLoader>(std::move(batches));
  }
  LoaderList loaders(const std::string& stage) const {
    LoaderList list;
    if (auto found = loader(stage)) list.emplace_back(std::move(found));
    return list;
  }

  Options options_;
  std::map<std::string, std::map<int, Batch>> stages_;
};

LEVIN_REGISTER_DATA_MODULE(RecordedBatches, "Batches that Python has written");

}  // namespace
}  // namespace levin::test
