// Shows one of everything that a module can log, so that tensorboard_test.py and mlflow_test.py can look for it.
#include <levin/levin.h>

#include <torch/torch.h>

#include <fstream>
#include <stdexcept>
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
    const FigureLabels names{
        .x_label = "taken for", .y_label = "is", .columns = {"cat", "dog", "bird"}, .rows = {"cat", "dog", "bird"}};
    module.log_figure("confusion", Figure::heat_map(torch::tensor({{31, 4, 2}, {6, 28, 0}, {1, 3, 40}}) + epoch, names));
    const at::Tensor share = torch::linspace(0, 1, 50);
    module.log_figure(
        "roc", Figure::lines({{"cat", share.pow(0.3), share}, {"dog", share.pow(0.5), share}},
                             {.title = "Receiver operating characteristic", .x_label = "fall-out", .y_label = "sensitivity"}));
    module.log_figure("accuracy", Figure::bars({{"training", torch::tensor({0.92, 0.87, 0.97})},
                                                {"validation", torch::tensor({0.84, 0.82, 0.91})}},
                                               {.y_label = "accuracy", .columns = names.columns}));
    const auto file = trainer.default_root_dir() / ("notes_" + std::to_string(trainer.rank()) + ".txt");
    // It stays as it is from then on: loggers copy it when they come to it.
    if (!std::filesystem::exists(file)) std::ofstream(file) << "of rank " << trainer.rank();
    module.log_file("notes", file);
  }
};

class FailsInStep5 : public Callback {
 public:
  void on_train_batch_start(Trainer& trainer, Module&, const Batch&, std::int64_t) override {
    if (trainer.global_step() == 5) throw std::runtime_error("broken on purpose");
  }
};

LEVIN_REGISTER_CALLBACK(ShownItems, "One of everything");
LEVIN_REGISTER_CALLBACK(FailsInStep5, "Ends the run with an error");

}  // namespace
}  // namespace levin::test
