#include "levin/core/data_module.h"

#include <typeinfo>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/batch.h"

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

Batch DataModule::prepare(Batch batch) const { return batch; }

Batch DataModule::prepare_records(const std::vector<Value>&) const {
  throw MisuseError(format("{} makes no batches of records: pass a batch of tensors, or override DataModule::prepare_records.",
                           class_name_of(typeid(*this))));
}

LoaderList::LoaderList(std::vector<Batch> batches) { emplace_back(std::make_shared<BatchList>(std::move(batches))); }

}  // namespace levin
