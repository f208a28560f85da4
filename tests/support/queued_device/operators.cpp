#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/queued_device/queues.h"
#include "support/queued_device/streams.h"
#include "support/queued_device/tensors.h"

namespace levin::test::queued {

namespace {

constexpr c10::DispatchKeySet kHost(c10::DispatchKey::CPU);

std::atomic<std::int64_t> kernels;

/// Calls `visit` with each tensor of an argument or a result, in order.
template <class Visit>
void each_tensor(const c10::IValue& value, Visit visit) {
  if (value.isTensor()) return visit(value.toTensor());
  if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      if (tensor) visit(*tensor);
    }
  }
}

/// The same with each tensor turned into another.
template <class Turn>
c10::IValue turned(const c10::IValue& value, const Turn& turn) {
  if (value.isTensor()) return value.toTensor().defined() ? turn(value.toTensor()) : value;
  if (value.isTensorList()) {
    c10::List<at::Tensor> tensors;
    for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(tensor.defined() ? turn(tensor) : tensor);
    return tensors;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> tensors;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      tensors.push_back(tensor && tensor->defined() ? std::optional(turn(*tensor)) : tensor);
    }
    return tensors;
  }
  return value.isDevice() ? c10::IValue(c10::Device(c10::kCPU)) : value;
}

bool is_generator(const c10::Argument& argument) { return argument.type()->str().find("Generator") != std::string::npos; }

/// The argument that is also the result, if an operator writes in place; else none.
std::optional<std::size_t> argument_returned(const c10::FunctionSchema& schema, std::size_t result) {
  const c10::AliasInfo* alias = schema.returns()[result].alias_info();
  if (alias == nullptr) return std::nullopt;
  TORCH_CHECK(alias->isWrite(), "QueuedDevice does not know the view ", schema.operator_name());
  for (std::size_t index = 0; index < schema.arguments().size(); ++index) {
    const c10::AliasInfo* argument = schema.arguments()[index].alias_info();
    if (argument != nullptr && argument->beforeSets() == alias->beforeSets()) return index;
  }
  return std::nullopt;
}

/// Whether an operator writes its result there.
bool is_out(const c10::Argument& argument) { return argument.kwarg_only() && argument.alias_info() != nullptr; }

/// One of the host's, for an operator to make of it what it wants.
at::Tensor emptied(const at::Tensor& tensor) { return at::empty({0}, tensor.options().device(c10::kCPU)); }

struct Shape {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  at::ScalarType type;
};
/// Of what an operator gives, and of the arguments that it writes, by place.
struct Outcome {
  std::vector<std::vector<Shape>> results;
  std::map<std::size_t, std::vector<Shape>> written;
};

