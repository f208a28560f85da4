// remote_program copy PLACE… | list PATTERN | upload FILE PLACE | samples PATTERN: what the test of remote files asks for.
#include <iostream>
#include <string>
#include <vector>

#include "levin/core/files/remote_file.h"
#include "levin/data/shards.h"

int main(int count, char** words) {
  const std::vector<std::string> given(words + 1, words + count);
  try {
    const std::string action = given.at(0);
    if (action == "copy") {
      for (std::size_t place = 1; place < given.size(); ++place) std::cout << levin::local_copy(given[place]).string() << '\n';
    } else if (action == "list") {
      for (const std::string& place : levin::remote_matches(given.at(1))) std::cout << place << '\n';
    } else if (action == "samples") {
      auto reader = levin::from_shards(given.at(1)).read();
      while (const auto sample = reader.next()) std::cout << sample->key << ' ' << (*sample)["txt"] << '\n';
    } else {
      levin::upload_file(given.at(1), given.at(2));
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
