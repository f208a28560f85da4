#include "levin/core/data_module.h"

namespace levin {

namespace {

class BatchList final : public BatchLoader {
 public:
  explicit BatchList(std::vector<Batch> batches) : batches_(std::move(batches)) {}
  std::optional<std::int64_t> size() const override { return std::ssize(batches_); }
  void start_epoch(std::int64_t /*epoch*/) override { next_ = 0; }
  std::optional<Batch> next() override { return next_ < batches_.size() ? std::optional(batches_[next_++]) : std::nullopt; }

 private:
  std::vector<Batch> batches_;
  std::size_t next_ = 0;
};

}  // namespace

LoaderList::LoaderList(std::vector<Batch> batches) { emplace_back(std::make_shared<BatchList>(std::move(batches))); }

}  // namespace levin