/// One call of an operator: its arguments, device and results.
class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack& stack)
      : op_(op),
        schema_(op.schema()),
        stack_(stack),
        given_(stack.end() - static_cast<std::ptrdiff_t>(schema_.arguments().size()), stack.end()) {
    for (c10::IValue& value : given_) {
      each_tensor(value, [&](const at::Tensor& tensor) {
        if (!device_ && is_here(tensor)) device_ = tensor.device();
      });
      if (value.isDevice() && !device_) device_ = value.toDevice();
    }
    if (!device_ || !device_->has_index()) device_ = c10::impl::VirtualGuardImpl(kType).getDevice();
  }

  void run() {
    const c10::DeviceGuard guard(*device_);
    take_along();
    const std::optional<Outcome> outcome = must_wait() ? std::nullopt : foreseen();
    stack_.erase(stack_.end() - static_cast<std::ptrdiff_t>(given_.size()), stack_.end());
    outcome ? enqueue(*outcome) : do_now();
  }

 private:
  /// What comes from the host with the call: numbers, and the indices that CUDA takes along, too.
  void take_along() {
    const std::string name = schema_.name();
    const bool takes_indices = name.find("index") != std::string::npos;
    for (c10::IValue& value : given_) {
      value = value.isDevice() ? value : turned(value, [&](const at::Tensor& tensor) {
        if (is_here(tensor)) {
          TORCH_CHECK(tensor.device() == *device_,
                      "Expected all tensors to be on the same device, but found at least two devices, ", device_->str(),
                      " and ", tensor.device().str(), "! (", name, ")");
          return tensor;
        }
        if (tensor.dim() == 0) return tensor.clone();
        TORCH_CHECK(takes_indices, "Expected all tensors to be on the same device, but found at least two devices, ",
                    device_->str(), " and cpu! (", name, ")");
        return tensor.to(*device_);
      });
    }
  }

  /// Its result depends on numbers, or is one.
  bool must_wait() const {
    TORCH_CHECK(!op_.hasTag(at::Tag::nondeterministic_seeded) || generator_argument(),
                "QueuedDevice does not know from where to draw in ", schema_.operator_name());
    if (op_.hasTag(at::Tag::dynamic_output_shape) || op_.hasTag(at::Tag::data_dependent_output)) return true;
    bool waits = std::ranges::any_of(schema_.returns(), [](const c10::Argument& result) {
      return result.type()->str().find("Tensor") == std::string::npos;
    });
    // A mask chooses as many as it has.
    if (schema_.name() == "aten::index") {
      each_tensor(given_[1], [&](const at::Tensor& index) {
        waits |= index.defined() && (index.scalar_type() == at::kBool || index.scalar_type() == at::kByte);
      });
    }
    return waits;
  }

  std::string signature() const {
    std::ostringstream text;
    text << schema_.operator_name();
    for (const c10::IValue& value : given_) {
      text << '|';
      if (value.isTensor() || value.isTensorList() || value.isOptionalTensorList()) {
        each_tensor(value, [&](const at::Tensor& tensor) {
          if (tensor.defined()) text << tensor.scalar_type() << tensor.sizes() << tensor.strides() << is_here(tensor);
          text << ';';
        });
      } else if (!value.isDouble() && !value.isGenerator()) {
        text << value;
      }
    }
    return text.str();
  }

  static std::vector<Shape> shapes_of(const c10::IValue& value) {
    std::vector<Shape> shapes;
    each_tensor(value, [&](const at::Tensor& tensor) {
      if (tensor.defined()) shapes.push_back({tensor.sizes().vec(), tensor.strides().vec(), tensor.scalar_type()});
    });
    return shapes;
  }

  /// The shapes of what comes out do not depend on numbers, so the CPU finds them with others. Unset: it cannot.
  std::optional<Outcome> foreseen() const {
    static auto* const known = new std::map<std::string, Outcome>;
    static auto* const mutex = new std::mutex;
    const std::string call = signature();
    {
      const std::lock_guard lock(*mutex);
      const auto found = known->find(call);
      if (found != known->end()) return found->second;
    }
    for (const double number : {0.0, 1.0}) {
      torch::jit::Stack tried;
      for (std::size_t index = 0; index < given_.size(); ++index) {
        tried.push_back(is_generator(schema_.arguments()[index])
                            ? c10::IValue(at::make_generator<at::CPUGeneratorImpl>())
                            : turned(given_[index], [&](const at::Tensor& tensor) {
                                if (!is_here(tensor)) return tensor.clone();
                                if (is_out(schema_.arguments()[index])) return emptied(tensor);
                                at::Tensor other =
                                    at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(c10::kCPU));
                                return other.fill_(tensor.is_floating_point() || tensor.is_complex() ? number : 0);
                              }));
      }
      const torch::jit::Stack arguments = tried;
      try {
        on_host(op_, tried);
      } catch (const c10::Error&) {
        continue;
      }
      Outcome outcome;
      for (const c10::IValue& result : tried) outcome.results.push_back(shapes_of(result));
      for (std::size_t index = 0; index < arguments.size(); ++index) {
        const c10::AliasInfo* alias = schema_.arguments()[index].alias_info();
        if (alias != nullptr && alias->isWrite()) outcome.written[index] = shapes_of(arguments[index]);
      }
      const std::lock_guard lock(*mutex);
      return known->emplace(call, std::move(outcome)).first->second;
    }
    return std::nullopt;
  }

  static void on_host(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
    const at::NoGradGuard no_grad;
    const c10::impl::ExcludeDispatchKeyGuard below(
        c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset |
        c10::DispatchKeySet({c10::DispatchKey::ADInplaceOrView, c10::DispatchKey::PythonTLSSnapshot}));
    // Of several out arguments LibTorch gives references into the stack that it has emptied.
    const torch::jit::Stack kept = stack;
    op.redispatchBoxed(kHost, &stack);
  }

  /// The stack for the CPU, on the device's memory.
  torch::jit::Stack arguments_for_host() const {
    torch::jit::Stack arguments;
    for (const c10::IValue& value : given_) {
      arguments.push_back(
          turned(value, [](const at::Tensor& tensor) { return is_here(tensor) ? seen_by_host(tensor) : tensor; }));
    }
    return arguments;
  }
  std::optional<std::size_t> generator_argument() const {
    for (std::size_t index = 0; index < given_.size(); ++index) {
      if (is_generator(schema_.arguments()[index])) return index;
    }
    return std::nullopt;
  }

  void enqueue(const Outcome& outcome) {
    for (const auto& [index, shapes] : outcome.written) {
      each_tensor(given_[index], [shape = shapes.begin()](const at::Tensor& tensor) mutable {
        if (!tensor.defined()) return;
        if (tensor.sizes() != shape->sizes) tensor.resize_(shape->sizes);
        ++shape;
      });
    }
    torch::jit::Stack places;       // of the results, for the host; nothing where an operator writes in place
    std::vector<std::size_t> outs;  // arguments that take results, of which an operator may make what it wants
    for (std::size_t index = 0; index < schema_.returns().size(); ++index) {
      const auto argument = argument_returned(schema_, index);
      if (argument) {
        stack_.push_back(given_[*argument]);
        const bool takes_result = is_out(schema_.arguments()[*argument]);
        places.push_back(takes_result ? turned(stack_.back(), seen_by_host) : c10::IValue());
        if (takes_result) outs.push_back(*argument);
        continue;
      }
      std::vector<at::Tensor> made;
      for (const Shape& shape : outcome.results[index])
        made.push_back(empty_strided_on(*device_, shape.sizes, shape.strides, shape.type));
      const bool is_list = schema_.returns()[index].type()->kind() == c10::TypeKind::ListType;
      if (is_list) stack_.emplace_back(made);
      if (!is_list) stack_.emplace_back(made.empty() ? at::Tensor() : made.front());
      places.push_back(turned(stack_.back(), seen_by_host));
    }
    ++kernels;
    const std::optional<std::size_t> generator = generator_argument();
    const std::optional<at::Generator> drawn =
        generator && given_[*generator].isGenerator() ? std::optional(given_[*generator].toGenerator()) : std::nullopt;
    Queues::instance().push(
        current_stream(device_->index()),
        [op = op_, device = device_->index(), arguments = arguments_for_host(), places, outs, generator, drawn] {
          const auto own = generator ? std::optional(next_generator(drawn, device)) : std::nullopt;
          return Work([=] {
            torch::jit::Stack stack = arguments;
            if (own) stack[*generator] = *own;
            for (const std::size_t out : outs) stack[out] = turned(stack[out], emptied);
            on_host(op, stack);
            write(op, stack, places);
          });
        });
  }
  static void write(const c10::OperatorHandle& op, const torch::jit::Stack& results, const torch::jit::Stack& places) {
    for (std::size_t index = 0; index < places.size(); ++index) {
      std::vector<at::Tensor> made;
      each_tensor(results[index], [&](const at::Tensor& tensor) { made.push_back(tensor); });
      std::size_t next = 0;
      each_tensor(places[index], [&](const at::Tensor& place) {
        TORCH_CHECK(!place.defined() || made.at(next).defined(), op.operator_name(), " gave less than was foreseen");
        if (place.defined()) place.copy_(made.at(next));
        ++next;
      });
    }
  }

  void do_now() {
    Queues& queues = Queues::instance();
    queues.wait(queues.last(current_stream(device_->index())), "number");
    torch::jit::Stack stack = arguments_for_host();
    if (const auto generator = generator_argument()) {
      const c10::IValue& given = given_[*generator];
      stack[*generator] =
          next_generator(given.isGenerator() ? std::optional(given.toGenerator()) : std::nullopt, device_->index());
    }
    on_host(op_, stack);
    for (std::size_t index = 0; index < schema_.returns().size(); ++index) {
      const auto argument = argument_returned(schema_, index);
      const auto put = [&](const at::Tensor& result) {
        at::Tensor made = empty_strided_on(*device_, result.sizes(), result.strides(), result.scalar_type());
        if (result.numel() > 0) seen_by_host(made).copy_(result);
        return made;
      };
      stack_.push_back(argument ? given_[*argument] : turned(stack[index], put));
    }
  }

  c10::OperatorHandle op_;
  const c10::FunctionSchema& schema_;
  torch::jit::Stack& stack_;
  torch::jit::Stack given_;
  std::optional<c10::Device> device_;
};

