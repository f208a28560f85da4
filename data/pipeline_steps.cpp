#include "levin/data/pipeline_steps.h"

#include <deque>
#include <span>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/data/distributed_sampler.h"

namespace levin {
namespace {

class MapNode final : public StepNode {
 public:
  MapNode(PipelineNodePtr parent, pipeline_nodes::Map function)
      : StepNode(std::move(parent)), function_(std::make_shared<const pipeline_nodes::Map>(std::move(function))) {}

  std::unique_ptr<PipelineReader> open(const StreamEpoch& epoch) const override {
    return std::make_unique<Reader>(parent().open(epoch), function_, epoch, parent().facts(epoch).draws);
  }
  PipelineFacts facts(const StreamEpoch& epoch) const override {
    PipelineFacts facts = parent().facts(epoch);
    ++facts.draws;
    return facts;
  }

 private:
  class Reader final : public PipelineReader {
   public:
    Reader(std::unique_ptr<PipelineReader> reader, std::shared_ptr<const pipeline_nodes::Map> function,
           const StreamEpoch& epoch, std::uint64_t draws)
        : reader_(std::move(reader)), function_(std::move(function)), epoch_(epoch), draws_(draws) {}
    std::optional<PipelineElement> next() override {
      std::optional<PipelineElement> element = reader_->next();
      if (!element) return std::nullopt;
      const std::uint64_t id = element->id();
      PipelinePlace place = element->place();
      const auto index = static_cast<std::int64_t>(derived_id(id, draws_));
      auto make = [source = std::move(*element), function = function_,
                   seed = sample_seed(epoch_.seed, epoch_.epoch, index)]() mutable {
        return (*function)(source.take_unplaced(), seed);
      };
      return PipelineElement(id, std::move(make), std::move(place));
    }
    std::int64_t skip(std::int64_t elements) override { return reader_->skip(elements); }
    std::int64_t skip_samples(std::int64_t samples) override { return reader_->skip_samples(samples); }

   private:
    std::unique_ptr<PipelineReader> reader_;
    std::shared_ptr<const pipeline_nodes::Map> function_;
    StreamEpoch epoch_;
    std::uint64_t draws_;
  };

  std::shared_ptr<const pipeline_nodes::Map> function_;
};

class FilterNode final : public StepNode {
 public:
  FilterNode(PipelineNodePtr parent, pipeline_nodes::Predicate keeps) : StepNode(std::move(parent)), keeps_(std::move(keeps)) {}

  std::unique_ptr<PipelineReader> open(const StreamEpoch& epoch) const override {
    return std::make_unique<Reader>(parent().open(epoch), keeps_);
  }
  PipelineFacts facts(const StreamEpoch& epoch) const override { return without_size(parent().facts(epoch)); }

 private:
  class Reader final : public PipelineReader {
   public:
    Reader(std::unique_ptr<PipelineReader> reader, pipeline_nodes::Predicate keeps)
        : reader_(std::move(reader)), keeps_(std::move(keeps)) {}
    std::optional<PipelineElement> next() override {
      while (std::optional<PipelineElement> element = reader_->next()) {
        if (keeps_(element->value().get())) return element;
      }
      return std::nullopt;
    }

   private:
    std::unique_ptr<PipelineReader> reader_;
    pipeline_nodes::Predicate keeps_;
  };

  pipeline_nodes::Predicate keeps_;
};

class FlatMapNode final : public StepNode {
 public:
  FlatMapNode(PipelineNodePtr parent, pipeline_nodes::Expand expand, std::int64_t at_once)
      : StepNode(std::move(parent)), expand_(std::move(expand)), at_once_(at_once) {
    if (at_once < 1) throw MisuseError(format("flat_map(): at_once is at least 1, not {}", at_once));
  }

  std::unique_ptr<PipelineReader> open(const StreamEpoch& epoch) const override {
    return std::make_unique<Reader>(parent().open(epoch), expand_, at_once_, epoch);
  }
  PipelineFacts facts(const StreamEpoch& epoch) const override { return without_size(parent().facts(epoch)); }

 private:
  class Reader final : public PipelineReader {
   public:
    Reader(std::unique_ptr<PipelineReader> reader, pipeline_nodes::Expand expand, std::int64_t at_once,
           const StreamEpoch& epoch)
        : reader_(std::move(reader)), expand_(std::move(expand)), at_once_(at_once), epoch_(epoch) {}

