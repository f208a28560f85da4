#include <c10/util/Exception.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/console/console.h"
#include "levin/core/protocol/boundary_exchange.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/protocol/metrics.h"
#include "levin/strategies/host/status_board.h"
#include "levin/strategies/launch/cluster_environment.h"
#include "levin/strategies/world/process_world.h"

namespace levin {

namespace {

constexpr std::size_t kMostDimensions = 16;
/// Of what a rank says of its tensor: with so many dimensions the sizes, and no more than 100 bytes.
constexpr std::size_t kDescriptionBytes = 22 * kMostDimensions + 100;

/// While this lives, the rank is in an exchange over the process group, which cannot end without the others.
class InExchange {
 public:
  InExchange(StatusBoard& board, const std::string& what) : board_(board) {
    board_.begin_reduction();
    board_.post_waiting(what.c_str());
  }
  ~InExchange() { board_.end_reduction(); }
  InExchange(const InExchange&) = delete;
  InExchange& operator=(const InExchange&) = delete;

 private:
  StatusBoard& board_;
};

c10d::ReduceOp reduce_op(Reduce op) {
  return op == Reduce::kMin ? c10d::ReduceOp::MIN : op == Reduce::kMax ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM;
}

/// The type in which values are combined, which process groups know, so that a large tensor gives what a small one does: a mean
/// of 16-bit numbers is that of their sum in 32 bits, and whole numbers of few bits wrap around alike.
at::ScalarType combined_in(at::ScalarType type) {
  if (type == at::kHalf || type == at::kBFloat16) return at::kFloat;
  return c10::isIntegralType(type, /*includeBool=*/true) && c10::elementSize(type) < sizeof(std::int32_t) ? at::kInt : type;
}

at::Tensor reduce_rows(const at::Tensor& rows, Reduce op) {
  if (op == Reduce::kMean) return rows.mean(0);
  if (op == Reduce::kMin) return std::get<0>(rows.min(0));
  if (op == Reduce::kMax) return std::get<0>(rows.max(0));
  return rows.sum(0, /*keepdim=*/false, rows.scalar_type());
}

/// The values in memory as they are: not strided, and not the conjugates or negatives of what is there.
at::Tensor plain(const at::Tensor& tensor) { return tensor.detach().resolve_conj().resolve_neg().contiguous(); }

/// As process groups send any type; some know few.
at::Tensor sent_bytes(const at::Tensor& tensor) { return tensor.view(-1).view(at::kByte); }

bool is_small(const at::Tensor& tensor) { return tensor.nbytes() <= kSmallTensorBytes; }

constexpr auto kBoardPatience = std::chrono::seconds(1);

/// How an error came about.
struct Origin {
  bool is_lost_connection = false;
  bool is_recorded_failure = false;  ///< it only says what was written down before
  bool is_final = false;             ///< of the configuration or the program: it would come again
  bool tells_its_place = false;      ///< of the configuration, whose file and line it names
};

Origin origin_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ConnectionLost&) {
    return {.is_lost_connection = true};
  } catch (const c10::DistError&) {
    return {.is_lost_connection = true};  // NCCL's
  } catch (const RecordedFailure&) {
    return {.is_recorded_failure = true};
  } catch (const ConfigError&) {
    return {.is_final = true, .tells_its_place = true};
  } catch (const MisuseError&) {
    return {.is_final = true};
  } catch (...) {
    return {};
  }
}

