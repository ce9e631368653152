// SPDX-License-Identifier: MIT
#include "records.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>

#include "../../examples/language_model/options.hpp"
#include "../../examples/language_model/svg.hpp"
#include "headmix/io/file.hpp"

namespace trends {

std::vector<std::string> json_elements(std::string_view array) {
  std::vector<std::string> elements;
  for (std::size_t at = 1; at + 1 < array.size();) {
    std::size_t const n = bench::length_of_json(array.substr(at));
    elements.emplace_back(array.substr(at, n));
    at = std::max(at + 1, array.find_first_not_of(", ", at + n));
  }
  return elements;
}

std::vector<double> json_numbers(std::string_view array) {
  std::vector<double> numbers;
  for (std::size_t i = 0; i < array.size();) {
    double x{};
    auto const [end, error] = std::from_chars(array.data() + i, array.data() + array.size(), x);
    if (error == std::errc{}) {
      numbers.push_back(x);
      i = static_cast<std::size_t>(end - array.data());
    } else {
      ++i;
    }
  }
  return numbers;
}

std::string Record::text(std::string_view key) const { return bench::json_text(json, key); }

double Record::number(std::string_view key) const { return bench::json_number(json, key); }

Record make_record(std::vector<std::pair<std::string, std::string>> const& facts, std::string const& results,
                   std::string const& report, std::size_t parts) {
  std::string json = "{";
  for (auto const& [key, value] : facts) json += json_quoted(key) + ": " + value + ", ";
  auto const curve = json_numbers(json_value(report, "train_curve"));  // step, loss, step, loss
  std::size_t const steps = curve.size() / 2, part = std::max<std::size_t>(1, (steps + parts - 1) / parts);
  std::string means;
  for (std::size_t begin = 0; begin < steps; begin += part) {
    std::size_t const end = std::min(steps, begin + part);
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += curve[2 * i + 1];
    means += (means.empty() ? "[" : ", [") + std::to_string(end) + ", " +
             lm::fixed(sum / static_cast<double>(end - begin), 4) + "]";
  }
  json += "\"train_curve\": [" + means + "], ";
  for (std::string const key :
       {"validation_curve", "expert_loads", "ffn_expert_loads", "expert_information", "ffn_expert_information"}) {
    std::string const value = json_value(report, key);
    json += json_quoted(key) + ": " + (value.empty() ? "[]" : value) + ", ";
  }
  return {json + "\"results\": " + results + "}"};
}

Records::Records(std::string path) : path_(std::move(path)) {
  std::ifstream file(path_);
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    Record const record{line};
    std::string const words = record.text("options");
    if (words.empty() || json_value(line, "results").empty())
      throw lm::UsageError(path_ + ":" + std::to_string(number) +
                           ": expected a record with options and results, found " + lm::in_quotes(line));
    all_[words] = record;
    lines_.push_back(line);
  }
}

Record const* Records::find(std::string const& words) const {
  auto const found = all_.find(words);
  return found == all_.end() ? nullptr : &found->second;
}

void Records::add(Record record) {
  lines_.push_back(record.json);
  all_[record.text("options")] = std::move(record);
  std::string text;
  for (auto const& line : lines_) text += line + "\n";
  headmix::write_file(path_, text);
}

}  // namespace trends
