#include "levin/strategies/distributed/user_collectives.h"

#include <torch/types.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "levin/core/base/format.h"
#include "levin/core/error.h"
#include "levin/strategies/reduce_op.h"

namespace levin {

namespace {

constexpr std::size_t kMostDimensions = 16;

/// What all ranks must say alike before data moves.
struct TensorHeader {
  std::int64_t detail = 0;
  std::int64_t scalar_type = 0;
  std::int64_t dimensions = 0;
  std::array<std::int64_t, kMostDimensions> sizes{};
  friend bool operator==(const TensorHeader&, const TensorHeader&) = default;

  std::string str() const {
    std::ostringstream text;
    // Another rank's numbers, which may be any.
    const auto shown = static_cast<std::size_t>(std::clamp<std::int64_t>(dimensions, 0, kMostDimensions));
    text << static_cast<c10::ScalarType>(scalar_type) << " " << c10::IntArrayRef(sizes.data(), shown);
    return text.str();
  }
};

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
  switch (op) {
    case Reduce::kMin:
      return c10d::ReduceOp::MIN;
    case Reduce::kMax:
      return c10d::ReduceOp::MAX;
    default:
      return c10d::ReduceOp::SUM;
  }
}

at::Tensor reduce_rows(const at::Tensor& rows, Reduce op) {
  switch (op) {
    case Reduce::kMean:
      return rows.mean(0);
    case Reduce::kMin:
      return std::get<0>(rows.min(0));
    case Reduce::kMax:
      return std::get<0>(rows.max(0));
    case Reduce::kSum:
      break;
  }
  return rows.sum(0, /*keepdim=*/false, rows.scalar_type());
}

bool is_small(const at::Tensor& tensor) { return tensor.nbytes() <= UserCollectives::kSmallBytes; }

}  // namespace

void UserCollectives::agree(const at::Tensor& tensor, std::int64_t detail, const std::string& what) {
  TensorHeader mine;
  mine.detail = detail;
  mine.scalar_type = static_cast<std::int64_t>(tensor.scalar_type());
  mine.dimensions = tensor.dim();
  if (static_cast<std::size_t>(tensor.dim()) > kMostDimensions) {
    throw MisuseError(format("{}: tensors of more than {} dimensions cannot be exchanged", what, kMostDimensions));
  }
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), mine.sizes.begin());
  std::vector<TensorHeader> all(static_cast<std::size_t>(world_.control_group().size()));
  world_.control_group().all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)), what.c_str());
  bool same = true;
  std::string tensors;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    same &= all[rank] == all[0];
    tensors += format("\n  rank {}: {}", rank, all[rank].str());
  }
  if (!same) throw DesyncError(format("ranks came to {} with different tensors or arguments:{}", what, tensors));
}

at::Tensor UserCollectives::gather(const at::Tensor& tensor, const std::string& what) {
  const at::Tensor mine = tensor.detach().to(at::kCPU).contiguous();
  std::vector<std::int64_t> sizes = mine.sizes().vec();
  sizes.insert(sizes.begin(), world_.control_group().size());
  const at::Tensor all = torch::empty(sizes, mine.options());
  const std::span own(static_cast<const std::byte*>(mine.const_data_ptr()), mine.nbytes());
  world_.control_group().all_gather(own, {static_cast<std::byte*>(all.mutable_data_ptr()), all.nbytes()}, what.c_str());
  return all.to(tensor.device());
}

at::Tensor UserCollectives::all_gather(const at::Tensor& tensor, SourceLocation where) {
  const std::string what = "all_gather at " + call_site_text(where);
  agree(tensor, 0, what);
  if (is_small(tensor)) return gather(tensor, what);
  std::vector<at::Tensor> mine = {tensor.detach().contiguous()};
  std::vector<std::vector<at::Tensor>> all(1);
  for (int rank = 0; rank < world_.control_group().size(); ++rank) all[0].push_back(torch::empty_like(mine[0]));
  const InExchange exchange(world_.board(), what);
  world_.process_group()->allgather(all, mine)->wait();
  return torch::stack(all[0]);
}

at::Tensor UserCollectives::all_reduce(const at::Tensor& tensor, const std::string& op_name, SourceLocation where) {
  const Reduce op = parse_reduce_op(op_name, where);
  check_reducible(op, tensor, where);
  const std::string what = format("all_reduce({}) at {}", reduce_name(op), call_site_text(where));
  agree(tensor, static_cast<std::int64_t>(op), what);
  if (is_small(tensor)) return reduce_rows(gather(tensor, what), op);
  std::vector<at::Tensor> result = {tensor.detach().contiguous().clone()};
  c10d::AllreduceOptions options;
  options.reduceOp = reduce_op(op);
  const InExchange exchange(world_.board(), what);
  world_.process_group()->allreduce(result, options)->wait();
  if (op == Reduce::kMean) result[0].div_(world_.control_group().size());
  return result[0];
}

at::Tensor UserCollectives::broadcast(const at::Tensor& tensor, int source_rank, SourceLocation where) {
  check_source_rank(source_rank, world_.control_group().size(), where);
  const std::string what = "broadcast at " + call_site_text(where);
  agree(tensor, source_rank, what);
  if (is_small(tensor)) {
    const at::Tensor own = tensor.detach().cpu().contiguous();
    const std::string received = world_.control_group().broadcast(
        {static_cast<const char*>(own.const_data_ptr()), own.nbytes()}, source_rank, own.nbytes(), what.c_str());
    const at::Tensor result = at::empty_like(own);
    received.copy(static_cast<char*>(result.mutable_data_ptr()), received.size());
    return result.to(tensor.device());
  }
  std::vector<at::Tensor> result = {tensor.detach().contiguous().clone()};
  c10d::BroadcastOptions options;
  options.rootRank = source_rank;
  const InExchange exchange(world_.board(), what);
  world_.process_group()->broadcast(result, options)->wait();
  return result[0];
}

void UserCollectives::barrier(const std::string& what, SourceLocation where) {
  const std::string text = format("barrier{} at {}", what.empty() ? "" : format(" '{}'", what), call_site_text(where));
  world_.control_group().all_gather({}, {}, text.c_str());
}

}  // namespace levin
