#include "levin/callbacks/on_exception_checkpoint.h"

#include <c10/util/Logging.h>  // first: Catch2 has a CHECK too

#include <catch2/catch.hpp>
#include <fstream>

#include "callbacks/scripted_run.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

TEST_CASE("a run that fails leaves its state, one that ends well does not") {
  TemporaryFolder folder;
  const auto saving = std::make_shared<OnExceptionCheckpoint>(OnExceptionCheckpointOptions{.dirpath = folder / "failed"});
  ScriptedRun run(1, {saving});
  run.options.enable_checkpointing = true;
  ScriptedModule module;
  module.throw_at_batch = 2;
  CHECK_THROWS_WITH(run.fit(module, 4), "scripted failure");
  REQUIRE(file_names(folder / "failed") == std::set<std::string>{"on_exception.ckpt"});
  CHECK(Checkpoint::load(saving->ckpt_path()).manifest.at("global_step") == Value(2));
  ScriptedModule healthy;
  run.fit(healthy, 4);
  CHECK(file_names(folder / "failed").empty());
  std::ofstream(saving->ckpt_path()) << "another program's";
  run.fit(healthy, 4);
  CHECK(file_names(folder / "failed") == std::set<std::string>{"on_exception.ckpt"});

  for (const char* name : {"../x", "a/../../x", "/tmp/x"}) {
    CHECK_THROWS_WITH(OnExceptionCheckpoint({.dirpath = folder / "failed", .filename = name}),
                      Catch::Contains("leads out of dirpath"));
  }
}
