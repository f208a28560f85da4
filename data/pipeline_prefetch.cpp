#include <exception>
#include <map>
#include <mutex>

#include "levin/core/base/error.h"
#include "levin/data/pipeline_steps.h"
#include "levin/data/reading_workers.h"

namespace levin {
namespace {

class AheadReader final : public PipelineReader {
 public:
  AheadReader(std::unique_ptr<PipelineReader> reader, std::int64_t elements, int threads)
      : shared_(std::make_shared<Source>(std::move(reader))),
        workers_(reading_workers<std::optional<PipelineElement>>(threads, elements)) {}

  std::optional<PipelineElement> next() override {
    if (!std::exchange(has_begun_, true)) {
      constexpr std::int64_t kEndless = std::int64_t{1} << 62;
      workers_->start(kEndless, [source = shared_](std::int64_t index) { return source->made(index); });
    }
    if (is_over_) return std::nullopt;
    std::optional<PipelineElement> element = *workers_->next();
    is_over_ = !element;
    return element;
  }
  std::int64_t skip(std::int64_t elements) override {
    return has_begun_ ? PipelineReader::skip(elements) : shared_->reader().skip(elements);
  }
  std::int64_t skip_samples(std::int64_t samples) override {
    return has_begun_ ? PipelineReader::skip_samples(samples) : shared_->reader().skip_samples(samples);
  }

 private:
  /// The reader is asked in order, whichever thread comes first; values are made by all threads at once.
  class Source {
   public:
    explicit Source(std::unique_ptr<PipelineReader> reader) : reader_(std::move(reader)) {}
    PipelineReader& reader() { return *reader_; }

    std::optional<PipelineElement> made(std::int64_t index) {
      Read read = taken(index);
      if (read.error) std::rethrow_exception(read.error);
      if (read.element) read.element->value();
      return std::move(read.element);
    }

   private:
    struct Read {
      std::optional<PipelineElement> element;
      std::exception_ptr error;
    };

    Read taken(std::int64_t index) {
      const std::lock_guard lock(mutex_);
      for (; read_ <= index; ++read_) waiting_.emplace(read_, another());
      Read read = std::move(waiting_.at(index));
      waiting_.erase(index);
      return read;
    }
    Read another() {
      if (is_over_) return {};
      try {
        Read read{reader_->next(), nullptr};
        is_over_ = !read.element;
        return read;
      } catch (...) {
        return {std::nullopt, std::current_exception()};
      }
    }

    std::mutex mutex_;
    std::unique_ptr<PipelineReader> reader_;
    std::int64_t read_ = 0;
    std::map<std::int64_t, Read> waiting_;  ///< read for threads that come later
    bool is_over_ = false;
  };

  std::shared_ptr<Source> shared_;
  bool has_begun_ = false;
  bool is_over_ = false;
  // Threads are started where the pipeline is opened: what opens it knows how many threads LibTorch is to have.
  std::unique_ptr<OrderedPrefetcher<std::optional<PipelineElement>>> workers_;
};

class PrefetchNode final : public StepNode {
 public:
  PrefetchNode(PipelineNodePtr parent, std::int64_t elements, int threads)
      : StepNode(std::move(parent)), elements_(elements), threads_(threads) {
    if (elements < 1 || threads < 1) throw MisuseError("prefetch() wants at least one element and one thread");
  }
  std::unique_ptr<PipelineReader> open(const StreamEpoch& epoch) const override {
    return read_ahead(parent().open(epoch), elements_, threads_);
  }
  PipelineFacts facts(const StreamEpoch& epoch) const override { return parent().facts(epoch); }

 private:
  std::int64_t elements_;
  int threads_;
};

}  // namespace

std::unique_ptr<PipelineReader> read_ahead(std::unique_ptr<PipelineReader> reader, std::int64_t elements, int threads) {
  return std::make_unique<AheadReader>(std::move(reader), elements, threads);
}

PipelineNodePtr pipeline_nodes::prefetch(PipelineNodePtr parent, std::int64_t elements, int threads) {
  return std::make_shared<PrefetchNode>(std::move(parent), elements, threads);
}

}  // namespace levin