    std::optional<PipelineElement> next() override {
      while (true) {
        while (std::ssize(parts_) < at_once_ && open_another(0)) {
        }
        if (parts_.empty()) return std::nullopt;
        Part part = std::move(parts_.front());
        parts_.pop_front();
        std::optional<PipelineElement> element = part.reader->next();
        if (!element) continue;
        const std::uint64_t id = derived_id(part.id, scramble(element->id()) | 1U);
        parts_.push_back(std::move(part));
        return std::move(*element).renamed(id);
      }
    }

    std::int64_t skip(std::int64_t elements) override {
      if (at_once_ > 1) return PipelineReader::skip(elements);
      std::int64_t passed = 0;
      while (passed < elements) {
        if (parts_.empty() && !open_another(elements - passed)) return passed;
        passed += std::exchange(passed_unopened_, 0);
        if (parts_.empty() || passed == elements) continue;
        passed += parts_.front().reader->skip(elements - passed);
        if (passed < elements) parts_.pop_front();
      }
      return passed;
    }

   private:
    struct Part {
      std::unique_ptr<PipelineReader> reader;
      std::uint64_t id;
    };

    /// Opens what the next element makes, unless it is known to have no more elements than are to be passed over.
    bool open_another(std::int64_t to_pass) {
      std::optional<PipelineElement> element = reader_->next();
      if (!element) return false;
      const std::uint64_t id = element->id();
      const PipelineNodePtr node = expand_(element->take());
      const std::optional<std::int64_t> size = to_pass > 0 ? node->facts(epoch_).size : std::nullopt;
      if (size && *size <= to_pass) {
        passed_unopened_ = *size;
      } else {
        StreamEpoch epoch = epoch_;
        epoch.seed = derived_id(epoch.seed, scramble(id) | 1U);
        parts_.push_back({node->open(epoch), id});
      }
      return true;
    }

    std::unique_ptr<PipelineReader> reader_;
    pipeline_nodes::Expand expand_;
    std::int64_t at_once_;
    StreamEpoch epoch_;
    std::deque<Part> parts_;  ///< that are open; the next element is the first one's
    std::int64_t passed_unopened_ = 0;
  };

  pipeline_nodes::Expand expand_;
  std::int64_t at_once_;
};

/// Elements from `first` on, and no more than `most`.
class RangeNode final : public StepNode {
 public:
  RangeNode(PipelineNodePtr parent, std::int64_t first, std::optional<std::int64_t> most)
      : StepNode(std::move(parent)), first_(first), most_(most) {
    if (first < 0 || most.value_or(0) < 0) throw MisuseError("take() and skip() of a pipeline want a number of at least 0");
  }

  std::unique_ptr<PipelineReader> open(const StreamEpoch& epoch) const override {
    return std::make_unique<Reader>(parent().open(epoch), first_, most_);
  }
  PipelineFacts facts(const StreamEpoch& epoch) const override {
    PipelineFacts facts = parent().facts(epoch);
    if (facts.size) facts.size = std::min(std::max<std::int64_t>(*facts.size - first_, 0), most_.value_or(*facts.size));
    facts.samples.reset();
    facts.batch_size.reset();
    return facts;
  }

 private:
  class Reader final : public PipelineReader {
   public:
    Reader(std::unique_ptr<PipelineReader> reader, std::int64_t first, std::optional<std::int64_t> most)
        : reader_(std::move(reader)), first_(first), left_(most) {}
    std::optional<PipelineElement> next() override {
      if (left_ == 0) return std::nullopt;
      begin();
      if (left_) --*left_;
      return reader_->next();
    }
    std::int64_t skip(std::int64_t elements) override {
      begin();
      if (left_) elements = std::min(elements, *left_);
      const std::int64_t passed = reader_->skip(elements);
      if (left_) *left_ -= passed;
      return passed;
    }

   private:
    void begin() { reader_->skip(std::exchange(first_, 0)); }

    std::unique_ptr<PipelineReader> reader_;
    std::int64_t first_;
    std::optional<std::int64_t> left_;
  };

  std::int64_t first_;
  std::optional<std::int64_t> most_;
};

class RepeatNode final : public StepNode {
 public:
  RepeatNode(PipelineNodePtr parent, std::optional<std::int64_t> times) : StepNode(std::move(parent)), times_(times) {
    if (times && *times < 1) throw MisuseError(format("repeat(): a pipeline is read at least once, not {} times", *times));
  }