/// Another rank may be about to write its record.
void wait_for_record(const StatusBoard& board) {
  const auto deadline = std::chrono::steady_clock::now() + kBoardPatience;
  while (!board.failure() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void wait_for_the_cause(StatusBoard& board) {
  wait_for_record(board);
  if (board.failure()) return;
  if (const auto ended = board.ended_rank()) {
    // A rank behind a lost connection is silent, as one whose process has ended.
    const char* const link = board.spans_hosts() ? ", or its host cannot be reached" : "";
    board.report_failure(
        {.rank = *ended, .where = {}, .error = format("its process ended in the middle of the run{}", link), .is_lost = true});
  }
}

/// What the rank that had `own` says when `first` was before it.
std::string text_after(const FailureRecord& first, const FailureRecord& own, const Origin& origin) {
  if (origin.is_lost_connection || origin.is_recorded_failure) return consequence(own.rank, own.where, first);
  const std::string who = format("rank {} failed ", own.rank);
  // All that ranks know of one another's errors is what each wrote down.
  if (own.error == first.error) return format("{}alike {}", who, describe_place(own.where));
  return format("{}too, {}: {} (before it, {})", who, describe_place(own.where), own.error, first.place());
}

/// "digits.cpp:41"
std::string call_site_text(SourceLocation where) {
  return format("{}:{}", std::filesystem::path(where.file_name()).filename(), where.line());
}

// Checks of the arguments of users' collectives, the same on one rank. Each throws MisuseError with the call site.

[[noreturn]] void refuse(SourceLocation where, const std::string& why) {
  throw MisuseError(call_site_text(where) + ": " + why);
}

/// "mean", "sum", "min" or "max".
Reduce parse_reduce_op(const std::string& name, SourceLocation where) {
  if (name == "mean" || name == "avg") return Reduce::kMean;
  if (name == "sum") return Reduce::kSum;
  if (name == "min") return Reduce::kMin;
  if (name == "max") return Reduce::kMax;
  refuse(where, "all_reduce does not know '" + name + "': use mean, sum, min or max");
}

/// A tensor has a value. A mean needs a floating-point (or complex) tensor; of whole numbers it would lose its fraction.
/// Complex numbers have no min or max.
void check_reducible(Reduce op, const at::Tensor& tensor, SourceLocation where) {
  if (!tensor.defined()) {
    refuse(where, "all_reduce got a tensor without a value: a gradient, perhaps, of a parameter that the loss does not use");
  }
  if (tensor.is_complex() && (op == Reduce::kMin || op == Reduce::kMax)) {
    refuse(where, "all_reduce knows no min or max of complex numbers, which have no order");
  }
  if (op != Reduce::kMean || c10::isFloatingType(tensor.scalar_type()) || c10::isComplexType(tensor.scalar_type())) return;
  refuse(where, format("all_reduce cannot take the mean of a tensor of {}; convert it to a floating type, or use sum",
                       c10::toString(tensor.scalar_type())));
}

void check_source_rank(int source_rank, int world_size, SourceLocation where) {
  if (source_rank >= 0 && source_rank < world_size) return;
  refuse(where, format("broadcast from rank {}, but there are ranks 0 to {} only", source_rank, world_size - 1));
}

}  // namespace

void ProcessWorld::agree(const at::Tensor& tensor, const std::string& what, const std::string& detail) {
  if (static_cast<std::size_t>(tensor.dim()) > kMostDimensions) {
    throw MisuseError(format("{}: tensors of more than {} dimensions cannot be exchanged", what, kMostDimensions));
  }
  // The device too: small tensors travel from any; large ones would wait in different groups.
  const std::string description = c10::str(tensor.scalar_type(), " ", tensor.sizes(), " on ",
                                           c10::DeviceTypeName(tensor.device().type(), /*lower_case=*/true), detail);
  std::array<char, kDescriptionBytes> mine{};
  description.copy(mine.data(), mine.size() - 1);
  std::vector<std::array<char, kDescriptionBytes>> all(static_cast<std::size_t>(world_size()));
  control_group_->all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)), what.c_str());
  if (std::all_of(all.begin(), all.end(), [&](const auto& other) { return other == mine; })) return;
  std::string tensors;
  for (std::size_t rank = 0; rank < all.size(); ++rank) tensors += format("\n  rank {}: {}", rank, text_in(all[rank]));
  throw DesyncError(format("ranks came to {} with different tensors or arguments:{}", what, tensors));
}

at::Tensor ProcessWorld::gather(const at::Tensor& tensor, const std::string& what) {
  const at::Tensor mine = plain(tensor).to(at::kCPU);
  std::vector<std::int64_t> sizes = mine.sizes().vec();
  sizes.insert(sizes.begin(), world_size());
  const at::Tensor all = torch::empty(sizes, mine.options());
  const std::span own(static_cast<const std::byte*>(mine.const_data_ptr()), mine.nbytes());
  control_group_->all_gather(own, {static_cast<std::byte*>(all.mutable_data_ptr()), all.nbytes()}, what.c_str());
  return all.to(tensor.device());
}

at::Tensor ProcessWorld::all_gather(const at::Tensor& tensor, SourceLocation where) {
  const std::string what = "all_gather at " + call_site_text(where);
  agree(tensor, what);
  if (is_small(tensor)) return gather(tensor, what);
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  sizes.insert(sizes.begin(), world_size());
  const at::Tensor own = plain(tensor);
  const at::Tensor result = torch::empty(sizes, own.options());
  std::vector<at::Tensor> mine = {sent_bytes(own)};
  std::vector<std::vector<at::Tensor>> all(1);
  for (const at::Tensor& row : result.unbind()) all[0].push_back(sent_bytes(row));
  const InExchange exchange(*board_, what);
  process_group_->allgather(all, mine)->wait();
  return result;
}

at::Tensor ProcessWorld::all_reduce(const at::Tensor& tensor, const std::string& op_name, SourceLocation where) {
  const Reduce op = parse_reduce_op(op_name, where);
  check_reducible(op, tensor, where);
  const std::string what = format("all_reduce({}) at {}", reduce_name(op), call_site_text(where));
  agree(tensor, what);
  if (is_small(tensor)) return reduce_rows(gather(tensor, what), op);
  const at::Tensor result =
      plain(tensor).to(combined_in(tensor.scalar_type()), /*non_blocking=*/false, /*copy=*/true, at::MemoryFormat::Contiguous);
  std::vector<at::Tensor> values = {result.is_complex() ? torch::view_as_real(result) : result};
  c10d::AllreduceOptions options;
  options.reduceOp = reduce_op(op);
  const InExchange exchange(*board_, what);
  process_group_->allreduce(values, options)->wait();
  if (op == Reduce::kMean) result.div_(world_size());
  return result.to(tensor.scalar_type());
}

