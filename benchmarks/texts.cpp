// Seconds to make tokens of 2,000 texts, 10 MB in all, with a byte-level BPE tokenizer of 8,000 tokens. One thread.
//
//     texts FOLDER        peers/texts.py makes the folder
#include <levin/levin.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "sample.h"

int main(int argc, char** argv) {
  return levin::run_main([&] {
    if (argc < 2) throw levin::MisuseError("usage: texts FOLDER");
    const std::filesystem::path folder = argv[1];
    std::vector<std::string> texts;
    std::ifstream file(folder / "texts.txt");
    for (std::string line; std::getline(file, line);) texts.push_back(line);
    const levin::Tokenizer tokenizer(folder / "tokenizer.json");
    const levin::benchmarks::Stopwatch watch;
    std::size_t tokens = 0;
    for (const std::string& text : texts) tokens += tokenizer.encode(text).size();
    const double seconds = watch.seconds();
    if (texts.size() != 2000 || tokens == 0) throw levin::Error("the folder has other texts");
    levin::benchmarks::print_sample(seconds);
  });
}