  std::unique_ptr<PipelineReader> open(const StreamEpoch& epoch) const override {
    return std::make_unique<Reader>(shared_parent(), times_, epoch);
  }
  PipelineFacts facts(const StreamEpoch& epoch) const override {
    PipelineFacts facts = parent().facts(epoch);
    facts.size = facts.size && times_ ? std::optional(*facts.size * *times_) : std::nullopt;
    facts.samples.reset();
    facts.batch_size.reset();
    return facts;
  }

 private:
  class Reader final : public PipelineReader {
   public:
    Reader(PipelineNodePtr parent, std::optional<std::int64_t> times, const StreamEpoch& epoch)
        : parent_(std::move(parent)), times_(times), epoch_(epoch), size_(parent_->facts(epoch).size) {}

    std::optional<PipelineElement> next() override {
      while (true) {
        if (!reader_ && !open_pass()) return std::nullopt;
        if (std::optional<PipelineElement> element = reader_->next()) {
          is_empty_ = false;
          const std::uint64_t id = derived_id(element->id(), static_cast<std::uint64_t>(pass_));
          return std::move(*element).renamed(id);
        }
        end_pass();
      }
    }
    std::int64_t skip(std::int64_t elements) override {
      std::int64_t passed = 0;
      while (passed < elements) {
        if (!reader_ && size_.value_or(0) > 0) {
          const std::int64_t whole = (elements - passed) / *size_;
          const std::int64_t passes = times_ ? std::min(whole, *times_ - pass_) : whole;
          pass_ += passes;
          passed += passes * *size_;
          if (passed == elements) break;
        }
        if (!reader_ && !open_pass()) break;
        const std::int64_t of_pass = reader_->skip(elements - passed);
        if (of_pass > 0) is_empty_ = false;
        passed += of_pass;
        if (passed < elements) end_pass();
      }
      return passed;
    }

   private:
    bool open_pass() {
      if (is_over_ || (times_ && pass_ == *times_)) return false;
      StreamEpoch epoch = epoch_;
      epoch.seed = derived_id(epoch.seed, static_cast<std::uint64_t>(pass_));
      is_empty_ = true;
      reader_ = parent_->open(epoch);
      return true;
    }
    void end_pass() {
      reader_ = nullptr;
      ++pass_;
      if (is_empty_) is_over_ = true;  // what has no elements is not read for ever
    }

    PipelineNodePtr parent_;
    std::optional<std::int64_t> times_;
    StreamEpoch epoch_;
    std::optional<std::int64_t> size_;
    std::unique_ptr<PipelineReader> reader_;  ///< of a pass that has begun
    std::int64_t pass_ = 0;
    bool is_empty_ = true;
    bool is_over_ = false;
  };

  std::optional<std::int64_t> times_;
};

class ShardNode final : public StepNode {
 public:
  using StepNode::StepNode;
  std::unique_ptr<PipelineReader> open(const StreamEpoch& epoch) const override {
    return std::make_unique<EveryNthReader>(parent().open(epoch), epoch.rank, epoch.world_size);
  }
  PipelineFacts facts(const StreamEpoch& epoch) const override {
    PipelineFacts facts = parent().facts(epoch);
    if (facts.size) facts.size = share_of(*facts.size, epoch.rank, epoch.world_size);
    facts.samples.reset();
    facts.is_divided = true;
    return facts;
  }
};

}  // namespace

namespace pipeline_nodes {

PipelineNodePtr map(PipelineNodePtr parent, Map function) {
  return std::make_shared<MapNode>(std::move(parent), std::move(function));
}
PipelineNodePtr filter(PipelineNodePtr parent, Predicate keeps) {
  return std::make_shared<FilterNode>(std::move(parent), std::move(keeps));
}
PipelineNodePtr flat_map(PipelineNodePtr parent, Expand expand, std::int64_t at_once) {
  return std::make_shared<FlatMapNode>(std::move(parent), std::move(expand), at_once);
}
PipelineNodePtr repeat(PipelineNodePtr parent, std::optional<std::int64_t> times) {
  return std::make_shared<RepeatNode>(std::move(parent), times);
}
PipelineNodePtr range(PipelineNodePtr parent, std::int64_t first, std::optional<std::int64_t> most) {
  return std::make_shared<RangeNode>(std::move(parent), first, most);
}
PipelineNodePtr shard(PipelineNodePtr parent) { return std::make_shared<ShardNode>(std::move(parent)); }

}  // namespace pipeline_nodes
}  // namespace levin
