#include "levin/strategies/distributed/store_board.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

namespace levin {

namespace {

constexpr const char* kFailureKey = "failure";
constexpr auto kBetweenLooks = std::chrono::milliseconds(500);

std::string where_key(int rank) { return "where/" + std::to_string(rank); }

std::string seconds_text(std::chrono::steady_clock::time_point since) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s",
                std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count());
  return text.data();
}

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::string to_text(const FailureRecord& failure) {
  const nlohmann::json json = {failure.rank,
                               static_cast<int>(failure.where.stage),
                               static_cast<int>(failure.where.hook),
                               failure.where.epoch,
                               failure.where.step,
                               failure.error};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

FailureRecord from_text(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  return {json.at(0).get<int>(),
          {static_cast<Stage>(json.at(1).get<int>()), static_cast<Hook>(json.at(2).get<int>()), json.at(3).get<std::int64_t>(),
           json.at(4).get<std::int64_t>()},
          json.at(5).get<std::string>()};
}

}  // namespace

StoreBoard::StoreBoard(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size)
    : store_(store->clone()), rank_(rank), size_(size) {}

void StoreBoard::post_whereabouts(const Whereabouts& where) noexcept {
  const std::lock_guard lock(mutex_);
  where_ = where;
  where_since_ = Clock::now();
}

Whereabouts StoreBoard::own_whereabouts() const {
  const std::lock_guard lock(mutex_);
  return where_;
}

void StoreBoard::post_waiting(const char* what) noexcept {
  const std::lock_guard lock(mutex_);
  waiting_in_ = what == nullptr ? "" : what;
  waiting_since_ = Clock::now();
}

void StoreBoard::begin_reduction() noexcept {
  post_waiting("the gradient reduction");
  const std::lock_guard lock(mutex_);
  in_reduction_ = true;
  ++reductions_;
}

void StoreBoard::end_reduction() noexcept {
  const std::lock_guard lock(mutex_);
  if (!in_reduction_) return;
  in_reduction_ = false;
  waiting_in_.clear();
}

std::string StoreBoard::own_line() const {
  const std::lock_guard lock(mutex_);
  std::string line = "rank " + std::to_string(rank_) + ": in " + describe(where_) + " for " + seconds_text(where_since_);
  if (!waiting_in_.empty()) line += ", waits in " + waiting_in_ + " for " + seconds_text(waiting_since_);
  return line;
}

std::string StoreBoard::own_post() const {
  const std::string line = own_line();
  const std::lock_guard lock(mutex_);
  const nlohmann::json json = {in_reduction_ ? reductions_ : 0, line};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

StoreBoard::Posted StoreBoard::posted_by(int rank) const {
  Posted posted{0, "rank " + std::to_string(rank) + ": has said nothing yet"};
  try {
    const std::string key = where_key(rank);
    if (!store_->check({key})) return posted;
    const auto bytes = store_->get(key);
    const auto json = nlohmann::json::parse(bytes.begin(), bytes.end());
    return {json.at(0).get<std::int64_t>(), json.at(1).get<std::string>()};
  } catch (const std::exception&) {
    posted.line = "rank " + std::to_string(rank) + ": the run's store does not answer";
    return posted;
  }
}

std::string StoreBoard::table() const {
  std::string text;
  for (int rank = 0; rank < size_; ++rank) {
    text += (text.empty() ? "  " : "\n  ") + (rank == rank_ ? own_line() : posted_by(rank).line);
  }
  return text;
}

std::optional<int> StoreBoard::rank_in_later_reduction() const {
  std::int64_t own = 0;
  {
    const std::lock_guard lock(mutex_);
    own = reductions_;
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && posted_by(peer).reduction > own) return peer;
  }
  return std::nullopt;
}

bool StoreBoard::claim_stall_report(double seconds) noexcept {
  // One line a rank is what hosts can do without asking one another.
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  if (stall_reported_ != Clock::time_point{} && std::chrono::duration<double>(now - stall_reported_).count() < seconds)
    return false;
  stall_reported_ = now;
  return true;
}

double StoreBoard::seconds_in_reduction() const {
  const std::lock_guard lock(mutex_);
  return in_reduction_ ? std::chrono::duration<double>(Clock::now() - waiting_since_).count() : 0;
}

void StoreBoard::report_failure(const FailureRecord& failure) noexcept {
  try {
    const auto kept = store_->compareSet(kFailureKey, {}, bytes_of(to_text(failure)));
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = from_text(std::string(kept.begin(), kept.end()));
  } catch (const std::exception&) {
    // The store went with its host or launcher: this rank still knows of its own failure.
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
  }
}

std::optional<FailureRecord> StoreBoard::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void StoreBoard::wait_for_failure(std::chrono::milliseconds limit) const {
  std::this_thread::sleep_for(std::min(limit, std::chrono::milliseconds(kBetweenLooks)));
  exchange();
}

void StoreBoard::exchange() const {
  if (failure()) return;
  try {
    store_->set(where_key(rank_), bytes_of(own_post()));
    if (!store_->check({kFailureKey})) return;
    const auto bytes = store_->get(kFailureKey);
    const std::lock_guard lock(mutex_);
    failure_ = from_text(std::string(bytes.begin(), bytes.end()));
  } catch (const std::exception&) {
    // The store ends with rank 0 or with the launcher; a wait for a rank that is gone notices by its connection.
  }
}

}  // namespace levin
