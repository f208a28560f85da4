#include "levin/strategies/world/store_status_board.h"

#include <algorithm>
#include <thread>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/strategies/failure/failure.h"
#include "levin/strategies/world/rendezvous.h"

namespace levin {

namespace {

constexpr const char* kFailureKey = "failure";
constexpr const char* kClaimKey = "failure_claimed";
constexpr auto kBetweenLooks = std::chrono::milliseconds(400);
/// A rank whose posts have not changed for so long is gone or stopped.
constexpr auto kSilence = std::chrono::milliseconds(1500);
constexpr auto kPatience = std::chrono::milliseconds(1000);
constexpr auto kPause = std::chrono::milliseconds(1);
constexpr int kTries = 5;

std::string post_key(int rank) { return format("where/{}", rank); }

/// Where levin's launcher sees this host's ranks, the failure is reported here once. Their memory has the exact position of
/// each.
void announce(const std::shared_ptr<RunSegment>& launched, FailureRecord record) {
  if (!launched) return print_failure(record);
  if (launched->has(record.rank)) record.where = whereabouts_of(*launched, record.rank);
  record_failure(*launched, record);
}

}  // namespace

StoreStatusBoard::StoreStatusBoard(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, bool rank_zero_serves,
                                   std::shared_ptr<RunSegment> launched)
    : StatusBoard(std::move(launched), rank), store_(store->clone()), size_(size), rank_zero_serves_(rank_zero_serves) {}

RankPost StoreStatusBoard::own_post() const {
  const Whereabouts where = own_whereabouts();
  const auto wait = waiting();
  const std::int64_t since = slot().where_since.load();
  const double seconds = static_cast<double>(monotonic_nanoseconds() - (since != 0 ? since : begin_)) / 1e9;
  std::string line = format("rank {}: {} for {:.1f} s", rank(), describe_place(where), seconds);
  if (wait) line += format(", waits in {} for {:.1f} s", wait->what, wait->seconds);
  const std::lock_guard lock(mutex_);
  return {++number_of_posts_, where, wait.has_value(), wait && wait->in_reduction ? slot().reductions.load() : 0, line};
}

template <class Call>
auto StoreStatusBoard::ask(Call call) const -> std::optional<std::invoke_result_t<Call, c10d::Store&>> {
  if (store_is_gone_) return std::nullopt;
  try {
    return thread_.call_until(Clock::now() + kPatience, [call = std::move(call), store = store_] { return call(*store); });
  } catch (const std::exception&) {
    // A connection that is lost does not come back.
    store_is_gone_ = true;
    return std::nullopt;
  }
}

std::optional<std::vector<RankPost>> StoreStatusBoard::posts() const {
  auto all = ask([size = size_](c10d::Store& store) {
    std::vector<RankPost> posts;
    for (int rank = 0; rank < size; ++rank) {
      const std::string text = store.check({post_key(rank)}) ? store.get_to_str(post_key(rank)) : "";
      posts.push_back(post_from_text(text).value_or(RankPost{}));
    }
    return posts;
  });
  if (all) (*all)[static_cast<std::size_t>(rank())] = own_post();
  return all;
}

std::string StoreStatusBoard::table() const {
  const auto all = posts();
  if (!all) return format("  {}\n  the others are unknown: the run's store does not answer", own_post().line);
  std::vector<std::string> lines;
  for (const RankPost& post : *all) {
    lines.push_back(post.number == 0 ? format("  rank {}: has reported nothing yet", lines.size()) : "  " + post.line);
  }
  return join(lines, "\n");
}

std::optional<int> StoreStatusBoard::silent_rank() const {
  const auto before = posts();
  // This may be the watch's thread, which posts for its rank: the others must not take the rank for silent.
  for (auto until = Clock::now() + kSilence; before && Clock::now() < until; exchange())
    std::this_thread::sleep_for(kPause * 200);
  const auto after = before ? posts() : std::nullopt;
  if (!after) return rank_zero_serves_ && rank() != 0 ? std::optional(0) : std::nullopt;
  for (int peer = 0; peer < size_; ++peer) {
    const auto index = static_cast<std::size_t>(peer);
    if (peer != rank() && (*after)[index].number == (*before)[index].number) return peer;
  }
  return std::nullopt;
}

std::optional<int> StoreStatusBoard::rank_in_later_reduction() const {
  const auto all = posts();
  const std::int64_t own = slot().reductions.load();
  for (int peer = 0; all && peer < size_; ++peer) {
    if (peer != rank() && (*all)[static_cast<std::size_t>(peer)].reduction > own) return peer;
  }
  return std::nullopt;
}

std::optional<int> StoreStatusBoard::stalled_rank() const {
  if (const auto silent = silent_rank()) return silent;
  const auto all = posts();
  if (!all) return std::nullopt;
  const auto busy = std::find_if(all->begin(), all->end(), [](const RankPost& post) { return !post.waits; });
  return busy == all->end() ? std::nullopt : std::optional(static_cast<int>(busy - all->begin()));
}

void StoreStatusBoard::report_failure(const FailureRecord& failure) noexcept {
  try {
    if (!this->failure()) write_down(failure);
    // The store ends with this process, and the others must first read there which rank failed.
    if (rank_zero_serves_ && rank() == 0) std::this_thread::sleep_for(kSilence);
  } catch (const std::exception&) {
    // Out of memory: the end of this process is what the others will see.
  }
}

void StoreStatusBoard::write_down(FailureRecord record) const {
  if (segment() && segment()->has(record.rank) && record.rank != rank()) {
    record.where = whereabouts_of(*segment(), record.rank);
  } else if (record.rank != rank()) {
    const auto all = posts();
    const std::lock_guard lock(mutex_);
    record.where = all                ? (*all)[static_cast<std::size_t>(record.rank)].where
                   : record.rank == 0 ? rank_zero_was_
                                      : kBeforeFirstHook;
  }
  publish(record);
}

void StoreStatusBoard::publish(const FailureRecord& record) const {
  const auto first = std::make_shared<std::atomic<bool>>(false);
  const auto claim = [record, first, launched = segment()](c10d::Store& store) {
    // Printed before the others can read it, so that this is the first line.
    *first = store.add(kClaimKey, 1) == 1;
    if (*first) announce(launched, record);
    if (*first) store.set(kFailureKey, to_text(record));
    return true;
  };
  const bool answered = ask(claim).has_value();
  // The store went with its process: this rank still knows what it has seen itself.
  if (!answered && !*first) announce(segment(), record);
  if (!answered || *first) return keep(record);
  // Another rank was first, and is about to write down what happened.
  for (int tries = 0; tries < kTries && !this->failure(); ++tries) {
    post_and_look();
    std::this_thread::sleep_for(kPause * 100);
  }
  keep(record);
}

void StoreStatusBoard::keep(const FailureRecord& failure) const {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
  }
  // The first rank of this host that learns of it reports it here.
  if (segment()) announce(segment(), failure);
}

