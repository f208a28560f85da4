#include "levin/strategies/gradients/ddp_options.h"

namespace levin {

void DdpOptions::declare(OptionList<DdpOptions>& options) {
  options.add(
      "process_group_backend", &DdpOptions::process_group_backend,
      "What gradients travel over; auto: nccl on GPUs, on the CPU shared_memory when all ranks are on one host, else gloo, and "
      "within hosts of several ranks shared_memory first; gloo: nothing else");
  options.add("control_group", &DdpOptions::control_group,
              "What metrics and decisions travel over; auto: shared_memory when all ranks are on one host, else gloo");
  options.add("find_unused_parameters", &DdpOptions::find_unused_parameters,
              "Let a loss leave parameters unused; costs a walk through the graph at each step");
  options.add("static_graph", &DdpOptions::static_graph,
              "Every step uses the same parameters as the first: those left out are found once, at no cost later");
  options.rule({"static_graph", "find_unused_parameters"}, [](const DdpOptions& given) {
    return given.static_graph && given.find_unused_parameters
               ? "static_graph finds unused parameters once and find_unused_parameters at each step; set one of them"
               : "";
  });
  options.add("comm_hook", &DdpOptions::comm_hook,
              "How gradients travel: as they are, as 16-bit numbers, or approximated by matrices of low rank");
  options
      .add("matrix_approximation_rank", &DdpOptions::matrix_approximation_rank,
           "For power_sgd: rank of the matrices that stand for a gradient; more are slower and more exact")
      .min(1);
  options
      .add("start_power_sgd_iter", &DdpOptions::start_power_sgd_iter,
           "For power_sgd: steps whose gradients travel as they are, before the first approximation")
      .min(0);
  options
      .add("min_compression_rate", &DdpOptions::min_compression_rate,
           "For power_sgd: approximate what becomes smaller by more than this factor")
      .above(0);
  options.add("use_error_feedback", &DdpOptions::use_error_feedback,
              "For power_sgd: add what an approximation leaves out to the next gradient");
  options.add("warm_start", &DdpOptions::warm_start,
              "For power_sgd: begin with the last approximation, not with random numbers");
  options.add("gradient_as_bucket_view", &DdpOptions::gradient_as_bucket_view,
              "Let gradients share memory with the messages, which saves a copy of them");
  options.add("bucket_cap_mb", &DdpOptions::bucket_cap_mb, "Size of the messages in which gradients travel, in MB").min(0.001);
  options.add("broadcast_buffers", &DdpOptions::broadcast_buffers,
              "Make buffers, such as running statistics, equal to rank 0's before each training step");
  options.add("timeout", &DdpOptions::timeout, "Seconds that ranks wait for one another; null: the Trainer's timeout_seconds")
      .min(0.1)
      .instead("null waits the Trainer's timeout_seconds");
}

}  // namespace levin
