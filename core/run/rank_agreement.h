#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "levin/core/batch.h"
#include "levin/core/data_module.h"
#include "levin/core/run/run_setup.h"
#include "levin/core/trainer.h"

namespace levin {

/// Compares over ranks the Trainer's options, callbacks and loggers with their settings, and hyper-parameters of module and
/// data. Ranks: all. Throws ConfigError on every rank, with the first difference: it would become a hang or a wrong average.
void check_same_setup(const RunSetup& setup, const RunParts& parts, const RunOptions& run, Stage stage);

/// Compares the checkpoint to resume from, because hosts may have different files under one name. Ranks: all. Throws a
/// ConfigError on every rank that names ranks and hosts.
void check_same_checkpoint(const RunSetup& setup, const std::filesystem::path& file);

/// Throws DesyncError, which names ranks and numbers, when ranks make a step of different numbers of batches.
void check_same_accumulation(const std::vector<Votes>& by_rank);

/// Rank 0's seed_everything(), 0 without one: ranks that were seeded otherwise still divide one order of samples. Ranks: all.
std::int64_t agreed_seed(const RunSetup& setup);

/// Compares what configure_optimizers gave, as check_same_setup() does: else the weights of ranks would drift apart.
void check_same_optimizers(const RunSetup& setup, const RunParts& parts);

/// The same again, after parameters have changed while training runs. Throws DesyncError likewise.
void check_same_changes_of_optimizers(const RunSetup& setup, const RunParts& parts);

/// Compares the data that ranks share, each reading a part of it: other numbers of samples would leave some out or repeat them
/// without a word, another version of a file make an epoch of no data; fingerprints are compared where datasets have one.
/// Loaders that divide their data themselves are not compared. `what` names the loaders ("training"), `node_rank` the host.
/// Ranks: all, with one exchange where they agree. Throws MisuseError on every rank, naming ranks, hosts and numbers; of other
/// values on one host, which has the same files, it warns only.
void check_same_data(ControlGroup& group, int node_rank, const std::string& what, const LoaderList& loaders);

/// A number for a batch's names, shapes, types and values, never 0; others hardly ever have the same. 0: sparse or nested.
std::int64_t batch_fingerprint(const Batch& batch);

/// A rank's fingerprint of its first training batch of an epoch: of its content and, if its loader knows them, its samples.
/// Even: the samples are known. 0: ranks are not compared.
std::int64_t first_batch_mark(const Batch& batch, const std::optional<std::vector<std::int64_t>>& samples);

/// `first_batches`: each rank's mark. Ranks that all have the same train on the same samples: throws MisuseError where the
/// samples are known, and warns where equal batches may be made up.
void check_different_batches(const std::vector<std::int64_t>& first_batches, std::int64_t epoch);

}  // namespace levin
