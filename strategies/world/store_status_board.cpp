#include "levin/strategies/world/store_status_board.h"

#include <algorithm>
#include <thread>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/strategies/failure/failure_record.h"
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

std::string seconds_since(std::chrono::steady_clock::time_point since) {
  return format("{:.1f} s", std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count());
}

/// Where a launcher of ours sees this host's ranks, it is told here once.
void announce(const std::shared_ptr<SharedMemoryStatusBoard>& host, const FailureRecord& record) {
  host ? host->report_failure(record) : print_failure(record);
}

}  // namespace

StoreStatusBoard::StoreStatusBoard(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, bool rank_zero_serves,
                                   std::shared_ptr<SharedMemoryStatusBoard> host)
    : store_(store->clone()), rank_(rank), size_(size), rank_zero_serves_(rank_zero_serves), host_(std::move(host)) {}

void StoreStatusBoard::post_busy(bool busy) noexcept {
  if (host_) host_->post_busy(busy);
}

void StoreStatusBoard::post_explained() noexcept {
  StatusBoard::post_explained();
  if (host_) host_->post_explained();
}

void StoreStatusBoard::post_failed_alike() noexcept {
  if (host_) host_->post_failed_alike();
}

void StoreStatusBoard::post_whereabouts(const Whereabouts& where) noexcept {
  if (host_) host_->post_whereabouts(where);
  const std::lock_guard lock(mutex_);
  where_ = where;
  where_since_ = Clock::now();
}

Whereabouts StoreStatusBoard::own_whereabouts() const {
  const std::lock_guard lock(mutex_);
  return where_;
}

void StoreStatusBoard::post_waiting(const char* what) noexcept {
  const std::lock_guard lock(mutex_);
  waiting_in_ = what == nullptr ? "" : what;
  waiting_since_ = Clock::now();
}

void StoreStatusBoard::begin_reduction() noexcept {
  post_waiting("the gradient reduction");
  const std::lock_guard lock(mutex_);
  in_reduction_ = true;
  ++reductions_;
}

void StoreStatusBoard::end_reduction() noexcept {
  const std::lock_guard lock(mutex_);
  if (!in_reduction_) return;
  in_reduction_ = false;
  waiting_in_.clear();
}

RankPost StoreStatusBoard::own_post() const {
  const std::lock_guard lock(mutex_);
  std::string line = format("rank {}: {} for {}", rank_, describe_place(where_), seconds_since(where_since_));
  if (!waiting_in_.empty()) line += format(", waits in {} for {}", waiting_in_, seconds_since(waiting_since_));
  return {++number_of_posts_, where_, !waiting_in_.empty(), in_reduction_ ? reductions_ : 0, line};
}

bool StoreStatusBoard::ask(StoreCall call) const {
  if (store_is_gone_) return false;
  try {
    const auto made = [call = std::move(call), store = store_] {
      call(*store);
      return true;
    };
    return thread_.call_until(Clock::now() + kPatience, made).has_value();
  } catch (const std::exception&) {
    // A connection that is lost does not come back.
    store_is_gone_ = true;
    return false;
  }
}

std::optional<std::vector<RankPost>> StoreStatusBoard::posts() const {
  const auto read = std::make_shared<std::vector<RankPost>>(static_cast<std::size_t>(size_));
  const bool answered = ask([read](c10d::Store& store) {
    for (std::size_t rank = 0; rank < read->size(); ++rank) {
      const std::string key = post_key(static_cast<int>(rank));
      if (!store.check({key})) continue;
      (*read)[rank] = post_from_text(store.get_to_str(key)).value_or(RankPost{});
    }
  });
  if (!answered) return std::nullopt;
  (*read)[static_cast<std::size_t>(rank_)] = own_post();
  return *read;
}

