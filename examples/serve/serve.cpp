// Serves the predictions of a trained model over HTTP, from two threads: serve CHECKPOINT PORT [PLUG-IN …]
#include <httplib.h>
#include <levin/levin.h>

#include <nlohmann/json.hpp>

namespace {

using Json = nlohmann::json;

levin::Value value_of(const Json& json) {
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_boolean()) return json.get<bool>();
  return {};
}

/// [{"color": "red", "weight": 3.5}, …]
std::vector<levin::Value> records_of(const Json& list) {
  std::vector<levin::Value> records;
  for (const Json& each : list) {
    levin::Value record(levin::Value::Map{});
    for (const auto& [name, value] : each.items()) record[name] = value_of(value);
    records.push_back(std::move(record));
  }
  return records;
}

/// [[0, 1, …], …], in the 64 bits that a table is read with.
torch::Tensor rows_of(const Json& list) {
  const auto rows = list.get<std::vector<std::vector<double>>>();
  std::vector<torch::Tensor> tensors;
  for (const auto& row : rows) tensors.push_back(torch::tensor(row, torch::kDouble));
  return torch::stack(tensors);
}

Json json_of(const torch::Tensor& tensor) {
  if (tensor.dim() == 0) return tensor.is_floating_point() ? Json(tensor.item<double>()) : Json(tensor.item<std::int64_t>());
  Json list = Json::array();
  for (const torch::Tensor& part : tensor.unbind()) list.push_back(json_of(part));
  return list;
}

Json answer(const levin::Predictor& predictor, const Json& request) {
  const levin::Batch prediction = request.contains("records") ? predictor.predict_records(records_of(request.at("records")))
                                                              : predictor.predict(rows_of(request.at("features")));
  Json result;
  for (const auto& [name, tensor] : prediction.items()) result[name] = json_of(tensor);
  const std::vector<std::string>& classes = predictor.facts().class_names;
  if (!classes.empty() && result.contains("label")) {
    for (const Json& label : result["label"]) result["class"].push_back(classes.at(label));
  }
  return result;
}

void refuse(httplib::Response& response, const std::string& reason) {
  response.status = 400;
  response.set_content(Json{{"error", reason}}.dump(), "application/json");
}

}  // namespace

int main(int argc, char** argv) {
  return levin::run_main([&] {
    if (argc < 3) throw levin::MisuseError("usage: serve CHECKPOINT PORT [PLUG-IN …]");
    torch::set_num_threads(1);  // for each of the two that answer
    const auto predictor = levin::Predictor::load(argv[1], {.plugins = {argv + 3, argv + argc}});
    httplib::Server server;
    server.new_task_queue = [] { return new httplib::ThreadPool(2); };
    server.Post("/predict", [&](const httplib::Request& request, httplib::Response& response) {
      try {
        response.set_content(answer(predictor, Json::parse(request.body)).dump(), "application/json");
      } catch (const c10::Error& error) {  // of the request
        refuse(response, error.what_without_backtrace());
      } catch (const std::exception& error) {
        refuse(response, error.what());
      }
    });
    const int port = std::stoi(argv[2]);
    std::cout << "serving " << argv[1] << " on http://localhost:" << port << "/predict" << std::endl;
    if (!server.listen("localhost", port)) throw levin::IoError(std::string("cannot listen on port ") + argv[2]);
  });
}
