// What travels: frames, new metrics, texts, options and votes.

#include <array>
#include <catch2/catch.hpp>
#include <cstring>

#include "levin/core/base/error.h"
#include "levin/core/protocol/boundary_exchange.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/protocol/frame.h"
#include "support/error_of.h"
#include "support/simulated_ranks.h"

using namespace levin;
using namespace levin::detail;

namespace {

/// Rank 1 of 2; rank 0 wishes to stop, in the reduction that it says.
struct TwoRanks final : ControlGroup {
  int rank() const override { return 1; }
  int size() const override { return 2; }
  std::vector<std::string> gather(std::string_view, std::uint64_t, const char*) override { return {}; }
  std::string broadcast(std::string_view, int, std::uint64_t, const char*) override { return ""; }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) override {
    check_sizes(mine, all, what);
    const PublishedVotes first{sequence, pack(Votes{.stop = true})};
    std::memcpy(all.data(), &first, sizeof first);
    std::memcpy(all.data() + sizeof first, mine.data(), mine.size());
  }
  std::int64_t sequence = 7;
};

/// The error of four ranks in one boundary, of which rank 2 sends another header; "" for none.
template <class Change>
std::string error_for(const FrameHeader& good, const Change& change) {
  std::vector<FrameHeader> headers(4, good);
  change(headers[2]);
  return test::error_of<DesyncError>([&] { require_same_boundary(headers); });
}

}  // namespace

TEST_CASE("new metrics arrive as they were packed") {
  NewMetrics new_metrics;
  new_metrics.failure = "no";
  new_metrics.metrics.push_back({Hook::kValidationStep,
                                 3,
                                 "é/\"a,b\"",
                                 {.on_epoch = true, .reduce = Reduce::kMax},
                                 {},
                                 "a.cpp:7",
                                 {1},
                                 {{1, 2}},
                                 {{3, 4}}});
  const NewMetrics copy = unpack_new_metrics(pack(new_metrics));
  REQUIRE(copy.metrics.size() == 1);
  CHECK(copy.failure == "no");
  CHECK(copy.metrics[0].hook == Hook::kValidationStep);
  CHECK(copy.metrics[0].dataloader_idx == 3);
  CHECK(copy.metrics[0].name == "é/\"a,b\"");
  CHECK(copy.metrics[0].options == new_metrics.metrics[0].options);
  CHECK(copy.metrics[0].site == "a.cpp:7");
  CHECK(copy.metrics[0].loader.index == 1);
  CHECK(copy.metrics[0].step.slot.value == 1);
  CHECK(copy.metrics[0].epoch.slot.weight == 4);
}

TEST_CASE("the state of a metric object travels as its layout says, and no more or less") {
  NewMetric metric{Hook::kTrainingStep, -1, "auroc", {.on_step = true}, {}, "a.cpp:7", {}, {}, {}};
  metric.options.object = object_id("auroc");
  metric.layout.numbers = 2;
  metric.layout.rows = 1;
  metric.layout.values = 1;
  metric.step = {object_slot(true, 7, false), {1, 2, 30, 4}};
  metric.epoch.slot = object_slot(false, 0, true);
  const auto arrived = [&] { return unpack_new_metrics(pack({{metric}, ""})).metrics.at(0); };
  const NewMetric copy = arrived();
  CHECK(copy.layout == metric.layout);
  CHECK(copy.step.slot.present());
  CHECK(copy.step.slot.value == 7);
  CHECK_FALSE(knows_rows(copy.step.slot));
  CHECK(copy.step.sizes_of_rows(copy.layout)[0] == 30);
  CHECK(copy.step.values(copy.layout)[0] == 4);
  CHECK_FALSE(copy.epoch.slot.present());
  CHECK(knows_rows(copy.epoch.slot));
  CHECK(copy.epoch.sizes_of_rows(copy.layout).empty());
  metric.step.numbers.push_back(5);
  CHECK_THROWS_AS(arrived(), DesyncError);
  metric.step.numbers.resize(3);
  CHECK_THROWS_AS(arrived(), DesyncError);
  metric.step.numbers.resize(4);
  metric.epoch.numbers.resize(4);  // of what is not present
  CHECK_THROWS_AS(arrived(), DesyncError);
}

TEST_CASE("all options survive packing, and other bits are refused") {
  int legal = 0;
  for (int bits = 0; bits < 1 << 16; ++bits) {
    const auto options = MetricOptions::unpack(static_cast<std::uint16_t>(bits));
    if (!options) continue;
    CHECK(options->pack() == bits);
    ++legal;
  }
  CHECK(legal == 64 * 4 * 3);
}

