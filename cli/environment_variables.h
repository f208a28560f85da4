#pragma once

#include <array>

namespace levin::cli {

/// A variable of the environment that changes what levin does. A '*' at its end stands for any end of the name.
struct EnvironmentVariable {
  const char* name;
  const char* help;
};

/// What the manual page describes, and levin doctor shows where it is set.
inline constexpr std::array kEnvironmentVariables = {
    EnvironmentVariable{"LEVIN_CONFIG", "A configuration that is read before those of --config."},
    EnvironmentVariable{"LEVIN_DEFAULT_CONFIG", "Read in place of levin.yaml of the working folder; empty: nothing is."},
    EnvironmentVariable{"LEVIN_*",
                        "LEVIN_TRAINER__MAX_EPOCHS=5 is --trainer.max_epochs=5, and LEVIN_FIT__TRAINER__MAX_EPOCHS=5 "
                        "that of fit alone; --config and the command line win over them."},
    EnvironmentVariable{"MASTER_ADDR", "The host of rank 0, in a run on several hosts."},
    EnvironmentVariable{"MASTER_PORT", "The port at which ranks find one another there."},
    EnvironmentVariable{"NODE_RANK", "The number of this host among them."},
    EnvironmentVariable{"RANK", "With WORLD_SIZE and LOCAL_RANK: this process is one that torchrun, or its like, has started."},
    EnvironmentVariable{"WORLD_SIZE", "How many such processes there are."},
    EnvironmentVariable{"LOCAL_RANK", "Which of those of its host this process is."},
    EnvironmentVariable{"SLURM_*", "The same, of srun."},
    EnvironmentVariable{"OMPI_COMM_WORLD_*", "The same, of Open MPI's mpirun."},
    EnvironmentVariable{"GLOO_SOCKET_IFNAME", "The network interface between hosts, on the CPU."},
    EnvironmentVariable{"NCCL_*", "What NCCL, between GPUs, is told: NCCL_SOCKET_IFNAME, NCCL_DEBUG."},
    EnvironmentVariable{"CUDA_VISIBLE_DEVICES", "The GPUs that may be used; empty: none."},
    EnvironmentVariable{"OMP_*", "OMP_NUM_THREADS: the threads of a rank."},
    EnvironmentVariable{"MKL_*", "What Intel's library is told."},
    EnvironmentVariable{"GOMP_SPINCOUNT", "For how long threads look for one another before they sleep."},
    EnvironmentVariable{"LD_PRELOAD", "Libraries that stand before all others."},
    EnvironmentVariable{"MLFLOW_*", "MLFLOW_TRACKING_URI and its like, for MLflowLogger."},
    EnvironmentVariable{"WANDB_*", "WANDB_API_KEY, WANDB_MODE and their like, for WandbLogger."},
    EnvironmentVariable{"PYTHON", "The Python with Optuna, for levin sweep."},
    EnvironmentVariable{"NO_COLOR", "Not empty: texts are not coloured."},
    EnvironmentVariable{"TMPDIR", "Where temporary files go."},
};

}  // namespace levin::cli
