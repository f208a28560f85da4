#include "levin/strategies/gradients/ddp_options.h"

namespace levin {

void DdpOptions::declare(OptionList<DdpOptions>& options) {
  options.add("process_group_backend", &DdpOptions::process_group_backend,
              "Transport of gradients; auto: nccl on GPUs, on the CPU shared_memory when all ranks are on one host, else gloo, "
              "with shared_memory first within hosts of several ranks; gloo: only gloo");
  options.add("control_group", &DdpOptions::control_group,
              "Transport of metrics and decisions; auto: shared_memory when all ranks are on one host, else gloo");
  options.add("find_unused_parameters", &DdpOptions::find_unused_parameters,
              "Allow a loss that does not use all parameters; traverses the graph at each step");
  options.add("static_graph", &DdpOptions::static_graph,
              "Every step uses the same parameters as the first: unused ones are found once, without later cost");
  options.rule({"static_graph", "find_unused_parameters"}, [](const DdpOptions& given) {
    return given.static_graph && given.find_unused_parameters
               ? "static_graph finds unused parameters once and find_unused_parameters at each step; set one of them"
               : "";
  });
  options.add("comm_hook", &DdpOptions::comm_hook,
              "Compression of gradients in messages: none, 16-bit numbers, or low-rank matrices");
  options
      .add("matrix_approximation_rank", &DdpOptions::matrix_approximation_rank,
           "For power_sgd: rank of the matrices that approximate a gradient; higher is slower and more exact")
      .min(1);
  options
      .add("start_power_sgd_iter", &DdpOptions::start_power_sgd_iter,
           "For power_sgd: steps with uncompressed gradients before the first approximation")
      .min(0);
  options
      .add("min_compression_rate", &DdpOptions::min_compression_rate,
           "For power_sgd: approximate gradients that become smaller by more than this factor")
      .above(0);
  options.add("use_error_feedback", &DdpOptions::use_error_feedback,
              "For power_sgd: add the error of an approximation to the next gradient");
  options.add("warm_start", &DdpOptions::warm_start,
              "For power_sgd: start from the last approximation, not from random numbers");
  options.add("gradient_as_bucket_view", &DdpOptions::gradient_as_bucket_view,
              "Let gradients share memory with the messages, which saves a copy");
  options.add("bucket_cap_mb", &DdpOptions::bucket_cap_mb, "Size of a message with gradients, in MB").min(0.001);
  options.add("broadcast_buffers", &DdpOptions::broadcast_buffers,
              "Make buffers, such as running statistics, equal to rank 0's before each training step");
  options
      .add("timeout", &DdpOptions::timeout, "Limit of a wait for other ranks, in seconds; null: the Trainer's timeout_seconds")
      .min(0.1)
      .instead("null uses the Trainer's timeout_seconds");
}

}  // namespace levin
