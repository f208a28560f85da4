#include "levin/cli/lightning/lightning_names.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "levin/core/config/option_type.h"

namespace levin::cli {
namespace {

using Arguments = std::vector<LightningArgument>;

/// An argument that something else replaces, except for these values.
LightningArgument replaced(std::string name, std::vector<Value> idle, std::string instead) {
  return {.name = std::move(name), .idle = std::move(idle), .instead = std::move(instead)};
}
/// One that does nothing here, whatever its value; a run says so of other values than these.
LightningArgument ignored(std::string name, std::vector<Value> idle = {}) {
  return {.name = std::move(name), .idle = std::move(idle)};
}
LightningArgument renamed(std::string name, std::string levin_name) {
  return {.name = std::move(name), .idle = {}, .renamed = std::move(levin_name)};
}

Arguments joined(Arguments some, Arguments more) {
  some.insert(some.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  return some;
}

/// Of the Trainer's flags, from Lightning 1.0 on.
Arguments trainer_flags() {
  return {
      replaced("plugins", {Value(Value::List{})},
               "`precision` and `process.requeue_signals` are flags, ModelCheckpoint writes in the background by itself, and "
               "libraries with your classes go under `plugins:` at the top of the file"),
      replaced("model_registry", {}, "`log_model` of WandbLogger or MLFlowLogger hands checkpoints over"),
      ignored("suggest_integrations", {true}),
      replaced("class_path", {}, "there is one Trainer, whose flags stand directly below `trainer:`"),
      replaced("init_args", {}, "its flags stand directly below `trainer:`"),
      replaced("amp_backend", {"native"}, "set `precision: 16-mixed` or `bf16-mixed`"),
      replaced("amp_level", {"O2"}, "set `precision: 16-mixed` or `bf16-mixed`"),
      replaced("auto_lr_find", {false}, "`levin tune` and the callback LearningRateFinder do that"),
      replaced("auto_scale_batch_size", {false}, "`levin tune --batch_size` and the callback BatchSizeFinder do that"),
      replaced("auto_select_gpus", {false}, "`devices: auto` takes all GPUs, and `devices: [1]` the second one"),
      replaced("automatic_optimization", {true}, "call set_automatic_optimization(false) in the module's constructor"),
      replaced("checkpoint_callback", {true}, "set `enable_checkpointing: false`"),
      replaced("distributed_backend", {}, "set `strategy`"),
      ignored("enable_pl_optimizer", {true, false}),
      replaced("flush_logs_every_n_steps", {100}, "set it in CSVLogger's init_args"),
      replaced("gpus", {}, "set `devices` to how many or which, and `accelerator: gpu`"),
      replaced("ipus", {}, "levin computes on cpu and cuda, and on your accelerators"),
      replaced("log_gpu_memory", {}, "the callback DeviceStatsMonitor logs it"),
      ignored("move_metrics_to_cpu", {false}),
      replaced("multiple_trainloader_mode", {"max_size_cycle"}, "CombinedLoader has such modes, in C++"),
      replaced("num_processes", {1}, "set `devices`"),
      replaced("prepare_data_per_node", {true}, "prepare_data() runs on one process of each host"),
      ignored("process_position", {0}),
      replaced("progress_bar_refresh_rate", {1},
               "set `refresh_rate` of the callback ProgressBar, or `enable_progress_bar: false`"),
      replaced("reload_dataloaders_every_epoch", {false}, "set `reload_dataloaders_every_n_epochs: 1`"),
      replaced("replace_sampler_ddp", {true}, "set `use_distributed_sampler: false`"),
      replaced("resume_from_checkpoint", {}, "set `ckpt_path` at the top of the file, or --ckpt_path"),
      replaced("stochastic_weight_avg", {false}, "add the callback StochasticWeightAveraging"),
      replaced("terminate_on_nan", {false}, "set `on_nan: stop`"),
      replaced("tpu_cores", {}, "levin computes on cpu and cuda, and on your accelerators"),
      replaced("track_grad_norm", {-1}, "add the callback GradientNormMonitor"),
      replaced("truncated_bptt_steps", {}, "optimize by hand, and cut the sequences in training_step"),
      replaced("weights_save_path", {}, "set `dirpath` of the callback ModelCheckpoint, or `default_root_dir`"),
      replaced("weights_summary", {"top"}, "set `max_depth` of the callback ModelSummary, or `enable_model_summary: false`"),
  };
}

/// What RichProgressBar's theme is by default.
Value rich_theme() {
  return Value::Map{{"description", ""},
                    {"progress_bar", "#6206E0"},
                    {"progress_bar_finished", "#6206E0"},
                    {"progress_bar_pulse", "#6206E0"},
                    {"batch_progress", ""},
                    {"time", "dim"},
                    {"processing_speed", "dim underline"},
                    {"metrics", "italic"},
                    {"metrics_text_delimiter", " "},
                    {"metrics_format", ".3f"}};
}

std::vector<LightningArguments> callback_arguments() {
  const Arguments averages = {replaced("avg_fn", {}, "EMAWeightAveraging weighs by `decay`, the others take the mean"),
                              replaced("multi_avg_fn", {}, "EMAWeightAveraging weighs by `decay`, the others take the mean")};
  return {
      {"callback", {"BatchSizeFinder"}, {ignored("batch_arg_name", {"batch_size"})}},
      {"callback", {"DeviceStatsMonitor"}, {replaced("filter_keys", {}, "all that is counted is logged: leave it out")}},
      {"callback",
       {"LearningRateFinder"},
       {renamed("update_attr", "update"), ignored("attr_name", {""}), ignored("weights_only")}},
      {"callback", {"LearningRateMonitor"}, {renamed("log_key_prefix", "prefix")}},
      {"callback",
       {"ModelCheckpoint"},
       {replaced("every_n_val_epochs", {}, "set `every_n_epochs`"), replaced("period", {1}, "set `every_n_epochs`"),
        replaced("prefix", {""}, "set `filename`")}},
      {"callback",
       {"ProgressBar", "RichProgressBar", "TQDMProgressBar"},
       {ignored("console_kwargs"), ignored("process_position", {0}), ignored("theme", {rich_theme()})}},
      {"callback", {"EMAWeightAveraging", "StochasticWeightAveraging", "WeightAveraging"}, averages},
      {"callback",
       {"ThroughputMonitor"},
       {ignored("available_flops"), ignored("batch_size_fn"), ignored("length_fn"), ignored("separator", {"/"})}},
  };
}

std::vector<LightningArguments> logger_arguments() {
  const Arguments of_wandb = {renamed("dir", "save_dir"),
                              renamed("version", "id"),
                              ignored("add_file_policy", {"mutable"}),
                              ignored("allow_val_change"),
                              ignored("anonymous"),
                              ignored("checkpoint_name"),
                              ignored("config"),
                              replaced("experiment", {}, "each logger has one run, which `id` names"),
                              ignored("force"),
                              replaced("mode", {"online"}, "set `offline: true`, or `logger: false` instead"),
                              ignored("monitor_gym"),
                              ignored("reinit"),
                              ignored("resume"),
                              ignored("save_code"),
                              ignored("settings"),
                              ignored("sync_tensorboard")};
  return {
      {"logger",
       {"MLFlowLogger", "MLflowLogger"},
       {replaced("checkpoint_path_prefix", {""}, "checkpoints are artifacts under their own names"), ignored("synchronous")}},
      {"logger",
       {"TensorBoardLogger"},
       {ignored("comment", {""}), ignored("default_hp_metric", {true, false}), ignored("filename_suffix", {""}),
        ignored("log_graph", {false}), ignored("max_queue", {10}),
        replaced("prefix", {""}, "put the prefix into the names under which you log"), ignored("purge_step"),
        replaced("sub_dir", {""}, "`save_dir`, `name` and `version` make up the folder")}},
      {"logger", {"WandbLogger"}, of_wandb},
  };
}

std::vector<LightningArguments> strategy_arguments() {
  const Arguments of_all = {replaced("accelerator", {}, "set `trainer.accelerator`"),
                            replaced("checkpoint_io", {}, "ModelCheckpoint writes in the background by itself"),
                            replaced("precision_plugin", {}, "set `trainer.precision`")};
  const Arguments of_ddp = {
      ignored("batched_grad_copy", {false}),
      ignored("bucket_cap_mb_list"),
      ignored("check_reduction", {false}),
      replaced("cluster_environment", {}, "torchrun, Slurm and MPI are found by their variables"),
      replaced("ddp_comm_hook", {}, "set `comm_hook`"),
      replaced("ddp_comm_state", {}, "the options of `comm_hook: power_sgd` are those of ddp"),
      replaced("ddp_comm_wrapper", {}, "set `comm_hook`"),
      ignored("delay_all_reduce_named_params"),
      replaced("device_ids", {}, "set `trainer.devices`"),
      ignored("device_mesh"),
      ignored("dim", {0}),
      ignored("forward_sync_buffers"),
      ignored("init_sync", {true}),
      replaced("mixed_precision", {}, "set `trainer.precision`"),
      replaced("model_averaging_period", {}, "gradients are averaged in each step"),
      ignored("output_device"),
      replaced("parallel_devices", {}, "set `trainer.devices`"),
      ignored("param_to_hook_all_reduce"),
      ignored("process_group"),
      ignored("skip_all_reduce_unused_params", {false}),
      ignored("start_method", {"popen"}),
  };
  return {{"strategy", {"ddp"}, joined(of_all, of_ddp)},
          {"strategy",
           {"single_device"},
           joined(of_all, {replaced("device", {"cpu"}, "set `trainer.accelerator` and `trainer.devices`")})}};
}

std::vector<LightningArguments> profiler_arguments() {
  const Arguments of_torch = {
      ignored("acc_events", {false}),
      ignored("activities"),
      replaced("emit_nvtx", {false}, "set `profiler: {class_path: nvtx, init_args: {operators: true}}`"),
      ignored("execution_trace_observer"),
      ignored("experimental_config"),
      ignored("export_to_chrome", {true}),
      ignored("group_by_input_shapes", {false}),
      ignored("on_trace_ready"),
      ignored("record_module_names", {true}),
      ignored("row_limit", {20}),
      replaced("schedule", {}, "set `wait`, `warmup`, `active` and `repeat`"),
      ignored("sort_by_key"),
      ignored("table_kwargs"),
      ignored("use_cuda"),
      ignored("with_flops", {false}),
      ignored("with_modules", {false}),
      ignored("with_stack", {false}),
  };
  return {{"profiler", {"simple", "SimpleProfiler"}, {ignored("extended", {true})}},
          {"profiler", {"torch", "PyTorchProfiler"}, of_torch}};
}

/// PyTorch's arguments that say how a step is computed, and not which. levin's classes have some of them.
std::vector<LightningArguments> optimizer_arguments() {
  return {{"optimizer",
           {"ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam", "RAdam", "RMSprop",
            "Rprop", "SGD", "SparseAdam"},
           {ignored("capturable", {false}), replaced("decoupled_weight_decay", {false}, "AdamW decouples it from Adam's steps"),
            replaced("differentiable", {false}, "steps have no gradients"), ignored("foreach", {true, false}),
            ignored("fused", {true, false}), replaced("maximize", {false}, "return the negative loss")}}};
}

std::vector<LightningArguments> scheduler_arguments() {
  return {{"lr_scheduler",
           {"ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR",
            "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau",
            "SWALR", "SequentialLR", "StepLR"},
           {replaced("last_epoch", {-1}, "a run that resumes with `ckpt_path` continues its schedule"),
            ignored("verbose", {false, "deprecated"})}},
          {"lr_scheduler", {"ReduceLROnPlateau"}, {renamed("monitor", "monitor")}},  // it goes next to class_path
          {"lr_scheduler",
           {"CyclicLR"},
           {replaced("scale_fn", {}, "`mode` and `gamma` say how high cycles are"), ignored("scale_mode", {"cycle"})}}};
}

constexpr const char* kOtherLoggers = "there are CSVLogger, TensorBoardLogger, MLFlowLogger, WandbLogger, and your loggers";
constexpr const char* kOtherDevices = "levin computes on cpu and cuda, and on your accelerators";
constexpr const char* kStrategyBefore = "it is a strategy: set `strategy: ddp`, and `devices`";
constexpr const char* kShards = "weights are whole on each device; `ddp_sharded` divides the state of the optimizer";
constexpr const char* kStarts = "levin starts its processes itself: set `ddp`";

bool is_text(const Value& value) { return value.is_string(); }

/// "0:30:00" as 1800 seconds.
Value seconds_of(const Value& value) { return Value(OptionType<Duration>::read(value).count()).with_mark(Mark(value.mark())); }

bool has(const std::vector<std::string>& names, std::string_view name) { return std::ranges::find(names, name) != names.end(); }

}  // namespace

const std::vector<LightningArguments>& lightning_arguments() {
  static const std::vector<LightningArguments> all = [] {
    std::vector<LightningArguments> list = {
        {std::string(kTopKeys),
         {},
         {ignored("return_predictions"), ignored("verbose", {true}), ignored("weights_only"),
          replaced("seed", {}, "set `seed_everything`"),
          replaced("defaults", {}, "Hydra reads it: name files under `include:`, or give --config for each"),
          replaced("hydra", {}, "each run has a folder below `default_root_dir` or the logger's `save_dir`")}},
        {std::string(kTrainerFlags), {}, trainer_flags()}};
    for (const auto& part : {callback_arguments(), logger_arguments(), strategy_arguments(), profiler_arguments(),
                             optimizer_arguments(), scheduler_arguments()})
      list.insert(list.end(), part.begin(), part.end());
    return list;
  }();
  return all;
}

const std::vector<LightningClass>& lightning_classes() {
  static const std::vector<LightningClass> all = {
      {"accelerator", {"CPUAccelerator"}, "cpu"},
      {"accelerator", {"CUDAAccelerator", "GPUAccelerator"}, "cuda"},
      {"accelerator",
       {"tpu", "xla", "mps", "hpu", "ipu", "TPUAccelerator", "XLAAccelerator", "MPSAccelerator", "HPUAccelerator",
        "IPUAccelerator"},
       "",
       kOtherDevices},
      {"accelerator", {"ddp", "ddp_cpu", "ddp_spawn", "ddp2", "dp", "horovod"}, "", kStrategyBefore},
      {"callback", {"RichModelSummary"}, "ModelSummary"},
      {"callback", {"BasePredictionWriter"}, "", "PredictionWriter writes predictions to files"},
      {"callback", {"BaseFinetuning"}, "", "take BackboneFinetuning, or derive from BaseFinetuning in C++"},
      {"callback", {"Callback", "Checkpoint", "ProgressBarBase"}, "", "it does nothing by itself: derive from Callback in C++"},
      {"callback", {"GPUStatsMonitor", "XLAStatsMonitor"}, "", "take DeviceStatsMonitor"},
      {"callback", {"LambdaCallback"}, "", "functions are C++: write a callback in a plug-in"},
      {"callback", {"QuantizationAwareTraining"}, "", "levin does not quantize"},
      {"logger", {"csv"}, "CSVLogger"},
      {"logger", {"tensorboard"}, "TensorBoardLogger"},
      {"logger", {"wandb"}, "WandbLogger"},
      {"logger", {"mlflow"}, "MLFlowLogger"},
      {"logger", {"CometLogger", "LitLogger", "NeptuneLogger", "TestTubeLogger"}, "", kOtherLoggers},
      {"profiler", {"pytorch"}, "torch"},
      {"profiler", {"PassThroughProfiler"}},
      {"profiler", {"advanced", "AdvancedProfiler"}, "", "`simple` measures hooks and actions, `torch` operators"},
      {"profiler", {"xla", "XLAProfiler"}, "", "`nvtx` marks ranges for NVIDIA's Nsight Systems, and `torch` traces"},
      {"strategy", {"DDPStrategy", "DDPPlugin"}, "ddp"},
      {"strategy", {"SingleDeviceStrategy"}, "single_device"},
      {"strategy",
       {"ddp_spawn", "ddp_fork", "ddp_notebook", "ddp_spawn_find_unused_parameters_false",
        "ddp_spawn_find_unused_parameters_true", "ddp_fork_find_unused_parameters_false",
        "ddp_fork_find_unused_parameters_true", "ddp_notebook_find_unused_parameters_false",
        "ddp_notebook_find_unused_parameters_true", "DDPSpawnStrategy", "DDPSpawnPlugin"},
       "",
       kStarts},
      {"strategy", {"dp", "ddp2", "DataParallelStrategy", "DDP2Strategy", "horovod", "bagua"}, "", "set `ddp`"},
      {"strategy",
       {"fsdp", "fsdp_cpu_offload", "fsdp_native", "fsdp_native_full_shard_offload", "FSDPStrategy", "deepspeed",
        "deepspeed_stage_1", "deepspeed_stage_1_offload", "deepspeed_stage_2", "deepspeed_stage_2_offload", "deepspeed_stage_3",
        "deepspeed_stage_3_offload", "deepspeed_stage_3_offload_nvme", "DeepSpeedStrategy", "ddp_sharded_spawn", "colossalai",
        "modelparallel", "ModelParallelStrategy"},
       "",
       kShards},
      {"strategy",
       {"xla", "xla_debug", "xla_fsdp", "single_xla", "single_tpu", "tpu_spawn", "hpu_parallel", "hpu_single", "XLAStrategy",
        "SingleDeviceXLAStrategy"},
       "",
       kOtherDevices},
  };
  return all;
}

const std::vector<LightningValue>& lightning_values() {
  static const std::vector<LightningValue> all = {
      {std::string(kTopKeys),
       {},
       "ckpt_path",
       [](const Value& value) { return value == Value("hpc"); },
       "a job of Slurm's finds its newest file itself: leave it out"},
      {std::string(kTopKeys),
       {},
       "ckpt_path",
       [](const Value& value) { return is_text(value) && value.as_string().starts_with("registry"); },
       "levin asks no registry of models: give a file, best or last"},
      {std::string(kTrainerFlags),
       {},
       "precision",
       [](const Value& value) { return value == Value("16-true"); },
       "16-bit floats are for `16-mixed`; weights themselves may be `bf16-true`"},
      {std::string(kTrainerFlags),
       {},
       "precision",
       [](const Value& value) { return is_text(value) && value.as_string().starts_with("transformer-engine"); },
       "levin has no Transformer Engine: take `bf16-mixed` or `bf16-true`"},
      {std::string(kTrainerFlags),
       {},
       "accumulate_grad_batches",
       [](const Value& value) { return value.is_map(); },
       "the callback GradientAccumulationScheduler takes such a map as its `scheduling`"},
      {"callback",
       {"BackboneFinetuning"},
       "lambda_func",
       [](const Value& value) { return is_text(value) && without_module(value.as_string()) == "multiplicative"; },
       "",
       [](const Value& value) { return Value().with_mark(Mark(value.mark())); }},
      {"strategy", {"ddp"}, "timeout", is_text, "", seconds_of},
  };
  return all;
}

std::vector<LightningArgument> lightning_arguments_of(std::string_view kind, std::string_view class_name) {
  std::vector<LightningArgument> found;
  for (const LightningArguments& of_some : lightning_arguments()) {
    if (of_some.kind == kind && (of_some.classes.empty() || has(of_some.classes, class_name)))
      found.insert(found.end(), of_some.arguments.begin(), of_some.arguments.end());
  }
  return found;
}

const LightningClass* lightning_class(std::string_view kind, std::string_view name) {
  const std::string_view last = without_module(name);
  const auto found = std::ranges::find_if(
      lightning_classes(), [&](const LightningClass& known) { return known.kind == kind && has(known.names, last); });
  return found == lightning_classes().end() ? nullptr : &*found;
}

std::string_view without_module(std::string_view name) {
  const std::size_t separator = name.find_last_of(".:");
  return separator == std::string_view::npos ? name : name.substr(separator + 1);
}

}  // namespace levin::cli
