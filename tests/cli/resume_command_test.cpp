#include "levin/cli/resume_command.h"

#include <catch2/catch.hpp>

namespace levin::cli {

TEST_CASE("the command that resumes is the one that was typed, with the checkpoint in place of another, quoted for a shell") {
  CHECK(resume_command({"build/bin/levin", "fit", "--config", "run.yaml"}, "logs/version_0/checkpoints/epoch=3-step=40.ckpt") ==
        "build/bin/levin fit --config run.yaml --ckpt_path=logs/version_0/checkpoints/epoch=3-step=40.ckpt");
  CHECK(resume_command({"levin", "fit", "--ckpt_path=a.ckpt", "--trainer.max_epochs=2", "--ckpt_path", "b.ckpt"}, "c.ckpt") ==
        "levin fit --trainer.max_epochs=2 --ckpt_path=c.ckpt");
  CHECK(resume_command({"levin", "fit", "--model.text=it's $HOME", "--trainer.callbacks+=[Timer]", ""}, "a b.ckpt") ==
        "levin fit '--model.text=it'\\''s $HOME' '--trainer.callbacks+=[Timer]' '' '--ckpt_path=a b.ckpt'");
  CHECK(resume_command({"levin", "fit", "--init_from=w.pt", "--init_from", "v.pt"}, "c.ckpt", /*has_init_from=*/true) ==
        "levin fit --ckpt_path=c.ckpt --init_from=null");
}

}  // namespace levin::cli
