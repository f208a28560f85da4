#include "levin/strategies/transport/gloo.h"

#include <torch/types.h>

#include <catch2/catch.hpp>
#include <stdexcept>

#include "levin/strategies/failure/status_board.h"

namespace levin {
namespace {

class FailedWork final : public c10d::Work {
 public:
  explicit FailedWork(const std::exception_ptr& error)
      : future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {
    finish(error);
    future_->setError(error);
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

/// Every all-reduce ends with this error; a broadcast is refused with it.
class FailingBackend final : public c10d::Backend {
 public:
  explicit FailingBackend(std::exception_ptr error) : Backend(0, 2), error_(std::move(error)) {}
  const std::string getBackendName() const override { return "failing"; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>&, const c10d::AllreduceOptions&) override {
    return c10::make_intrusive<FailedWork>(error_);
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>&, const c10d::BroadcastOptions&) override {
    std::rethrow_exception(error_);
  }

 private:
  std::exception_ptr error_;
};

template <class Failure>
c10::intrusive_ptr<c10d::Backend> failing_with(const Failure& error) {
  return c10::make_intrusive<GlooBackend>(c10::make_intrusive<FailingBackend>(std::make_exception_ptr(error)));
}

/// "ConnectionLost: text"; "other: text" for another type.
template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const ConnectionLost& lost) {
    return std::string("ConnectionLost: ") + lost.what();
  } catch (const std::exception& error) {
    return std::string("other: ") + error.what();
  }
  return "no error";
}

/// What a call throws at once, when it is waited for, and through its future.
std::vector<std::string> errors_of(const c10::intrusive_ptr<c10d::Backend>& backend) {
  std::vector<at::Tensor> tensors = {torch::zeros(1)};
  return {error_of([&] { backend->broadcast(tensors, {}); }), error_of([&] { backend->allreduce(tensors, {})->wait(); }),
          error_of([&] { backend->allreduce(tensors, {})->getFuture()->value(); })};
}

}  // namespace

TEST_CASE("what Gloo throws because of a connection is typed wherever it comes out") {
  CHECK(errors_of(failing_with(std::runtime_error("[pair.cc:553] Connection closed by peer [127.0.0.1]:1"))) ==
        std::vector<std::string>(3, "ConnectionLost: [pair.cc:553] Connection closed by peer [127.0.0.1]:1"));
  CHECK(errors_of(failing_with(std::runtime_error("Timed out waiting 6000ms for recv operation to complete"))) ==
        std::vector<std::string>(3, "ConnectionLost: Timed out waiting 6000ms for recv operation to complete"));
}

TEST_CASE("what is refused, or known better by the run's store, stays as it is") {
  CHECK(errors_of(failing_with(std::invalid_argument("requires a tensor"))) ==
        std::vector<std::string>(3, "other: requires a tensor"));
  CHECK(errors_of(failing_with(DesyncError("the run's store: rank 0 has ended it"))) ==
        std::vector<std::string>(3, "other: the run's store: rank 0 has ended it"));
}

}  // namespace levin
