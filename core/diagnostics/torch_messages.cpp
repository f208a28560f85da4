#include "levin/core/diagnostics/torch_messages.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "levin/core/base/format.h"
#include "levin/core/console/console.h"

namespace levin {

namespace {

struct Hint {
  std::array<std::string_view, 2> parts;  ///< parts of the message, all required
  std::string_view text;
};

constexpr std::string_view kTypes = "convert one of the two: classes are Long, all other values Float";
constexpr std::string_view kLessMemory =
    "a smaller batch_size, with accumulate_grad_batches to make up for it, or precision: bf16-mixed; detach() losses that you "
    "store";

// The first that matches counts.
constexpr std::array kHints = {
    Hint{{"shapes cannot be multiplied", ""},
         "a linear layer's in_features must be the last dimension of its input; flatten(1) merges all others"},
    Hint{{"size mismatch", ""}, "a linear layer's in_features must be the last dimension of what it is given"},
    Hint{{"channels", "weight"},
         "a convolution takes [batch, channels, height, width], with in_channels channels; unsqueeze(1) adds a missing "
         "dimension"},
    Hint{{"batched) input to conv", ""},
         "a convolution takes [batch, channels, height, width]: with TableDataModule, set a sample's `shape`, such as [1, 28, "
         "28]; else reshape its input"},
    Hint{{"Expected all tensors to be on the same device", ""},
         "create tensors on the module's device, with torch::zeros({...}, device()), and register the module's own with "
         "register_parameter() or register_buffer(), so that they move with it"},
    Hint{{"same dtype", ""},
         "convert both to one type, with batch[\"x\"].to(torch::kFloat) for example; integers from a file must be converted"},
    Hint{{"Found dtype", "expected"}, "a loss takes input and target of one type: try target.to(torch::kFloat)"},
    Hint{{"expected scalar type", "found"}, kTypes},
    Hint{{"expected target dtype", "got"}, kTypes},
    Hint{{"Target", "out of bounds"},
         "a class index must be at least 0 and below the size of the last layer: does the data have more classes, or count "
         "them from 1?"},
    Hint{{"grad can be implicitly created only for scalar outputs", ""},
         "the loss must be one number: take its mean() or sum()"},
    Hint{{"does not require grad and does not have a grad_fn", ""},
         "the loss depends on no parameter that requires a gradient: is something detached, frozen or under NoGradGuard?"},
    Hint{{"modified by an inplace operation", ""},
         "a tensor that backward needs was changed in place (x += y, relu_()): write x = x + y; detect_anomaly: true shows "
         "where"},
    Hint{{"backward through the graph a second time", ""},
         "under automatic optimization levin calls backward on the loss that training_step returns, so do not call backward() "
         "there; detach() tensors from earlier batches; add losses that share a subgraph"},
    Hint{{"Expected more than 1 value per channel", ""},
         "BatchNorm cannot train on one sample: if an epoch's last batch has only one, set the loader's drop_last to true, "
         "or another batch_size"},
    Hint{{"device-side assert", ""},
         "a GPU reports some errors late, so the cause may be in an earlier hook. Most often it is an invalid index, such as a "
         "class beyond the last layer's size: accelerator: cpu shows which, CUDA_LAUNCH_BLOCKING=1 where"},
    Hint{{"out of memory", ""}, kLessMemory},
    Hint{{"CUDA error", ""},
         "a GPU reports some errors late, so the cause may be in an earlier hook: CUDA_LAUNCH_BLOCKING=1 shows which"},
    Hint{{"t allocate memory", ""}, kLessMemory}};

}  // namespace

std::string hint_for_torch_error(const c10::Error& error) {
  const std::string_view message = error.what_without_backtrace();
  const auto matches = [&](const Hint& hint) {
    return std::ranges::all_of(hint.parts, [&](std::string_view part) { return message.find(part) != std::string_view::npos; });
  };
  const auto hint = std::ranges::find_if(kHints, matches);
  std::string text(hint == kHints.end() ? "" : hint->text);
  constexpr const char* kLate = "a device reports some errors late, so the cause may be in an earlier hook";
  const bool is_late = dynamic_cast<const c10::AcceleratorError*>(&error) != nullptr;
  if (!is_late || text.find("late") != std::string::npos) return text;
  return text.empty() ? kLate : text + "; " + kLate;
}

std::string describe_batch(const Batch& batch) {
  std::string text;
  std::size_t index = 0;
  for (const auto& [name, tensor] : batch.items()) {
    const std::string key = name.empty() ? std::to_string(index) : name;
    ++index;
    if (!text.empty()) text += ", ";
    text += key + " " + (tensor.defined() ? c10::str(tensor.sizes(), " ", tensor.scalar_type()) : "undefined");
  }
  return text.empty() ? "empty" : text;
}

void TorchWarnings::process(const c10::Warning& warning) {
  const c10::SourceLocation& place = warning.source_location();
  const std::string file = std::filesystem::path(place.file).filename().string();
  // mse_loss and its like do both when prediction and target differ, as [16, 1] and [16] do: the result is broadcast.
  const bool is_broadcast = warning.msg().find("An output with one or more elements was resized") != std::string::npos ||
                            warning.msg().find("Using a target size") != std::string::npos;
  const char* const hint = is_broadcast ? ": a prediction and its target seem to differ in shape, such as [16, 1] and [16], so "
                                          "that the loss is over all pairs: squeeze(1) one or unsqueeze(1) the other"
                                        : "";
  Console::instance().warn_once(format("{} (LibTorch, {}:{}){}", warning.msg(), file, place.line, hint));
}

}  // namespace levin
