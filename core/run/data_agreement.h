#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "levin/core/batch.h"
#include "levin/core/data_module.h"
#include "levin/core/protocol/control_group.h"

namespace levin {

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

/// `first_batches`: the fingerprint of each rank's first training batch of an epoch, 0 where it is not compared. Throws
/// MisuseError when there are several ranks and all have the same: each would train on the same samples as the others.
void check_different_batches(const std::vector<std::int64_t>& first_batches, std::int64_t epoch);

}  // namespace levin
