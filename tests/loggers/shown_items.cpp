// Shows one of everything that a module can log, so that tensorboard_test.py can look for it.
#include <levin/levin.h>

#include <torch/torch.h>

#include <fstream>
#include <string>

namespace levin::test {
namespace {

class ShownItems : public Callback {
 public:
  void on_train_batch_end(Trainer& trainer, Module& module, const StepOutput&, const Batch&, std::int64_t batch_idx) override {
    if (batch_idx == 0) module.log_histogram("ramp", torch::arange(101, torch::kDouble) + trainer.current_epoch());
  }

  void on_validation_epoch_end(Trainer& trainer, Module& module) override {
    const std::int64_t epoch = trainer.current_epoch();
    module.log_image("ramps/grey", torch::linspace(0, 1, 12).reshape({3, 4}));
    module.log_image("ramps/colours", torch::arange(3 * 2 * 5).reshape({3, 2, 5}).to(torch::kByte) + epoch);
    module.log_image("digits", torch::full({10, 1, 8, 8}, 0.5));
    module.log_text("note", "epoch **" + std::to_string(epoch) + "** of rank " + std::to_string(trainer.rank()));
    module.log_table("errors", {{"image", "label"}, {{12, "seven"}, {epoch, "three"}}});
    const auto file = trainer.default_root_dir() / ("notes_" + std::to_string(trainer.rank()) + ".txt");
    std::ofstream(file) << "of rank " << trainer.rank();
    module.log_file("notes", file);
  }
};

LEVIN_REGISTER_CALLBACK(ShownItems, "One of everything");

}  // namespace
}  // namespace levin::test