TEST_CASE("an error of ranks in different boundaries says where each is; every field of the position is compared") {
  const FrameHeader good{.kind = BoundaryKind::kEpochEnd, .stage = Stage::kValidate, .epoch = 1, .step = 40, .sequence = 3};
  CHECK(error_for(good, [](FrameHeader&) {}).empty());
  CHECK_THAT(error_for(good,
                       [](FrameHeader& header) {
                         header = {.kind = BoundaryKind::kTrainStep,
                                   .stage = Stage::kTrain,
                                   .hook = Hook::kOnTrainBatchEnd,
                                   .epoch = 1,
                                   .step = 41,
                                   .sequence = 3};
                       }),
             Catch::Contains("ranks 0, 1, 3 are in the end of an epoch of validate (epoch 1, step 40)") &&
                 Catch::Contains("rank 2 is in a step of train (epoch 1, step 41), hook on_train_batch_end"));
  CHECK_THAT(error_for(good, [](FrameHeader& header) { header.magic = 0; }),
             Catch::Contains("rank 2 is in an exchange that is not a boundary"));
  for (void (*const change)(FrameHeader&) :
       {+[](FrameHeader& header) { header.version = 9; },
        +[](FrameHeader& header) { header.kind = BoundaryKind::kEpochReached; },
        +[](FrameHeader& header) { header.stage = Stage::kTest; }, +[](FrameHeader& header) { header.epoch = 2; },
        +[](FrameHeader& header) { header.step = 1; }, +[](FrameHeader& header) { header.sequence = 4; },
        +[](FrameHeader& header) { header.agreed_hash = 5; }, +[](FrameHeader& header) { header.slots = 32; }}) {
    CHECK_FALSE(error_for(good, change).empty());
  }
}

TEST_CASE("lists of ranks are short") {
  CHECK(rank_list({3}) == "rank 3");
  CHECK(rank_list({0, 1}) == "ranks 0, 1");
  CHECK(rank_list({0, 1, 2, 3, 7, 9, 10}) == "ranks 0-3, 7, 9, 10");
}

TEST_CASE("votes that travel by themselves are read by rank, and never for another reduction") {
  TwoRanks group;
  GatheredVoteChannel board(group);
  board.publish(7, Votes{.gradient_weight = 3});
  const std::vector<Votes> read = board.read(7);
  REQUIRE(read.size() == 2);
  CHECK(read[0].stop);
  CHECK_FALSE(read[1].stop);
  CHECK(read[1].gradient_weight == 3);
  group.sequence = 6;
  board.publish(8, {});
  CHECK_THROWS_WITH(board.read(8), Catch::Contains("rank 0 last published votes for gradient reduction 6, rank 1 is in 8"));
}

TEST_CASE("headers that no rank can have written are named, however alike they are") {
  const FrameHeader good{.kind = BoundaryKind::kEpochEnd, .stage = Stage::kTrain};
  for (void (*const change)(FrameHeader&) :
       {+[](FrameHeader& header) { header.hook = static_cast<Hook>(255); }, +[](FrameHeader& header) { header.failed = 2; },
        +[](FrameHeader& header) { header.kind = static_cast<BoundaryKind>(200); },
        +[](FrameHeader& header) { header.stage = static_cast<Stage>(200); }}) {
    CHECK_THAT(error_for(good, change), Catch::Contains("rank 2 is sending something other than a boundary's header"));
  }
  CHECK_THAT(error_for(good, [](FrameHeader& header) { header.new_metrics_bytes = kMostNewMetricsBytes + 1; }),
             Catch::Contains("rank 2 is announcing 67108865 bytes of new metrics, where the limit is 67108864"));
}

TEST_CASE("a text field without an end is read no further than it is long") {
  const std::array<char, 3> full = {'a', 'b', 'c'};
  const std::array<char, 4> ended = {'a', '\0', 'c', 'd'};
  CHECK(text_in(full) == "abc");
  CHECK(text_in(ended) == "a");
}

TEST_CASE("weights of gradients that no number holds are the largest") {
  const Votes much{.gradient_weight = 0x7fffffff};
  CHECK(merge(std::vector<Votes>(3, much)).gradient_weight == 0x7fffffff);
}

TEST_CASE("each vote travels by itself, and one rank's is everyone's") {
  for (const Votes& vote : {Votes{.stop = true}, Votes{.end_epoch = true}, Votes{.has_next = false}, Votes{.signal = 15},
                            Votes{.parameters_changed = true}, Votes{.loss_is_bad = true}, Votes{.change_pause = true},
                            Votes{.save_checkpoint = true}, Votes{.validate = true}, Votes{.gradient_weight = 7}}) {
    CHECK(unpack_votes(pack(vote)) == vote);
    if (vote.has_next) CHECK(merge({Votes{}, vote}) == vote);
  }
}

TEST_CASE("a buffer that is not for all ranks is refused") {
  const std::array<std::byte, sizeof(PublishedVotes)> mine{};
  std::array<std::byte, 2 * sizeof(PublishedVotes)> all{};
  TwoRanks().all_gather(mine, all, "a test");
  CHECK_THROWS_WITH(TwoRanks().all_gather(mine, std::span(all).first(7), "a test"),
                    "all_gather in a test: the buffer for all ranks has 7 bytes instead of 16 per rank");
}
