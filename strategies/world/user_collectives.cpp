#include "levin/strategies/world/user_collectives.h"

#include <torch/types.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/strategies/transport/reduce_op.h"

namespace levin {

namespace {

constexpr std::size_t kMostDimensions = 16;

/// What all ranks must say alike before data moves.
struct TensorHeader {
  std::int64_t detail = 0;
  std::int64_t device_type = 0;  ///< small tensors travel from any; large ones would wait in different groups
  std::int64_t scalar_type = 0;
  std::int64_t dimensions = 0;
  std::array<std::int64_t, kMostDimensions> sizes{};
  friend bool operator==(const TensorHeader&, const TensorHeader&) = default;

  std::string str() const {
    std::ostringstream text;
    // Another rank's numbers, which may be any.
    const auto shown = static_cast<std::size_t>(std::clamp<std::int64_t>(dimensions, 0, kMostDimensions));
    const auto device = static_cast<c10::DeviceType>(device_type);
    text << static_cast<c10::ScalarType>(scalar_type) << " " << c10::IntArrayRef(sizes.data(), shown) << " on "
         << (c10::isValidDeviceType(device) ? c10::DeviceTypeName(device, /*lower_case=*/true) : "an unknown device");
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

/// The type in which values are combined, which process groups know, so that a large tensor gives what a small one does: a mean
/// of 16-bit numbers is that of their sum in 32 bits, and whole numbers of few bits wrap around alike.
at::ScalarType combined_in(at::ScalarType type) {
  if (type == at::kHalf || type == at::kBFloat16) return at::kFloat;
  return c10::isIntegralType(type, /*includeBool=*/true) && c10::elementSize(type) < sizeof(std::int32_t) ? at::kInt : type;
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

/// The values in memory as they are: not strided, and not the conjugates or negatives of what is there.
at::Tensor plain(const at::Tensor& tensor) { return tensor.detach().resolve_conj().resolve_neg().contiguous(); }

/// As process groups send any type; some know few.
at::Tensor sent_bytes(const at::Tensor& tensor) { return tensor.view(-1).view(at::kByte); }

bool is_small(const at::Tensor& tensor) { return tensor.nbytes() <= UserCollectives::kSmallBytes; }

}  // namespace

void UserCollectives::agree(const at::Tensor& tensor, std::int64_t detail, const std::string& what) {
  TensorHeader mine;
  mine.detail = detail;
  mine.device_type = static_cast<std::int64_t>(tensor.device().type());
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
  const at::Tensor mine = plain(tensor).to(at::kCPU);
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
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  sizes.insert(sizes.begin(), world_.control_group().size());
  const at::Tensor own = plain(tensor);
  const at::Tensor result = torch::empty(sizes, own.options());
  std::vector<at::Tensor> mine = {sent_bytes(own)};
  std::vector<std::vector<at::Tensor>> all(1);
  for (const at::Tensor& row : result.unbind()) all[0].push_back(sent_bytes(row));
  const InExchange exchange(world_.board(), what);
  world_.process_group()->allgather(all, mine)->wait();
  return result;
}

at::Tensor UserCollectives::all_reduce(const at::Tensor& tensor, const std::string& op_name, SourceLocation where) {
  const Reduce op = parse_reduce_op(op_name, where);
  check_reducible(op, tensor, where);
  const std::string what = format("all_reduce({}) at {}", reduce_name(op), call_site_text(where));
  agree(tensor, static_cast<std::int64_t>(op), what);
  if (is_small(tensor)) return reduce_rows(gather(tensor, what), op);
  const at::Tensor result =
      plain(tensor).to(combined_in(tensor.scalar_type()), /*non_blocking=*/false, /*copy=*/true, at::MemoryFormat::Contiguous);
  std::vector<at::Tensor> values = {result.is_complex() ? torch::view_as_real(result) : result};
  c10d::AllreduceOptions options;
  options.reduceOp = reduce_op(op);
  const InExchange exchange(world_.board(), what);
  world_.process_group()->allreduce(values, options)->wait();
  if (op == Reduce::kMean) result.div_(world_.control_group().size());
  return result.to(tensor.scalar_type());
}

at::Tensor UserCollectives::broadcast(const at::Tensor& tensor, int source_rank, SourceLocation where) {
  check_source_rank(source_rank, world_.control_group().size(), where);
  const std::string what = "broadcast at " + call_site_text(where);
  agree(tensor, source_rank, what);
  if (is_small(tensor)) {
    const at::Tensor own = plain(tensor).cpu();
    const std::string received = world_.control_group().broadcast(
        {static_cast<const char*>(own.const_data_ptr()), own.nbytes()}, source_rank, own.nbytes(), what.c_str());
    const at::Tensor result = at::empty_like(own);
    received.copy(static_cast<char*>(result.mutable_data_ptr()), received.size());
    return result.to(tensor.device());
  }
  const at::Tensor result = plain(tensor).clone();
  std::vector<at::Tensor> values = {sent_bytes(result)};
  c10d::BroadcastOptions options;
  options.rootRank = source_rank;
  const InExchange exchange(world_.board(), what);
  world_.process_group()->broadcast(values, options)->wait();
  return result;
}

void UserCollectives::barrier(const std::string& what, SourceLocation where) {
  const std::string text = format("barrier{} at {}", what.empty() ? "" : format(" '{}'", what), call_site_text(where));
  world_.control_group().all_gather({}, {}, text.c_str());
}

}  // namespace levin