std::optional<FailureRecord> StoreStatusBoard::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void StoreStatusBoard::wait_for_failure(std::chrono::milliseconds limit) const {
  std::this_thread::sleep_for(limit);
  if (Clock::now() - last_exchange_ < kBetweenLooks) return;
  last_exchange_ = Clock::now();
  exchange();
}

void StoreStatusBoard::exchange() const {
  if (failure()) return;
  if (const auto seen_here = segment() ? recorded_failure(*segment()) : std::nullopt) return publish(*seen_here);
  post_and_look();
}

void StoreStatusBoard::post_and_look() const {
  struct Answer {
    std::string failure;
    std::string rank_zero;
  };
  const auto answer = ask([text = to_text(own_post()), rank = rank()](c10d::Store& store) {
    store.set(post_key(rank), text);
    Answer answer;
    if (store.check({kFailureKey})) answer.failure = store.get_to_str(kFailureKey);
    if (store.check({post_key(0)})) answer.rank_zero = store.get_to_str(post_key(0));
    return answer;
  });
  // Without an answer, a wait for a rank that is gone notices by its connection.
  if (!answer) return;
  // A malformed failure does not come from a rank of this build.
  if (const auto failure = failure_from_text(answer->failure, size_)) keep(*failure);
  const auto rank_zero = post_from_text(answer->rank_zero);
  if (!rank_zero) return;
  const std::lock_guard lock(mutex_);
  rank_zero_was_ = rank_zero->where;
}

}  // namespace levin
