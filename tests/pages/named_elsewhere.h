#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <levin/levin.h>
#include <torch/torch.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

// What the excerpts of the pages name, and what their readers have: a network, data, an application. It is compiled, never run.

namespace nn = torch::nn;

struct Options {
  std::int64_t channels = 32;
  double lr = 1e-3;
};

struct Net : levin::Module {
  using Options = ::Options;
  Net() = default;
  explicit Net(const Options&) {}
  levin::OptimizerSetups configure_optimizers() override { return levin::SGD(parameters(), 0.1); }
  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override { return batch["loss"]; }
};
struct MyModule : Net {};
struct Digits : Net {
  using Net::Net;
};
struct MyData : levin::DataModule {};
struct MyCallback : levin::Callback {};

struct PageDataset : levin::SampleDataset {
  std::int64_t size() const override { return images_.size(0); }
  levin::Batch get_sample(std::int64_t index) const override { return {{"image", images_[index]}, {"label", labels_[index]}}; }
  at::Tensor images_, labels_;
};
struct Faces : PageDataset {};
struct HardestFirst : levin::Sampler {
  std::vector<std::int64_t> order(const levin::EpochKey& key) const override;
  bool shuffles() const override { return true; }
};

at::Tensor forward(const at::Tensor& x);
at::Tensor area_under_curve(const at::Tensor& scores);
at::Tensor blend(const at::Tensor& x, double share);
at::Tensor numbers_in(const std::string& line);
at::Tensor encode(const std::string& text);
levin::Batch pad(std::span<const levin::Batch> samples);
void application_log(const std::string& text);
levin::TrainerOptions make_options();
levin::LoaderPtr make_data();
void draw_samples(const std::filesystem::path& folder);
void send(const std::string& name, std::int64_t step, const std::string& bytes);
std::optional<levin::Batch> play_episode(at::Generator& random);

struct World {
  bool is_running() const;
  levin::Batch observe() const;
  void act(const levin::Batch& action);
  levin::Batch experience(std::int64_t samples) const;
  levin::Value state() const;
  void set_state(const levin::Value& state);
};

struct Robot {
  bool is_on() const;
  void read(float* state);
  void act(float action);
};
struct Request {
  std::string color;
  double weight;
};
std::vector<char> read_file(const std::filesystem::path& file);

struct CartPole : levin::Environment {
  explicit CartPole(std::uint64_t seed);
  at::Tensor reset() override;
  levin::Transition step(const at::Tensor& action) override;
};

struct Network : torch::nn::Module {
  std::shared_ptr<torch::nn::Module> backbone;
};

extern levin::TrainerOptions options;
extern levin::Trainer trainer;
extern Net module;
extern MyData data;
extern levin::Session session;
extern World world;
extern Robot robot;
extern std::vector<Request> requests;
extern const levin::Predictor predictor;
extern levin::VectorEnvironment environments;
extern levin::ReplayBuffer replay;
extern levin::RolloutBuffer rollout;
extern std::shared_ptr<Network> network;
extern std::shared_ptr<PageDataset> dataset;
extern at::Tensor images, labels, scores, training, validation, sensitivity, fall_out, counts, rows, x;
extern std::vector<std::int64_t> lengths;
extern int files;
extern double best;
extern std::filesystem::path folder;
extern std::vector<std::string> kNames;

struct PageModule : Net {
  std::vector<at::Tensor> scores_;
  levin::LoaderPtr few_, many_;
  at::Tensor samples_, latent_;
  std::shared_ptr<torch::nn::Module> backbone_;
  torch::nn::Linear block_ = nullptr;
  torch::nn::Sequential layers_;
  levin::ConfusionMatrix* confusion_ = nullptr;
  at::Tensor loss;
};
