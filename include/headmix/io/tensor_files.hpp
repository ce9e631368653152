#pragma once
// SPDX-License-Identifier: MIT
// The tensors of a checkpoint in one file or in several, as Hugging Face stores large models: an index
// (model.safetensors.index.json) has the file of each tensor.

#include <memory>
#include <set>

#include "headmix/io/safetensors.hpp"

namespace headmix {

/// The tensors of one or several mapped files, valid as long as this object.
class TensorFiles {
 public:
  /// Maps the files of a path:
  /// - a safetensors file;
  /// - an index, a JSON file with `weight_map`, whose files lie beside it;
  /// - a folder with model.safetensors.index.json or model.safetensors.
  /// An Error names a file, an entry or a tensor that is missing, in two files, or in none of the index.
  [[nodiscard]] static TensorFiles open(std::string const& path) {
    TensorFiles all(path);
    std::string const folder = path.empty() || path.back() == '/' ? path : path + '/';
    if (detail::is_folder(path)) {
      std::string const index = folder + "model.safetensors.index.json", file = folder + "model.safetensors";
      if (detail::is_file(index)) {
        all.add_index(index);
      } else if (detail::is_file(file)) {
        all.add_file(file);
      } else {
        fail(path, ": expected model.safetensors.index.json or model.safetensors in the folder, found none");
      }
    } else if (path.ends_with(".json")) {
      all.add_index(path);
    } else {
      all.add_file(path);
    }
    return all;
  }

  /// The tensors of all files.
  [[nodiscard]] TensorMap const& tensors() const { return tensors_; }
  /// The path, for errors.
  [[nodiscard]] std::string const& name() const { return name_; }
  /// The number of files.
  [[nodiscard]] std::size_t files() const { return files_.size(); }

 private:
  explicit TensorFiles(std::string name) : name_(std::move(name)) {}

  Safetensors const& add_file(std::string const& path) {
    files_.push_back(std::make_unique<Safetensors>(Safetensors::map(path)));
    for (auto const& [name, t] : files_.back()->tensors()) {
      if (!tensors_.emplace(name, t).second) fail(path, ": ", shown(name), ": the tensor is in another file, too");
    }
    return *files_.back();
  }
  void add_index(std::string const& path) {
    InputFile file(path);
    auto const bytes = read_bytes(file, detail::max_header);
    std::map<std::string, std::set<std::string>, std::less<>> tensors_of;  // by file
    JsonReader json({reinterpret_cast<char const*>(bytes.data()), bytes.size()}, path);
    bool found = false;
    json.object([&](std::string const& key) {
      if (key != "weight_map") return json.skip();
      found = true;
      json.object([&](std::string const& tensor) {
        std::string const in = json.string();
        if (in.empty() || in == "." || in == ".." || in.find_first_of("/\\") != in.npos) {
          json.reject("the name of a file beside the index", shown(in));
        }
        tensors_of[in].insert(tensor);
      });
    });
    json.end();
    if (!found) fail(path, ": expected an object with weight_map, found none");
    std::string const folder = path.substr(0, path.rfind('/') + 1);
    for (auto const& [name, listed] : tensors_of) {
      auto const& tensors = add_file(folder + name).tensors();
      for (auto const& tensor : listed) {
        if (tensors.find(tensor) == tensors.end()) {
          fail(path, ": ", shown(tensor), ": expected the tensor in ", name, ", found none there");
        }
      }
      for (auto const& [tensor, t] : tensors) {
        if (listed.count(tensor) == 0) {
          fail(path, ": ", shown(tensor), ": the tensor is in ", name, ", but not in the index");
        }
      }
    }
  }

  std::string name_;
  std::vector<std::unique_ptr<Safetensors>> files_;
  TensorMap tensors_;
};

}  // namespace headmix
