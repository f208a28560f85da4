// Runs a .pt2 of `levin export --to program` with LibTorch alone: run_program FILE ROWS COLUMNS <numbers. A line for each
// output.
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/torch.h>

#include <iostream>
#include <limits>
#include <string>

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const at::Tensor rows = torch::empty({std::stol(argv[2]), std::stol(argv[3])}, torch::kDouble);
  for (std::int64_t index = 0; index < rows.numel(); ++index) std::cin >> rows.mutable_data_ptr<double>()[index];
  torch::inductor::AOTIModelPackageLoader loader(argv[1]);
  std::cout.precision(std::numeric_limits<double>::max_digits10);
  for (const at::Tensor& output : loader.run({rows})) {
    for (std::int64_t index = 0; index < output.numel(); ++index) std::cout << output.view(-1)[index].item<double>() << ' ';
    std::cout << '\n';
  }
}