void run_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack) { Call(op, *stack).run(); }

c10::OperatorHandle operator_of(const char* name) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, ""); }

void run_convolution(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  static const c10::OperatorHandle convolution = operator_of("aten::convolution");
  run_operator(convolution, stack);
}

void run_convolution_backward(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  static const c10::OperatorHandle backward = operator_of("aten::convolution_backward");
  constexpr std::ptrdiff_t kArguments = 10;
  constexpr std::ptrdiff_t kBiasSizes = 3;
  const auto first = stack->end() - kArguments;
  const at::Tensor gradient = first->toTensor();
  stack->insert(first + kBiasSizes, c10::IValue(std::vector<std::int64_t>{gradient.size(1)}));
  run_operator(backward, stack);
}

/// Draws from the CPU's default generator, since no other can be passed.
std::tuple<at::Tensor, at::Tensor> drop_out(const at::Tensor& input, double probability, std::optional<bool> train) {
  if (!train.value_or(true) || probability == 0) return {input.clone(), at::ones_like(input, at::kBool)};
  const at::Tensor mask = at::empty_like(input, at::kBool).bernoulli_(1 - probability);
  return {input * mask * (probability == 1 ? 0 : 1 / (1 - probability)), mask};
}

/// The one that is made of other operators.
std::int64_t choose_attention(const at::Tensor&, const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, double,
                              bool, std::optional<double>, bool) {
  return 0;
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_operator>()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("native_dropout", &drop_out);
  library.impl("_fused_sdp_choice", &choose_attention);
  // Those that are asked for are of its own, not by way of the CPU.
  for (const char* name : {"_fused_adagrad_", "_fused_adam_", "_fused_adamw_", "_fused_sgd_"}) {
    for (const std::string overload : {"", ".tensor_lr"}) {
      library.impl((name + overload).c_str(), torch::CppFunction::makeFromBoxedFunction<&run_operator>());
    }
  }
  library.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&run_convolution>());
  library.impl("convolution_backward_overrideable", torch::CppFunction::makeFromBoxedFunction<&run_convolution_backward>());
}

}  // namespace

std::int64_t kernels_given() { return kernels; }

}  // namespace levin::test::queued
