#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/data/distributed_sampler.h"
#include "levin/data/pipeline_steps.h"

namespace levin {
namespace {

/// Random numbers of which each is found by its number, so that those of elements that are passed over are not drawn.
class Draws {
 public:
  Draws(const StreamEpoch& epoch, std::uint64_t draws)
      : seed_(sample_seed(epoch.seed, epoch.epoch, static_cast<std::int64_t>(scramble(draws)))) {}
  /// The next one, from 0 to below `size`.
  std::int64_t below(std::int64_t size) {
    return static_cast<std::int64_t>((static_cast<unsigned __int128>(next()) * static_cast<std::uint64_t>(size)) >> 64U);
  }
  /// From 0 to below 1.
  double fraction() { return static_cast<double>(next() >> 11U) * 0x1p-53; }

 private:
  std::uint64_t next() { return scramble(seed_ + number_++); }

  std::uint64_t seed_;
  std::uint64_t number_ = 0;
};

class ShuffleNode final : public StepNode {
 public:
  ShuffleNode(PipelineNodePtr parent, std::optional<std::int64_t> window) : StepNode(std::move(parent)), window_(window) {
    if (window && *window < 1) throw MisuseError(format("shuffle(): the window has at least 1 element, not {}", *window));
  }

  std::unique_ptr<PipelineReader> open(const StreamEpoch& epoch) const override {
    const PipelineFacts facts = parent().facts(epoch);
    return std::make_unique<Reader>(parent().open(epoch), window_, facts.size, Draws(epoch, facts.draws));
  }
  PipelineFacts facts(const StreamEpoch& epoch) const override {
    PipelineFacts facts = parent().facts(epoch);
    ++facts.draws;
    facts.shuffles = true;
    facts.batch_size.reset();
    facts.samples.reset();
    return facts;
  }

 private:
  class Reader final : public PipelineReader {
   public:
    Reader(std::unique_ptr<PipelineReader> reader, std::optional<std::int64_t> window, std::optional<std::int64_t> size,
           Draws draws)
        : reader_(std::move(reader)),
          window_(window.value_or(std::numeric_limits<std::int64_t>::max())),
          size_(size),
          draws_(draws) {}

    std::optional<PipelineElement> next() override {
      fill();
      if (waiting_.empty()) return std::nullopt;
      PipelineElement& drawn = waiting_[static_cast<std::size_t>(draws_.below(std::ssize(waiting_)))];
      PipelineElement element = std::move(drawn);
      drawn = std::move(waiting_.back());
      waiting_.pop_back();
      return element;
    }

    /// Finds out by numbers alone which elements wait after so many, where their count is known and none has been read.
    std::int64_t skip(std::int64_t elements) override {
      if (!size_ || has_begun_) return PipelineReader::skip(elements);
      const std::int64_t passed = std::min(elements, *size_);
      std::vector<std::int64_t> waiting(static_cast<std::size_t>(std::min(window_, *size_)));
      std::iota(waiting.begin(), waiting.end(), 0);
      auto read = std::ssize(waiting);
      for (std::int64_t number = 0; number < passed; ++number) {
        std::int64_t& drawn = waiting[static_cast<std::size_t>(draws_.below(std::ssize(waiting)))];
        drawn = waiting.back();
        waiting.pop_back();
        if (read < *size_) waiting.push_back(read++);
      }
      take_from_source(waiting, read);
      return passed;
    }

   private:
    void fill() {
      has_begun_ = true;
      while (!is_over_ && std::ssize(waiting_) < window_) {
        std::optional<PipelineElement> element = reader_->next();
        is_over_ = !element;
        if (element) waiting_.push_back(std::move(*element));
      }
    }

    /// The elements of these numbers, in this order, of the first `read`, all of which the source then has given.
    void take_from_source(const std::vector<std::int64_t>& numbers, std::int64_t read) {
      has_begun_ = true;
      std::vector<std::size_t> by_number(numbers.size());
      std::iota(by_number.begin(), by_number.end(), 0U);
      std::ranges::sort(by_number, {}, [&](std::size_t place) { return numbers[place]; });
      std::vector<std::optional<PipelineElement>> taken(numbers.size());
      std::int64_t at = 0;
      for (const std::size_t place : by_number) {
        reader_->skip(numbers[place] - at);
        taken[place] = reader_->next();
        at = numbers[place] + 1;
      }
      reader_->skip(read - at);
      for (std::optional<PipelineElement>& element : taken) {
        if (element) waiting_.push_back(std::move(*element));
      }
    }

    std::unique_ptr<PipelineReader> reader_;
    std::int64_t window_;
    std::optional<std::int64_t> size_;
    Draws draws_;
    std::vector<PipelineElement> waiting_;
    bool has_begun_ = false;
    bool is_over_ = false;
  };

