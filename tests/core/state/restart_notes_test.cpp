#include "levin/core/state/restart_notes.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "levin/core/files/atomic_file.h"
#include "levin/strategies/world/process_world.h"
#include "support/temporary_folder.h"

using levin::RestartNotes;
using levin::test::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

/// Stores texts up to a length.
class SmallRoom : public levin::JobRankGroup {
 public:
  explicit SmallRoom(std::size_t longest) : longest_(longest) {}

  std::string restart_state() const override { return stored_; }
  bool store_restart_state(const std::string& text) override {
    if (text.size() > longest_) return false;
    stored_ = text;
    return true;
  }

  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  int local_rank() const override { return 0; }
  int node_rank() const override { return 0; }
  levin::ControlGroup& control_group() override { return alone_.control_group(); }
  levin::VoteChannel& vote_channel() override { return alone_.vote_channel(); }
  at::Tensor all_gather(const at::Tensor& tensor, levin::SourceLocation) override { return tensor; }
  at::Tensor all_reduce(const at::Tensor& tensor, const std::string&, levin::SourceLocation) override { return tensor; }
  at::Tensor broadcast(const at::Tensor& tensor, int, levin::SourceLocation) override { return tensor; }
  void barrier(const std::string&, levin::SourceLocation) override {}
  void post_whereabouts(const levin::Whereabouts&) override {}
  void report_failure(const levin::Whereabouts&, const std::exception_ptr&) noexcept override {}

 private:
  std::size_t longest_;
  std::string stored_;
  levin::SingleRankGroup alone_;
};

}  // namespace

TEST_CASE("notes for a restart that are too long lose their oldest checkpoints, not the newest") {
  const TemporaryFolder folder;
  const std::size_t longest = 40 * (folder.path().native().size() + 50);
  SmallRoom ranks(longest);
  RestartNotes notes(ranks, 0, {});
  notes.note_loggers({"logs/version_0"});
  for (int file = 0; file < 90; ++file) {
    const fs::path path = folder / (std::to_string(100 + file) + ".ckpt");
    levin::write_file(path, "x");
    notes.note_checkpoint(path, /*alone=*/false);
    CHECK(ranks.restart_state().find(path.filename().string()) != std::string::npos);
  }
  CHECK(ranks.restart_state().size() <= longest);
  const RestartNotes later(ranks, 0, ranks.restart_state());
  CHECK(later.logger_tokens() == std::vector<std::string>{"logs/version_0"});
}

TEST_CASE("many fits of one program each find their notes") {
  const TemporaryFolder folder;
  SmallRoom ranks(std::size_t{1} << 20U);
  constexpr std::size_t kFits = 50;
  for (std::size_t fit = 0; fit < kFits; ++fit) {
    RestartNotes notes(ranks, fit, {});
    notes.note_loggers({"logs/version_" + std::to_string(fit)});
    const fs::path path = folder / (std::to_string(fit) + ".ckpt");
    levin::write_file(path, "x");
    notes.note_checkpoint(path, /*alone=*/false);
  }
  for (std::size_t fit = 0; fit < kFits; ++fit) {
    const RestartNotes later(ranks, fit, ranks.restart_state());
    CHECK(later.logger_tokens() == std::vector<std::string>{"logs/version_" + std::to_string(fit)});
  }
}
