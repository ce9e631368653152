#pragma once
// SPDX-License-Identifier: MIT
// The trainings that are done: a file of JSON objects, one a line, which is kept in the repository.

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../json.hpp"

namespace trends {

using bench::json_quoted, bench::json_value;

/// The numbers of an array, of arrays of numbers one after another.
[[nodiscard]] std::vector<double> json_numbers(std::string_view array);
/// The elements of an array of arrays, or of strings.
[[nodiscard]] std::vector<std::string> json_elements(std::string_view array);

struct Record {
  std::string json;

  [[nodiscard]] std::string text(std::string_view key) const;  ///< of a string
  [[nodiscard]] double number(std::string_view key) const;     ///< not a number where there is none
};

/// What a run leaves, as one line: the results of headmix-lm, and of its report the curves and the loads. The training
/// curve is cut into `parts` means.
[[nodiscard]] Record make_record(std::vector<std::pair<std::string, std::string>> const& facts,
                                 std::string const& results, std::string const& report, std::size_t parts);

class Records {
 public:
  /// Reads them; a file that is not there has none.
  explicit Records(std::string path);
  /// Null if it is not done. By the words of the training.
  [[nodiscard]] Record const* find(std::string const& words) const;
  /// Adds one to the file, which at any time is the old or the new one as a whole.
  void add(Record record);

 private:
  std::string path_;
  std::map<std::string, Record> all_;
  std::vector<std::string> lines_;
};

}  // namespace trends
