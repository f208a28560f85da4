// What ModelCheckpoint keeps in a checkpoint, and takes over from one.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/callbacks/model_checkpoint.h"
#include "levin/callbacks/top_k_checkpoints.h"
#include "levin/core/base/format.h"
#include "levin/core/console/console.h"

namespace levin {
namespace {

Value optional_number(std::optional<double> number) { return number ? Value(*number) : Value(); }

std::optional<double> read_optional_number(const Value* value) {
  if (value == nullptr || value->is_null()) return std::nullopt;
  return value->as_double();
}

Value texts(const std::vector<std::string>& texts) {
  Value list(Value::List{});
  for (const std::string& text : texts) list.push_back(text);
  return list;
}

/// None when the state is of an earlier levin, which did not know them.
std::vector<std::string> read_texts(const Value* list) {
  std::vector<std::string> texts;
  if (list == nullptr) return texts;
  for (const Value& text : list->as_list()) texts.push_back(text.as_string());
  return texts;
}

std::string read_text(const Value* value) { return value == nullptr || value->is_null() ? "" : value->as_string(); }

}  // namespace

Value ModelCheckpoint::state_dict() const {
  Value state(Value::Map{});
  state["monitor"] = options_.monitor ? Value(*options_.monitor) : Value();
  state["best_model_score"] = optional_number(best_model_score_);
  state["best_model_path"] = best_model_path_;
  state["current_score"] = optional_number(current_score_);
  state["dirpath"] = dirpath_;
  Value files(Value::Map{});
  for (const auto& [file, score] : top_k_->files()) files[file] = score;
  state["best_k_models"] = std::move(files);
  state["kth_best_model_path"] = top_k_->kth_file();
  state["kth_value"] = top_k_->kth_value();
  state["last_model_path"] = last_model_path_;
  // Beyond Lightning's keys: the file this state goes into, which a run that goes on from it must not remove.
  state["saved_as"] = written_file_;
  state["decisions"] = decisions();
  return state;
}

Value ModelCheckpoint::decisions() const {
  Value decisions(Value::Map{});
  decisions["decided_step"] = decided_step_;
  decisions["last_saved_step"] = last_saved_step_;
  decisions["triggered_step"] = triggered_step_;
  decisions["validated_step"] = validated_step_;
  decisions["waits_for_validation"] = waits_for_validation_;
  decisions["measured_in_validation"] = measured_in_validation_;
  decisions["validation_has_run"] = validation_has_run_;
  decisions["score_before_validation"] = optional_number(score_before_validation_);
  decisions["exceptional_file"] = exceptional_file_;
  decisions["unranked"] = texts(unranked_);
  decisions["displaced"] = texts(displaced_);
  return decisions;
}

void ModelCheckpoint::load_decisions(const Value& decisions) {
  resumed_ = decisions.at("triggered_step").as_int() >= 0;  // else training had not begun
  decided_step_ = decisions.at("decided_step").as_int();
  last_saved_step_ = decisions.at("last_saved_step").as_int();
  triggered_step_ = decisions.at("triggered_step").as_int();
  validated_step_ = decisions.at("validated_step").as_int();
  waits_for_validation_ = decisions.at("waits_for_validation").as_bool();
  measured_in_validation_ = decisions.at("measured_in_validation").as_bool();
  validation_has_run_ = decisions.at("validation_has_run").as_bool();
  score_before_validation_ = read_optional_number(decisions.find("score_before_validation"));
  exceptional_file_ = decisions.at("exceptional_file").as_string();
  displaced_ = read_texts(decisions.find("displaced"));
  unranked_ = read_texts(decisions.find("unranked"));
}

void ModelCheckpoint::load_state_dict(const Value& state) {
  if (const Value* decisions = state.find("decisions")) load_decisions(*decisions);
  best_model_path_ = read_text(state.find("best_model_path"));
  const std::string saved_in = read_text(state.find("dirpath"));
  if (saved_in != dirpath_) {
    rank_zero_warn(
        format("ModelCheckpoint: the checkpoint was saved by a run that kept its files in '{}'; this one uses '{}'. Of its "
               "state only best_model_path is taken over: the files there stay, and count no more.",
               saved_in, dirpath_));
    displaced_.clear();
    unranked_.clear();
    return;
  }
  best_model_score_ = read_optional_number(state.find("best_model_score"));
  current_score_ = read_optional_number(state.find("current_score"));
  last_model_path_ = read_text(state.find("last_model_path"));
  resumed_file_ = read_text(state.find("saved_as"));
  std::vector<std::pair<std::string, double>> files;
  if (const Value* kept = state.find("best_k_models")) {
    for (const auto& [file, score] : kept->as_map()) files.emplace_back(file, score.as_double());
  }
  for (std::string& file : top_k_->restore(std::move(files))) displaced_.push_back(std::move(file));
  while (options_.save_top_k >= 0 && unranked_.size() > static_cast<std::size_t>(options_.save_top_k)) {
    displaced_.push_back(unranked_.front());
    unranked_.erase(unranked_.begin());
  }
  // It was written on the way out of a run that goes on here.
  if (!resumed_file_.empty() && resumed_file_ == exceptional_file_) displaced_.push_back(resumed_file_);
}

}  // namespace levin
