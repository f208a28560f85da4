#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/batch.h"
#include "levin/core/data_module.h"
#include "levin/core/engine/parts/run_setup.h"
#include "levin/core/trainer.h"

namespace levin {

/// Compares how the run was set up over ranks: the Trainer's options, callbacks and loggers with their settings, and the
/// hyper-parameters of module and data. Ranks: all. Throws ConfigError on every rank, naming the first difference: it would
/// surface later as a hang or a wrong average.
void check_same_setup(const RunSetup& setup, const RunParts& parts, const RunOptions& run, Stage stage);

/// Compares the file that ranks have opened to go on from: each reads its own, and hosts may have another one under its name.
/// Ranks: all. Throws ConfigError on every rank, which names ranks and hosts.
void check_same_checkpoint(const RunSetup& setup, const std::filesystem::path& file);

/// Rank 0's seed_everything(), 0 without one: ranks that were seeded otherwise, each for its own random numbers, still divide
/// one order of samples. Ranks: all.
std::int64_t agreed_seed(const RunSetup& setup);

/// Compares the optimizers that configure_optimizers gave, as check_same_setup() does: with different ones the weights of ranks
/// would drift apart.
void check_same_optimizers(const RunSetup& setup, const RunParts& parts);

/// The same once more, after parameters have changed while training runs. Throws DesyncError likewise.
void check_same_changes_of_optimizers(const RunSetup& setup, const RunParts& parts);

/// Compares the data that ranks share: each reads its part of a DataLoader's samples, so that all must have the same. With
/// other numbers samples would be left out or seen twice, without a word, and with another version of a file on one host an
/// epoch would be none of any data; so their fingerprints are compared, too, where datasets have one. Loaders of a user's own
/// divide their data themselves, and are not compared. `what` names the loaders ("training"), `node_rank` the host among those
/// of the run. Ranks: all, with one exchange where ranks agree. Throws MisuseError on every rank, naming ranks, hosts and
/// numbers; of other values on ranks of one host, which have the same files, it warns only.
void check_same_data(ControlGroup& group, int node_rank, const std::string& what, const LoaderList& loaders);

/// A number for what a batch holds: names, shapes, types and values. Batches that are equal have the same, others hardly ever;
/// never 0. 0 for one with sparse or nested tensors, which are not compared.
std::int64_t batch_fingerprint(const Batch& batch);

/// What a rank tells the others of its first training batch of an epoch: a number for what it holds and, where its loader knows
/// them, for which samples of its data these are. Even: the samples are known. 0: nothing is known, ranks are not compared.
std::int64_t first_batch_mark(const Batch& batch, const std::optional<std::vector<std::int64_t>>& samples);

/// `first_batches`: the mark of each rank's first training batch of an epoch, 0 where it is not compared. When there are
/// several ranks and all have the same, each trains on the same samples as the others: throws MisuseError where the samples are
/// known, and warns where batches are equal that may be made up.
void check_different_batches(const std::vector<std::int64_t>& first_batches, std::int64_t epoch);

}  // namespace levin