at::Tensor ProcessWorld::broadcast(const at::Tensor& tensor, int source_rank, SourceLocation where) {
  check_source_rank(source_rank, world_size(), where);
  const std::string what = "broadcast at " + call_site_text(where);
  agree(tensor, what, format(" from rank {}", source_rank));
  if (is_small(tensor)) {
    const at::Tensor own = plain(tensor).cpu();
    const std::string received = control_group_->broadcast({static_cast<const char*>(own.const_data_ptr()), own.nbytes()},
                                                           source_rank, own.nbytes(), what.c_str());
    const at::Tensor result = at::empty_like(own);
    received.copy(static_cast<char*>(result.mutable_data_ptr()), received.size());
    return result.to(tensor.device());
  }
  const at::Tensor result = plain(tensor).clone();
  std::vector<at::Tensor> values = {sent_bytes(result)};
  c10d::BroadcastOptions options;
  options.rootRank = source_rank;
  const InExchange exchange(*board_, what);
  process_group_->broadcast(values, options)->wait();
  return result;
}

void ProcessWorld::barrier(const std::string& what, SourceLocation where) {
  const std::string text = format("barrier{} at {}", what.empty() ? "" : format(" '{}'", what), call_site_text(where));
  control_group_->all_gather({}, {}, text.c_str());
}

std::optional<std::string> report_own_failure(StatusBoard& board, const Whereabouts& where,
                                              const std::exception_ptr& error) noexcept {
  try {
    const Origin origin = origin_of(error);
    const FailureRecord own{board.rank(), where, error_text(error), origin.is_final};
    if (!board.failure() && origin.is_lost_connection) wait_for_the_cause(board);
    board.report_failure(own);
    wait_for_record(board);
    const FailureRecord first = board.failure().value_or(own);
    if (first.rank == board.rank()) {
      if (OwnProcess::is_one()) Console::instance().mark_told(error);
      write_error_file(first);
      return std::nullopt;
    }
    if (own.error == first.error) board.post_failed_alike();
    const std::string text = text_after(first, own, origin);
    board.keep_explanation(text);
    write_consequence_file(text, first);
    return text;
  } catch (const std::exception&) {
    // Out of memory while reporting: the end of this process is what the others will see.
    return std::nullopt;
  }
}

std::optional<BatchJob> JobRankGroup::batch_job() const {
  const auto job = slurm_job();
  return job ? std::optional(BatchJob{"Slurm", job->number, job->restarts}) : std::nullopt;
}

void JobRankGroup::requeue(const BatchJob& job) { requeue_slurm_job(job.number); }

void ProcessWorld::post_whereabouts(const Whereabouts& whereabouts) {
  // A reduction runs inside backward; every other hook comes after its end.
  if (whereabouts.hook != Hook::kBackward && whereabouts.hook != Hook::kOnBeforeBackward) board_->end_reduction();
  board_->post_whereabouts(whereabouts);
  // The first hook of every entry point: from here to its end, a process that ends has failed.
  if (whereabouts.hook == Hook::kConfigureCallbacks) board_->post_busy(true);
}

void ProcessWorld::report_failure(const Whereabouts& whereabouts, const std::exception_ptr& error) noexcept {
  report_own_failure(*board_, whereabouts, error);
}

std::optional<std::string> ProcessWorld::failure_elsewhere() const {
  const std::optional<std::string> consequence = board_->explanation();
  // Who asks leaves with it. Until then the failure watch may end this process, and says it.
  if (consequence) board_->post_explained();
  return consequence;
}

std::optional<int> ProcessWorld::lost_rank() const {
  const auto failure = board_->failure();
  return failure && failure->is_lost ? std::optional(failure->rank) : std::nullopt;
}

at::Tensor SingleRankGroup::all_gather(const at::Tensor& tensor, SourceLocation) {
  return tensor.detach().unsqueeze(0).clone();
}

at::Tensor SingleRankGroup::all_reduce(const at::Tensor& tensor, const std::string& op, SourceLocation where) {
  check_reducible(parse_reduce_op(op, where), tensor, where);
  return tensor.detach().clone();
}

at::Tensor SingleRankGroup::broadcast(const at::Tensor& tensor, int source_rank, SourceLocation where) {
  check_source_rank(source_rank, 1, where);
  return tensor.detach().clone();
}

void SingleRankGroup::report_failure(const Whereabouts& whereabouts, const std::exception_ptr& error) noexcept {
  try {
    const std::string text = error_text(error);
    write_error_file({0, whereabouts, text});
    if (origin_of(error).tells_its_place) return;
    const std::string told = format("failed {}: {}", describe_place(whereabouts), text);
    // Whoever embeds levin hears of it once, by what is thrown.
    if (!OwnProcess::is_one()) return Console::instance().record(LogLevel::kError, told);
    Console::instance().error(told);
    Console::instance().mark_told(error);
  } catch (const std::exception&) {
    // Out of memory while reporting: the error itself is on its way.
  }
}

}  // namespace levin