  std::optional<std::int64_t> window_;
};

class MixNode final : public PipelineNode {
 public:
  MixNode(std::vector<PipelineNodePtr> parents, std::vector<double> weights, bool ends_with_first)
      : parents_(std::move(parents)), weights_(std::move(weights)), ends_with_first_(ends_with_first) {
    if (parents_.empty()) throw MisuseError("a mix of pipelines needs at least one");
    const bool is_valid = std::ranges::all_of(weights_, [](double weight) { return weight > 0 && weight < 1e300; });
    if (!is_valid) throw MisuseError("the weights of a mix are above 0");
  }

  std::unique_ptr<PipelineReader> open(const StreamEpoch& epoch) const override {
    std::vector<Part> parts;
    for (std::size_t number = 0; number < parents_.size(); ++number) {
      parts.push_back({parents_[number]->open(of_part(epoch, number)), weights_.empty() ? 0.0 : weights_[number], number});
    }
    return std::make_unique<Reader>(std::move(parts), ends_with_first_, !weights_.empty(), Draws(epoch, facts(epoch).draws));
  }

  PipelineFacts facts(const StreamEpoch& epoch) const override {
    PipelineFacts all{.size = ends_with_first_ ? std::nullopt : std::optional<std::int64_t>(0)};
    all.shuffles = !weights_.empty();
    for (std::size_t number = 0; number < parents_.size(); ++number) {
      const PipelineFacts facts = parents_[number]->facts(of_part(epoch, number));
      all.size = all.size && facts.size ? std::optional(*all.size + *facts.size) : std::nullopt;
      all.shuffles = all.shuffles || facts.shuffles;
      all.is_divided = all.is_divided || facts.is_divided;
      all.can_skip = all.can_skip && facts.can_skip;
      all.draws = std::max(all.draws, facts.draws + 1);
    }
    return all;
  }
  std::optional<std::uint64_t> fingerprint() const override {
    std::uint64_t all = 0;
    for (const PipelineNodePtr& parent : parents_) {
      const std::optional<std::uint64_t> own = parent->fingerprint();
      if (!own) return std::nullopt;
      all = derived_id(all, *own);
    }
    return all;
  }

 private:
  /// The same elements have other random numbers in another part.
  static StreamEpoch of_part(StreamEpoch epoch, std::size_t number) {
    epoch.seed = derived_id(epoch.seed, number);
    return epoch;
  }

  struct Part {
    std::unique_ptr<PipelineReader> reader;
    double weight;
    std::size_t number;
  };

  class Reader final : public PipelineReader {
   public:
    Reader(std::vector<Part> parts, bool ends_with_first, bool is_weighted, Draws draws)
        : parts_(std::move(parts)), ends_with_first_(ends_with_first), is_weighted_(is_weighted), draws_(draws) {}

    std::optional<PipelineElement> next() override {
      while (!parts_.empty()) {
        const std::size_t chosen = is_weighted_ ? drawn() : turn_;
        Part& part = parts_[chosen];
        if (std::optional<PipelineElement> element = part.reader->next()) {
          turn_ = (chosen + 1) % parts_.size();
          const std::uint64_t id = derived_id(element->id(), part.number);
          return std::move(*element).renamed(id);
        }
        if (ends_with_first_) {
          parts_.clear();
        } else {
          parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(chosen));
        }
        if (turn_ >= parts_.size()) turn_ = 0;
      }
      return std::nullopt;
    }

   private:
    std::size_t drawn() {
      double sum = 0;
      for (const Part& part : parts_) sum += part.weight;
      double left = draws_.fraction() * sum;
      for (std::size_t place = 0; place + 1 < parts_.size(); ++place) {
        left -= parts_[place].weight;
        if (left < 0) return place;
      }
      return parts_.size() - 1;
    }

    std::vector<Part> parts_;  ///< that have not ended
    bool ends_with_first_;
    bool is_weighted_;
    Draws draws_;
    std::size_t turn_ = 0;
  };

  std::vector<PipelineNodePtr> parents_;
  std::vector<double> weights_;
  bool ends_with_first_;
};

}  // namespace

namespace pipeline_nodes {

PipelineNodePtr shuffle(PipelineNodePtr parent, std::optional<std::int64_t> window) {
  return std::make_shared<ShuffleNode>(std::move(parent), window);
}
PipelineNodePtr mix(std::vector<PipelineNodePtr> parents, std::vector<double> weights, bool ends_with_first) {
  return std::make_shared<MixNode>(std::move(parents), std::move(weights), ends_with_first);
}

}  // namespace pipeline_nodes
}  // namespace levin
