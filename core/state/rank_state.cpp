#include "levin/core/state/rank_state.h"

#include <ATen/core/Dict.h>

#include <string>

#include "levin/core/base/format.h"
#include "levin/core/config/value_json.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/run/pickled_values.h"
#include "levin/core/state/run_sections.h"

namespace levin {

std::vector<RankState> gather_rank_states(TrainerState& run) {
  if (run.world_size() == 1) return {run.sections->save_own(run)};
  // Gradients that wait for more batches are as large as the model.
  std::uint64_t longest = RankExchange::kLongestText;
  for (const at::Tensor& parameter : run.module().parameters()) longest += 2 * parameter.nbytes();
  // Rows of metric objects are as long as the data.
  longest += std::uint64_t{1} << 36;
  const ExchangeSite site("gathering the ranks' states for a checkpoint",
                          "all have agreed to write one, or to end for a signal");
  const RankState own = run.sections->save_own(run);
  c10::Dict<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : own.tensors) tensors.insert(name, tensor);
  const std::string message = pickled({to_json(own.manifest), tensors});
  std::vector<RankState> states;
  for (const std::string& bytes : run.rank_exchange().gather_text_to_rank_zero(message, site, longest)) {
    const auto parts = unpickled(bytes);
    RankState& state = states.emplace_back();
    state.manifest = parse_json(parts[0].toStringRef());
    for (const auto& entry : parts[1].toGenericDict()) state.tensors[entry.key().toStringRef()] = entry.value().toTensor();
  }
  return states;
}

void save_rank_states(const std::vector<RankState>& states, Checkpoint& checkpoint) {
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    // Of tensors that ranks share, insert() leaves rank 0's.
    checkpoint.tensors.insert(states[rank].tensors.begin(), states[rank].tensors.end());
    checkpoint.manifest["ranks"][std::to_string(rank)] = states[rank].manifest;
  }
}

void keep_rank_states(TrainerState& run) {
  if (run.resume.replaying) return;
  try {
    run.resume.rank_states_at_end = gather_rank_states(run);
    for (std::size_t index = 0; index < run.parts.optimizers.size(); ++index) {
      run.strategy().keep_optimizer(*run.parts.optimizers[index], index);
    }
  } catch (const std::exception&) {
    // Another rank has failed, which others report; a checkpoint then has only rank 0's state.
  }
}

}  // namespace levin