std::string StoreStatusBoard::table() const {
  const auto all = posts();
  if (!all) return format("  {}\n  of the others nothing is known: the run's store does not answer", own_post().line);
  std::vector<std::string> lines;
  for (const RankPost& post : *all) {
    lines.push_back(post.number == 0 ? format("  rank {}: has said nothing yet", lines.size()) : "  " + post.line);
  }
  return join(lines, "\n");
}

std::optional<int> StoreStatusBoard::silent_rank() const {
  const auto before = posts();
  // This may be the watch's thread, which posts for its rank: the others must not take it for silent meanwhile.
  for (auto until = Clock::now() + kSilence; before && Clock::now() < until; exchange())
    std::this_thread::sleep_for(kPause * 200);
  const auto after = before ? posts() : std::nullopt;
  if (!after) return rank_zero_serves_ && rank_ != 0 ? std::optional(0) : std::nullopt;
  for (int rank = 0; rank < size_; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    if (rank != rank_ && (*after)[index].number == (*before)[index].number) return rank;
  }
  return std::nullopt;
}

std::optional<int> StoreStatusBoard::rank_in_later_reduction() const {
  const auto all = posts();
  const std::lock_guard lock(mutex_);
  for (int peer = 0; all && peer < size_; ++peer) {
    if (peer != rank_ && (*all)[static_cast<std::size_t>(peer)].reduction > reductions_) return peer;
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

bool StoreStatusBoard::claim_stall_report(double seconds) noexcept {
  // One line a rank is what hosts can do without asking one another.
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  if (stall_reported_ != Clock::time_point{} && std::chrono::duration<double>(now - stall_reported_).count() < seconds)
    return false;
  stall_reported_ = now;
  return true;
}

std::optional<RankWait> StoreStatusBoard::waiting() const {
  const std::lock_guard lock(mutex_);
  if (waiting_in_.empty()) return std::nullopt;
  return RankWait{waiting_in_, std::chrono::duration<double>(Clock::now() - waiting_since_).count(), in_reduction_};
}

void StoreStatusBoard::report_failure(const FailureRecord& failure) noexcept {
  try {
    if (!this->failure()) write_down(failure);
    // The store goes with this process, and the others have yet to read there who failed.
    if (rank_zero_serves_ && rank_ == 0) std::this_thread::sleep_for(kSilence);
  } catch (const std::exception&) {
    // Out of memory: the end of this process is what the others will see.
  }
}

void StoreStatusBoard::write_down(FailureRecord record) const {
  if (record.rank != rank_) {
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
  const bool answered = ask([record, first, host = host_](c10d::Store& store) {
    // Printed before the others can read it, so that this is the first line.
    *first = store.add(kClaimKey, 1) == 1;
    if (!*first) return;
    announce(host, record);
    store.set(kFailureKey, to_text(record));
  });
  // The store went with its process: this rank still knows what it has seen itself.
  if (!answered && !*first) announce(host_, record);
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
  // Who is first on this host to hear of it tells it here.
  if (host_) announce(host_, failure);
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
  if (const auto seen_here = host_ ? host_->failure() : std::nullopt) return publish(*seen_here);
  post_and_look();
}

void StoreStatusBoard::post_and_look() const {
  struct Answer {
    std::string failure;
    std::string rank_zero;
  };
  const auto answer = std::make_shared<Answer>();
  const RankPost post = own_post();
  const bool answered = ask([answer, post, rank = rank_](c10d::Store& store) {
    store.set(post_key(rank), to_text(post));
    if (store.check({kFailureKey})) answer->failure = store.get_to_str(kFailureKey);
    if (store.check({post_key(0)})) answer->rank_zero = store.get_to_str(post_key(0));
  });
  // Without an answer, a wait for a rank that is gone notices by its connection.
  if (!answered) return;
  // What is no failure is none of a rank of this build's.
  if (const auto failure = failure_from_text(answer->failure, size_)) keep(*failure);
  const auto rank_zero = post_from_text(answer->rank_zero);
  if (!rank_zero) return;
  const std::lock_guard lock(mutex_);
  rank_zero_was_ = rank_zero->where;
}

}  // namespace levin
